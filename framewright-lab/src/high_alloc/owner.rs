//! Reclaim's questions about pages of files: who uses them is known by calls, not by page tables.

#![allow(unsafe_code)]

use framewright::{
    Pfn,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Throttle, Unmapped, WriteOut},
    tlb::FlushBatch,
};
use framewright_sim::{engine::Machine, one_thread::OneThread, platform::Simulated};

use super::{
    files::FileId,
    frames::{CLAIMED, DIRTY, Frame, Holds, LOCKED, WRITEBACK},
    kernel::State,
};

/// The owner of all pages.
pub(super) struct Owner<'o, 'm>(OneThread<(&'o State<'m>, &'o Machine)>);

impl<'o, 'm> Owner<'o, 'm> {
    pub(super) fn new(state: &'o State<'m>, machine: &'o Machine) -> Self {
        Self(OneThread::new((state, machine)))
    }

    fn state(&self) -> &'o State<'m> {
        self.0.get().0
    }

    fn frame(&self, pfn: Pfn) -> &'o Frame {
        self.state().frames.at(pfn.get() as u32)
    }

    fn work(&self, cycles: u64) {
        if let Some(cpu) = self.0.get().1.current() {
            cpu.work(cycles);
        }
    }
}

// SAFETY: pages of files are added to the lists as frames that were allocated as blocks of order 0 and
// taken apart; what is released is in no file any more, and nobody uses its frame until it is allocated.
unsafe impl PageOwner<Simulated> for Owner<'_, '_> {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        for (&pfn, out) in frames.iter().zip(out) {
            let frame = self.frame(pfn);
            let cached = matches!(frame.holds.get(), Holds::Cached { .. });
            *out = (cached && !frame.is(LOCKED | CLAIMED)).then(|| {
                frame.mark(LOCKED);
                PageState {
                    dirty: frame.is(DIRTY),
                    writeback: frame.is(WRITEBACK),
                    ..PageState::default()
                }
            });
        }
    }

    fn unlock(&self, frames: &[Pfn]) {
        frames.iter().for_each(|&pfn| self.frame(pfn).unmark(LOCKED));
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        self.work(frames.len() as u64 * self.state().costs.look);
        out.fill(Reference::default());
    }

    fn unmap(&self, frames: &[Pfn], _: &mut FlushBatch<'_, '_, Simulated>, out: &mut [Unmapped]) {
        for (&pfn, out) in frames.iter().zip(out) {
            *out = Unmapped::Gone { dirty: self.frame(pfn).is(DIRTY) };
        }
    }

    fn write_out(&self, _: &[Pfn], out: &mut [WriteOut]) {
        // The daemon writes, many pages at a time.
        self.state().files.writers_wanted.set(true);
        out.fill(WriteOut::Refused);
    }

    fn release(&self, frames: &[Pfn], _: &[Shadow], out: &mut [Released]) {
        for (&pfn, out) in frames.iter().zip(out) {
            self.work(self.state().costs.release);
            let frame = self.frame(pfn);
            *out = match frame.holds.get() {
                Holds::Cached { .. } if frame.is(DIRTY | WRITEBACK) => Released::Dirty,
                Holds::Cached { file, index } => {
                    self.state().files.remove(FileId(file), index);
                    frame.clear();
                    Released::Released
                }
                _ => Released::Busy,
            };
        }
    }

    fn has_writers(&self) -> bool {
        true
    }

    fn wake_writers(&self) {
        self.state().files.writers_wanted.set(true);
    }

    /// A tenth of what would be the longest: what is waited for here, the store, is not that slow.
    fn pause(&self, why: Throttle) {
        let Some(cpu) = self.0.get().1.current() else { return };
        let nanos = why.at_most() / 10;
        cpu.sleep_until(cpu.now() + nanos * 1000 / cpu.model().nanos_per_1000_cycles.max(1));
    }
}
