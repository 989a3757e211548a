//! Stand-in for reclaim: unmaps pages, flushes once for all of them, writes them out, frees them.
//!
//! Every page has a lock, which is held from the moment it is unmapped until it is on the disk:
//! who needs the page meanwhile waits for it. The entry that replaces the page says where on the
//! disk it will be.

use std::cell::{Cell, OnceCell};

use crate::{
    engine::{Cpu, CpuSet, LockId},
    process::{Access, FrameSource, Mapping, Oracle, Process, Pte, Purpose, Token, Trouble},
    scenario::Bug,
};

/// Where pages are written to: page N of a process to slot N. Knows their locks, too.
pub(in crate::scenario) struct Disk {
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    /// What is there, once something is.
    contents: Cell<Option<Token>>,
    lock: OnceCell<LockId>,
}

impl Disk {
    pub(in crate::scenario) fn new(pages: u32) -> Self {
        Self { slots: (0..pages).map(|_| Slot::default()).collect() }
    }

    /// What is on the disk for a page that is not in a frame.
    pub(in crate::scenario) fn find(&self, _page: u32, pte: Pte) -> Option<Token> {
        match pte {
            Pte::Swapped(slot) => self.slots[slot as usize].contents.get(),
            _ => None,
        }
    }

    fn lock(&self, cpu: Cpu<'_>, page: u32) -> LockId {
        let lock = *self.slots[page as usize].lock.get_or_init(|| cpu.new_lock());
        cpu.lock(lock);
        lock
    }

    /// A program's access, with pages read back in that were written out.
    pub(in crate::scenario) fn touch(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        access: Access,
        frames: &mut dyn FrameSource,
    ) -> Result<Token, Trouble> {
        loop {
            match process.touch(cpu, page, access, frames) {
                Err(Trouble::Elsewhere(Pte::Swapped(_))) => {
                    self.read_in(cpu, process, page, frames)?;
                }
                result => return result,
            }
        }
    }

    /// Reads a page back into a frame, unless somebody else has.
    fn read_in(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        frames: &mut dyn FrameSource,
    ) -> Result<(), Trouble> {
        let lock = self.lock(cpu, page);
        let result = process.obtain(cpu, Purpose::Page, frames).map(|frame| {
            let found = self.slots[page as usize].contents.get().unwrap_or(Token::ZERO);
            oracle(process).fill(frame, found);
            let installed = process.space().locked(cpu, || {
                let absent = matches!(process.space().pte(cpu, page), Pte::Swapped(_));
                if absent {
                    let mapping = Mapping { frame, writable: true, accessed: true, dirty: false };
                    process.space().replace_pte(cpu, page, Pte::Present(mapping));
                }
                absent
            });
            if !installed {
                process.release(cpu, &[frame], frames);
            }
        });
        cpu.unlock(lock);
        result
    }
}

fn oracle(process: &Process) -> &Oracle {
    process.space().mmu().oracle().expect("scenarios are checked")
}

/// A page that was unmapped, and that somebody may still reach.
struct Unmapped {
    page: u32,
    frame: u32,
    /// What is on the disk is older, or nothing is.
    dirty: bool,
    lock: LockId,
}

/// See the module.
pub(in crate::scenario) struct Reclaimer<'a> {
    pub(in crate::scenario) process: &'a Process,
    pub(in crate::scenario) disk: &'a Disk,
    /// How often a flush was put off, and how often somebody has made up for it. Under the lock
    /// of the address space.
    pub(in crate::scenario) deferred: Cell<u32>,
    pub(in crate::scenario) flushed: Cell<u32>,
    pub(in crate::scenario) bug: Option<Bug>,
}

impl<'a> Reclaimer<'a> {
    pub(in crate::scenario) fn new(process: &'a Process, disk: &'a Disk, bug: Option<Bug>) -> Self {
        Self { process, disk, deferred: Cell::new(0), flushed: Cell::new(0), bug }
    }

    /// Reclaims the pages that are there, with one flush for all.
    pub(in crate::scenario) fn reclaim(
        &self,
        cpu: Cpu<'_>,
        pages: &[u32],
        frames: &mut dyn FrameSource,
    ) {
        let mut targets = CpuSet::default();
        let unmapped: Vec<_> =
            pages.iter().filter_map(|page| self.unmap(cpu, *page, &mut targets)).collect();
        if self.bug == Some(Bug::WriteOutBeforeFlush) {
            self.write_out(cpu, &unmapped);
            self.process.space().flush_on(cpu, targets, u64::MAX);
        } else {
            self.process.space().flush_on(cpu, targets, u64::MAX);
            self.write_out(cpu, &unmapped);
        }
        for Unmapped { frame, lock, .. } in unmapped {
            self.process.release(cpu, &[frame], frames);
            cpu.unlock(lock);
        }
    }

    /// Unmaps a page, and puts the flush off.
    fn unmap(&self, cpu: Cpu<'_>, page: u32, targets: &mut CpuSet) -> Option<Unmapped> {
        let space = self.process.space();
        let lock = self.disk.lock(cpu, page);
        let mapping = space.locked(cpu, || {
            space.pte(cpu, page).present()?;
            let Pte::Present(mapping) = space.replace_pte(cpu, page, Pte::Swapped(page)) else {
                unreachable!("entries that are present change under the lock only");
            };
            space.advance_generation(cpu);
            targets.extend(&space.cpus(cpu));
            self.deferred.set(self.deferred.get() + 1);
            Some(mapping)
        });
        if mapping.is_none() {
            cpu.unlock(lock);
        }
        let Mapping { frame, dirty, .. } = mapping?;
        let dirty = dirty || self.disk.slots[page as usize].contents.get().is_none();
        Some(Unmapped { page, frame, dirty, lock })
    }

    fn write_out(&self, cpu: Cpu<'_>, unmapped: &[Unmapped]) {
        for Unmapped { page, frame, .. } in unmapped.iter().filter(|page| page.dirty) {
            cpu.step();
            let contents = oracle(self.process).contents(*frame);
            self.disk.slots[*page as usize].contents.set(Some(contents));
        }
    }

    /// What everybody else who changes page tables does first, under the lock: makes up for
    /// flushes that were put off, because what looks unmapped may still be reached.
    pub(in crate::scenario) fn flush_deferred(&self, cpu: Cpu<'_>) {
        cpu.step();
        let deferred = self.deferred.get();
        if deferred != self.flushed.get() {
            self.process.space().flush(cpu, u64::MAX);
            self.flushed.set(deferred);
        }
    }
}
