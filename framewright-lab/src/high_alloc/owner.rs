//! The page owner for reclaim. Accesses to file pages are recorded by calls (`Lru::mark_accessed`),
//! accesses of programs by the flag [`YOUNG`] of the frame.

#![allow(unsafe_code)]

use framewright::{
    Pfn,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Unmapped, WriteOut},
    tlb::Unmapping,
};

use super::{
    files::FileId,
    frames::{CLAIMED, DIRTY, Frame, Holds, LOCKED, UNMAPPED, WRITEBACK, YOUNG},
    kernel::State,
    program::SWAPPED,
    world::{Locked, OnCpu, World},
};

/// The owner of all pages.
pub(super) struct Owner<'o, 'm, W: World>(Locked<(&'o State<'m, W>, &'o W)>);

impl<'o, 'm, W: World> Owner<'o, 'm, W> {
    pub(super) fn new(state: &'o State<'m, W>, world: &'o W) -> Self {
        // SAFETY: every method starts with `World::with_lock`.
        Self(unsafe { Locked::new((state, world)) })
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

    /// Calls `answer` for each frame.
    fn each<A>(&self, frames: &[Pfn], out: &mut [A], answer: impl Fn(Pfn) -> A) {
        let answers = frames.iter().zip(out);
        self.world().with_lock(|| answers.for_each(|(&pfn, out)| *out = answer(pfn)));
    }

    /// Unmaps a page of a program.
    fn unmap_one(&self, pfn: Pfn, batch: &mut Unmapping<'_, '_, '_, W::Platform>) {
        let (frame, world) = (self.frame(pfn), self.world());
        let Holds::Anonymous { builder, index } = frame.holds() else { return };
        if let Some(cpu) = world.current()
            && !frame.is(UNMAPPED)
        {
            frame.mark(UNMAPPED);
            cpu.work(self.state().costs.unmap);
            world.unmap(cpu, &self.state().programs[builder as usize].space, index, pfn, batch);
        }
    }

    fn work(&self, cycles: u64) {
        if let Some(cpu) = self.world().current() {
            cpu.work(cycles);
        }
    }
}

// SAFETY: each page on the lists is in a frame that was allocated as a block of order 0. A released
// page is in no file and no program any more, and its frame is not used until it is allocated
// again.
unsafe impl<W: World> PageOwner<W::Platform> for Owner<'_, '_, W> {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        self.each(frames, out, |pfn| {
            let frame = self.frame(pfn);
            let mapped = match frame.holds() {
                Holds::Cached { .. } => false,
                Holds::Anonymous { .. } => !frame.is(UNMAPPED),
                _ => return None,
            };
            (!frame.is(LOCKED | CLAIMED)).then(|| {
                frame.mark(LOCKED);
                PageState {
                    mapped,
                    dirty: frame.is(DIRTY),
                    writeback: frame.is(WRITEBACK),
                    ..PageState::default()
                }
            })
        });
    }

    fn unlock(&self, frames: &[Pfn]) {
        let unlock = |&pfn: &Pfn| self.frame(pfn).unmark(LOCKED);
        self.world().with_lock(|| frames.iter().for_each(unlock));
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        self.work(frames.len() as u64 * self.state().costs.look);
        self.each(frames, out, |pfn| {
            let young = self.frame(pfn).is(YOUNG);
            self.frame(pfn).unmark(YOUNG);
            Reference { young: young.into(), ..Reference::default() }
        });
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut Unmapping<'_, '_, '_, W::Platform>,
        out: &mut [Unmapped],
    ) {
        self.world().with_lock(|| {
            for (&pfn, out) in frames.iter().zip(out) {
                self.unmap_one(pfn, batch);
                *out = Unmapped::Removed { dirty: self.frame(pfn).is(DIRTY) };
            }
        });
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        self.each(frames, out, |pfn| match self.frame(pfn).holds() {
            Holds::Anonymous { .. } => {
                self.work(self.state().costs.write);
                self.state().swap.write(self.state(), self.world(), pfn.get() as u32)
            }
            // The daemon writes files, many pages at a time.
            _ => {
                self.state().files.writers_wanted.set(true);
                WriteOut::Refused
            }
        });
    }

    fn release(&self, frames: &[Pfn], _: &[Shadow], out: &mut [Released]) {
        self.each(frames, out, |pfn| {
            self.work(self.state().costs.release);
            let frame = self.frame(pfn);
            match frame.holds() {
                Holds::Cached { .. } | Holds::Anonymous { .. } if frame.is(DIRTY | WRITEBACK) => {
                    Released::Dirty
                }
                Holds::Anonymous { .. } if !frame.is(UNMAPPED) => Released::Busy,
                Holds::Anonymous { builder, index } => {
                    let program = &self.state().programs[builder as usize];
                    program.pages.borrow_mut()[index as usize] = SWAPPED;
                    frame.clear();
                    Released::Released
                }
                Holds::Cached { file, index } => {
                    self.state().files.remove(FileId(file), index);
                    frame.clear();
                    Released::Released
                }
                _ => Released::Busy,
            }
        });
    }

    fn can_swap(&self) -> bool {
        self.world().with_lock(|| !self.state().swap.closed.get())
    }

    fn has_writers(&self) -> bool {
        true
    }

    fn wake_writers(&self) {
        self.world().with_lock(|| self.state().files.writers_wanted.set(true));
    }
}
