//! Stand-in for a file in a page cache. Several processes map its pages at the same addresses.
//! Pages are read in by faults, made writable by stores, written out and released by reclaim, and
//! removed by truncation.
//!
//! Every page has a lock, which is held while the page is installed, released or truncated. Reclaim
//! therefore cannot unmap a page between a deferred flush and the change that needs the flush.

use std::cell::{Cell, RefCell};

use framewright::{Pfn, tlb::DeferredFlush};

use super::Unmapped;
use crate::{
    engine::{Cpu, LockId, ProgramLock},
    process::{Access, AccessError, Mapping, Process, Pte, Purpose, SpaceId, Token},
    scenario::{
        Bug,
        environment::{Environment, slots},
    },
};

#[derive(Default)]
struct Page {
    /// The frame that holds the page.
    cached: Cell<Option<u32>>,
    /// The contents on the disk.
    stored: Cell<Token>,
    truncated: Cell<bool>,
    lock: ProgramLock,
}

/// A file of the page cache.
pub(in crate::scenario) struct File<'l, 'm> {
    env: &'l Environment<'l, 'm>,
    pages: Vec<Page>,
    mappers: Vec<&'l Process>,
    /// Processes and pages of the file, where the process has mapped other memory over the page.
    replaced: RefCell<Vec<(SpaceId, u32)>>,
    deferred_flush: DeferredFlush,
    bug: Option<Bug>,
}

impl<'l, 'm> File<'l, 'm> {
    /// A file that `mappers` map completely.
    pub(in crate::scenario) fn new(
        env: &'l Environment<'l, 'm>,
        pages: u32,
        mappers: &[&'l Process],
        bug: Option<Bug>,
    ) -> Self {
        Self {
            env,
            pages: (0..pages).map(|_| Page::default()).collect(),
            mappers: mappers.to_vec(),
            replaced: RefCell::default(),
            deferred_flush: DeferredFlush::new(),
            bug,
        }
    }

    fn page(&self, page: u32) -> &Page {
        &self.pages[page as usize]
    }

    fn lock(&self, cpu: Cpu<'_>, page: u32) -> LockId {
        self.page(page).lock.lock(cpu)
    }

    /// The contents of a page, in its frame or on the disk.
    pub(in crate::scenario) fn find(&self, page: u32) -> Option<Token> {
        let page = self.pages.get(page as usize)?;
        let cached = page.cached.get().map(|frame| self.env.world.oracle().contents(frame));
        Some(cached.unwrap_or(page.stored.get()))
    }

    /// The number of frames of the file, less the number of their mappings.
    pub(in crate::scenario) fn held_besides_mappings(&self) -> i64 {
        let cached = self.pages.iter().filter(|page| page.cached.get().is_some()).count() as i64;
        let maps = |process: &&Process, page: u32| {
            self.maps(process, page) && process.space().entry(page).present().is_some()
        };
        let of_process = |process: &&Process| {
            (0..self.pages.len() as u32).filter(|page| maps(process, *page)).count() as i64
        };
        cached - self.mappers.iter().map(of_process).sum::<i64>()
    }

    fn maps(&self, process: &Process, page: u32) -> bool {
        !self.replaced.borrow().contains(&(process.space().id(), page))
    }

    /// A program's access to the file.
    pub(in crate::scenario) fn touch(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        access: Access,
    ) -> Result<Token, AccessError> {
        loop {
            if !self.maps(process, page) {
                return process.touch(cpu, page, access, &mut &self.env.world.stack);
            }
            if let Ok(token) = process.space().access(cpu, page, access) {
                return Ok(token);
            }
            process.reach(cpu, page, &mut &self.env.world.stack)?;
            let lock = self.lock(cpu, page);
            let result = self.install(cpu, process, page, access);
            cpu.unlock(lock);
            result?;
        }
    }

    /// Handles a fault. The caller holds the lock of the page.
    fn install(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        access: Access,
    ) -> Result<(), AccessError> {
        let frame = self.read_in(cpu, process, page)?;
        let store = access == Access::Store;
        if store && self.bug != Some(Bug::UnflushedWrite) {
            self.env.flusher(cpu).flush_deferred(&self.deferred_flush);
        }
        let space = process.space();
        space.locked(cpu, || match space.pte(cpu, page) {
            Pte::Present(mapping) if mapping.writable || !store => {}
            _ if !self.maps(process, page) => {}
            _ => {
                let mapping = Mapping { frame, writable: store, accessed: true, dirty: store };
                space.replace_pte(cpu, page, Pte::Present(mapping));
            }
        });
        Ok(())
    }

    /// The frame of the page, which is read in if necessary.
    fn read_in(&self, cpu: Cpu<'_>, process: &Process, page: u32) -> Result<u32, AccessError> {
        let state = self.page(page);
        if state.truncated.get() {
            return Err(AccessError::NotAllowed(page));
        }
        if let Some(frame) = state.cached.get() {
            return Ok(frame);
        }
        let frame = process.obtain(cpu, Purpose::Page, &mut &self.env.world.stack)?;
        cpu.step();
        self.env.world.oracle().fill(frame, state.stored.get());
        state.cached.set(Some(frame));
        Ok(frame)
    }

    /// Reclaims those of the pages that are cached: unmaps them, writes out dirty ones, and
    /// releases their frames.
    pub(in crate::scenario) fn reclaim(&self, cpu: Cpu<'_>, pages: &[u32]) {
        let flusher = self.env.flusher(cpu);
        let mut slots = slots();
        let mut batch = flusher.batch(&mut slots);
        let mut isolated = Vec::new();
        for &page in pages {
            let lock = self.lock(cpu, page);
            let Some(frame) = self.page(page).cached.get() else {
                cpu.unlock(lock);
                continue;
            };
            let mut dirty = false;
            for process in &self.mappers {
                let space = process.space();
                space.locked(cpu, || {
                    let deferred_flush = Some(&self.deferred_flush);
                    let mapping = (self.maps(process, page)).then(|| {
                        space.take_into(
                            cpu,
                            page,
                            Pte::None,
                            deferred_flush,
                            &mut batch.unmapping(),
                        )
                    });
                    dirty |= mapping.flatten().is_some_and(|mapping| mapping.dirty);
                });
            }
            isolated.push(Unmapped { page, frame, dirty, lock });
        }
        if self.bug != Some(Bug::WriteOutBeforeFlush) {
            batch.flush_if_dirty();
        }
        for Unmapped { page, frame, dirty, .. } in &isolated {
            if *dirty {
                cpu.step();
                self.page(*page).stored.set(self.env.world.oracle().contents(*frame));
            }
        }
        for Unmapped { page, frame, lock, .. } in isolated {
            self.page(page).cached.set(None);
            if self.bug == Some(Bug::FreeBeforeFlush) {
                self.env.free(cpu, &[Pfn::new(u64::from(frame))]);
            } else {
                self.env.retire(&mut batch, frame);
            }
            cpu.unlock(lock);
        }
        batch.finish(&mut |blocks| self.env.free_blocks(cpu, blocks));
        if self.bug == Some(Bug::DeferredHandedOut) {
            self.hand_out_deferred(cpu);
        }
    }

    /// A seeded bug: releases deferred frames as if all CPUs had flushed.
    fn hand_out_deferred(&self, cpu: Cpu<'_>) {
        for other in (0..self.env.memory.cpu_count()).map(framewright::CpuId::new) {
            // SAFETY: violated on purpose: this is the bug. Frames have no contents here.
            #[allow(unsafe_code)]
            unsafe {
                self.env.memory.flusher(other, &self.env.shooter).record_full_flush(|| {});
            }
        }
        self.env.flusher(cpu).drain_flushed(&mut |blocks| self.env.free_blocks(cpu, blocks));
    }

    /// Releases the deferred frames, with a flush if necessary.
    pub(in crate::scenario) fn free_deferred(&self, cpu: Cpu<'_>) {
        self.env.flusher(cpu).drain_deferred(&mut |blocks| self.env.free_blocks(cpu, blocks));
    }

    /// Truncates a page: when this returns, no CPU can access it.
    pub(in crate::scenario) fn truncate(&self, cpu: Cpu<'_>, page: u32) {
        let lock = self.lock(cpu, page);
        let state = self.page(page);
        state.truncated.set(true);
        for process in &self.mappers {
            let space = process.space();
            if space.locked(cpu, || space.take_pte(cpu, page)).present().is_some() {
                space.flush(cpu, 1);
            }
        }
        if self.bug != Some(Bug::UnflushedTruncate) {
            self.env.flusher(cpu).flush_deferred(&self.deferred_flush);
        }
        self.mappers.iter().for_each(|process| process.unreachable(page..page + 1));
        if let Some(frame) = state.cached.take() {
            self.env.free(cpu, &[Pfn::new(u64::from(frame))]);
        }
        cpu.unlock(lock);
    }

    /// Unmaps a page of the file from a process, and maps anonymous memory there.
    pub(in crate::scenario) fn replace(&self, cpu: Cpu<'_>, process: &Process, page: u32) {
        // The lock stands for a reference: the frame is not released before this CPU has flushed.
        let lock = self.lock(cpu, page);
        let space = process.space();
        process.disown(cpu, page..page + 1);
        let taken = space.locked(cpu, || {
            self.replaced.borrow_mut().push((space.id(), page));
            space.take_pte(cpu, page)
        });
        if taken.present().is_some() {
            space.flush(cpu, 1);
        }
        if self.bug != Some(Bug::UnflushedReuse) {
            self.env.flusher(cpu).flush_deferred(space.deferred_flush());
        }
        process.unreachable(page..page + 1);
        cpu.unlock(lock);
        process.map(cpu, page..page + 1);
    }
}
