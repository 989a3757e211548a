//! Stand-in for reclaim: unmaps pages into a flush batch of the library, writes them out, and frees
//! the frames that the batch returns.
//!
//! Every page has a lock, which is held from its unmapping until it is on the disk. A program that
//! accesses the page meanwhile waits. The page-table entry contains the page's slot on the disk.

use std::cell::Cell;

use super::Unmapped;
use crate::{
    engine::{Cpu, LockId, ProgramLock},
    process::{Access, AccessError, Mapping, Oracle, Process, Pte, Purpose, Token},
    scenario::{
        Bug,
        environment::{Environment, slots},
    },
};

/// The disk: page N of a process is written to slot N. Holds the locks of the pages, too.
pub(in crate::scenario) struct Disk {
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    /// The written contents.
    contents: Cell<Option<Token>>,
    lock: ProgramLock,
}

impl Disk {
    pub(in crate::scenario) fn new(pages: u32) -> Self {
        Self { slots: (0..pages).map(|_| Slot::default()).collect() }
    }

    /// The contents on the disk of a page that is not in a frame.
    pub(in crate::scenario) fn find(&self, _page: u32, pte: Pte) -> Option<Token> {
        match pte {
            Pte::Swapped(slot) => self.slots[slot as usize].contents.get(),
            _ => None,
        }
    }

    fn lock(&self, cpu: Cpu<'_>, page: u32) -> LockId {
        self.slots[page as usize].lock.lock(cpu)
    }

    /// A program's access, which reads written-out pages back in.
    pub(in crate::scenario) fn touch(
        &self,
        cpu: Cpu<'_>,
        env: &Environment<'_, '_>,
        process: &Process,
        page: u32,
        access: Access,
    ) -> Result<Token, AccessError> {
        loop {
            match process.touch(cpu, page, access, &mut &env.world.stack) {
                Err(AccessError::Elsewhere(Pte::Swapped(_))) => {
                    self.read_in(cpu, env, process, page)?;
                }
                result => return result,
            }
        }
    }

    /// Reads a page back into a frame, unless another CPU has. Programs may then store to it, so no
    /// CPU may still access its old frame.
    fn read_in(
        &self,
        cpu: Cpu<'_>,
        env: &Environment<'_, '_>,
        process: &Process,
        page: u32,
    ) -> Result<(), AccessError> {
        let lock = self.lock(cpu, page);
        let frames = &mut &env.world.stack;
        env.flusher(cpu).flush_deferred(process.space().deferred_flush());
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

/// Reclaim of the pages of a process.
pub(in crate::scenario) struct Reclaimer<'a, 'm> {
    pub(in crate::scenario) env: &'a Environment<'a, 'm>,
    pub(in crate::scenario) process: &'a Process,
    pub(in crate::scenario) disk: &'a Disk,
    pub(in crate::scenario) bug: Option<Bug>,
}

impl Reclaimer<'_, '_> {
    /// Reclaims the mapped ones of `pages`, with one flush for all, or none.
    pub(in crate::scenario) fn reclaim(&self, cpu: Cpu<'_>, pages: &[u32]) {
        let flusher = self.env.flusher(cpu);
        let mut slots = slots();
        let mut batch = flusher.batch(&mut slots);
        let mut unmapped = Vec::new();
        for &page in pages {
            let lock = self.disk.lock(cpu, page);
            let space = self.process.space();
            let mapping = space.locked(cpu, || {
                space.take_into(cpu, page, Pte::Swapped(page), None, &mut batch.unmapping())
            });
            let Some(Mapping { frame, dirty, .. }) = mapping else {
                cpu.unlock(lock);
                continue;
            };
            let dirty = dirty || self.disk.slots[page as usize].contents.get().is_none();
            unmapped.push(Unmapped { page, frame, dirty, lock });
        }
        if self.bug != Some(Bug::WriteOutBeforeFlush) {
            batch.flush_if_dirty();
        }
        self.write_out(cpu, &unmapped);
        for Unmapped { frame, lock, .. } in unmapped {
            self.env.retire(&mut batch, frame);
            cpu.unlock(lock);
        }
        batch.finish(&mut |blocks| self.env.free_blocks(cpu, blocks));
    }

    fn write_out(&self, cpu: Cpu<'_>, unmapped: &[Unmapped]) {
        for Unmapped { page, frame, .. } in unmapped.iter().filter(|page| page.dirty) {
            cpu.step();
            let contents = oracle(self.process).contents(*frame);
            self.disk.slots[*page as usize].contents.set(Some(contents));
        }
    }
}
