//! Reclaim's questions about pages of files: who uses them is known by calls, not by page tables.

#![allow(unsafe_code)]

use framewright::{
    Pfn,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Throttle, Unmapped, WriteOut},
    tlb::FlushBatch,
};

use super::{
    files::FileId,
    frames::{CLAIMED, DIRTY, Frame, Holds, LOCKED, WRITEBACK},
    kernel::State,
    world::{Inside, OnCpu, World},
};

/// The owner of all pages.
pub(super) struct Owner<'o, 'm, W: World>(Inside<(&'o State<'m, W>, &'o W)>);

impl<'o, 'm, W: World> Owner<'o, 'm, W> {
    pub(super) fn new(state: &'o State<'m, W>, world: &'o W) -> Self {
        // SAFETY: every answer begins with `World::inside`.
        Self(unsafe { Inside::new((state, world)) })
    }

    fn world(&self) -> &'o W {
        self.0.1
    }

    fn state(&self) -> &'o State<'m, W> {
        self.0.0
    }

    fn frame(&self, pfn: Pfn) -> &'o Frame {
        self.state().frames.at(pfn.get() as u32)
    }

    /// Answers for each frame.
    fn each<A>(&self, frames: &[Pfn], out: &mut [A], answer: impl Fn(Pfn) -> A) {
        let answers = frames.iter().zip(out);
        self.world().inside(|| answers.for_each(|(&pfn, out)| *out = answer(pfn)));
    }

    fn work(&self, cycles: u64) {
        if let Some(cpu) = self.world().current() {
            cpu.work(cycles);
        }
    }
}

// SAFETY: pages of files are added to the lists as frames that were allocated as blocks of order 0 and
// taken apart; what is released is in no file any more, and nobody uses its frame until it is allocated.
unsafe impl<W: World> PageOwner<W::Platform> for Owner<'_, '_, W> {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        self.each(frames, out, |pfn| {
            let frame = self.frame(pfn);
            let cached = matches!(frame.holds(), Holds::Cached { .. });
            (cached && !frame.is(LOCKED | CLAIMED)).then(|| {
                frame.mark(LOCKED);
                PageState {
                    dirty: frame.is(DIRTY),
                    writeback: frame.is(WRITEBACK),
                    ..PageState::default()
                }
            })
        });
    }

    fn unlock(&self, frames: &[Pfn]) {
        let unlock = |&pfn: &Pfn| self.frame(pfn).unmark(LOCKED);
        self.world().inside(|| frames.iter().for_each(unlock));
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        self.work(frames.len() as u64 * self.state().costs.look);
        out.fill(Reference::default());
    }

    fn unmap(&self, frames: &[Pfn], _: &mut FlushBatch<'_, '_, W::Platform>, out: &mut [Unmapped]) {
        self.each(frames, out, |pfn| Unmapped::Gone { dirty: self.frame(pfn).is(DIRTY) });
    }

    fn write_out(&self, _: &[Pfn], out: &mut [WriteOut]) {
        // The daemon writes, many pages at a time.
        self.wake_writers();
        out.fill(WriteOut::Refused);
    }

    fn release(&self, frames: &[Pfn], _: &[Shadow], out: &mut [Released]) {
        self.each(frames, out, |pfn| {
            self.work(self.state().costs.release);
            let frame = self.frame(pfn);
            match frame.holds() {
                Holds::Cached { .. } if frame.is(DIRTY | WRITEBACK) => Released::Dirty,
                Holds::Cached { file, index } => {
                    self.state().files.remove(FileId(file), index);
                    frame.clear();
                    Released::Released
                }
                _ => Released::Busy,
            }
        });
    }

    fn has_writers(&self) -> bool {
        true
    }

    fn wake_writers(&self) {
        self.world().inside(|| self.state().files.writers_wanted.set(true));
    }

    /// A tenth of what would be the longest: what is waited for here, the store, is not that slow.
    fn pause(&self, why: Throttle) {
        let Some(cpu) = self.world().current() else { return };
        let nanos = why.at_most() / 10;
        cpu.sleep_until(cpu.now() + self.world().ticks(nanos));
    }
}
