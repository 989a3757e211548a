//! Page faults: missing pages, fault-around, first stores.

use super::{
    AreaId, FileAccessError, FileId, PageCache, Supply,
    area::{Area, TABLE},
    page::{AWAITED, DIRTY, LOCKED, MOVING},
};
use crate::{
    engine::Cpu,
    process::{Access, Fault, Mapping, Pte, Token},
};

/// The result of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touched {
    /// The access is done. With an oracle, this is the value that was loaded or stored.
    Done(Token),
    /// The page is being read, or too many pages are dirty: the program continues at this time, in
    /// cycles.
    Wait(u64),
}

/// Estimated cycles until a page that is being migrated can be mapped again: 10 µs.
const MOVES: u64 = 25_000;

impl PageCache {
    /// Loads from page `page` of an area or stores to it, and handles the faults. `cpu` has loaded
    /// the area's address space.
    ///
    /// # Errors
    ///
    /// [`FileAccessError`].
    pub fn touch(
        &self,
        cpu: Cpu<'_>,
        area: AreaId,
        page: u32,
        access: Access,
        supply: &mut dyn Supply,
    ) -> Result<Touched, FileAccessError> {
        let at = self.area(area);
        let page = at.pages.start.saturating_add(page);
        let allowed = at.pages.contains(&page) && (at.writable || access == Access::Load);
        if !allowed {
            return Err(FileAccessError::NotAllowed(page));
        }
        loop {
            let fault = match self.access(cpu, at, page, access) {
                Ok(token) => return Ok(Touched::Done(token)),
                Err(fault) => fault,
            };
            self.count(|stats| stats.faults += 1);
            cpu.work(self.costs.fault);
            supply.entered(cpu);
            let wait = match fault {
                Fault::NotPresent => self.not_present(cpu, at, page, access, supply)?,
                Fault::NotWritable => self.not_writable(cpu, at, page, supply),
            };
            // A fault takes long: flushes may have become due since the kernel entry.
            supply.entered(cpu);
            if let Some(until) = wait {
                return Ok(Touched::Wait(until));
            }
        }
    }

    /// The access itself. Without an oracle it is free unless it faults.
    #[inline]
    fn access(&self, cpu: Cpu<'_>, at: &Area, page: u32, access: Access) -> Result<Token, Fault> {
        if self.mmu.oracle().is_some() {
            return at.space.access(cpu, page, access);
        }
        let store = access == Access::Store;
        match at.space.peek(page) {
            Pte::Present(mapping) if !store || mapping.writable => {
                let marked = Mapping { accessed: true, dirty: mapping.dirty || store, ..mapping };
                if marked != mapping {
                    at.space.mark(page, marked);
                }
                Ok(Token::ZERO)
            }
            Pte::Present(_) => Err(Fault::NotWritable),
            _ => Err(Fault::NotPresent),
        }
    }

    /// Handles a fault on an unmapped page: adds it to the cache and maps it. Returns the time at
    /// which to try again if the page is being read or migrated.
    fn not_present(
        &self,
        cpu: Cpu<'_>,
        at: &Area,
        page: u32,
        access: Access,
        supply: &mut dyn Supply,
    ) -> Result<Option<u64>, FileAccessError> {
        let (file, index) = (at.file, at.index(page));
        if self.file(file).frame(index).is_none() {
            self.count(|stats| stats.major_faults += 1);
            self.read_ahead(cpu, file, index, supply)?;
        }
        // The page may have been reclaimed again: then the program faults once more.
        let Some(frame) = self.file(file).frame(index) else { return Ok(None) };
        let held = self.page(frame);
        if held.ready.get() > cpu.now() {
            held.mark(AWAITED);
            return Ok(Some(held.ready.get()));
        }
        if held.is(MOVING) {
            return Ok(Some(cpu.now() + MOVES));
        }
        held.unmark(AWAITED);
        held.held(|| {
            let table = if at.space.reaches(page) { None } else { supply.table(cpu) };
            let surplus = at.locked(cpu, index, || {
                let surplus = self.extend(at, page, table);
                if at.space.reaches(page) {
                    self.map_around(cpu, at, index);
                }
                surplus
            });
            supply.give(cpu, surplus.as_slice());
            match (at.space.reaches(page), access) {
                (false, _) => Err(FileAccessError::OutOfMemory),
                (true, Access::Load) => Ok(None),
                (true, Access::Store) => Ok(self.not_writable(cpu, at, page, supply)),
            }
        })
    }

    /// Adds a page table if there is none. Returns `table` if another CPU has added one.
    fn extend(&self, at: &Area, page: u32, table: Option<u32>) -> Option<u32> {
        if at.space.reaches(page) {
            return table;
        }
        at.space.extend(page, table?);
        None
    }

    /// Maps page `index` of the area's file, and those of its neighbours that are in the cache,
    /// read and unlocked. The caller holds the lock of their page table.
    fn map_around(&self, cpu: Cpu<'_>, at: &Area, index: u32) {
        let file = self.file(at.file);
        let around = file.spec.fault_around.clamp(1, TABLE);
        let first = index - index % around;
        for neighbour in first..file.spec.pages.min(first + around) {
            let Some(page) = at.page_of(neighbour) else { break };
            let Some(frame) = file.frame(neighbour) else { continue };
            let held = self.page(frame);
            let wanted = neighbour == index;
            let is_ready = wanted || held.ready.get() <= cpu.now() && !held.is(LOCKED);
            if !is_ready {
                continue;
            }
            // A held page stays in its frame: reclaim and migration check the count of users.
            held.held(|| {
                if at.space.pte(cpu, page) != Pte::None {
                    return;
                }
                let mapping = Mapping { frame, writable: false, accessed: wanted, dirty: false };
                at.space.replace_pte(cpu, page, Pte::Present(mapping));
                held.mapped.set(held.mapped.get() + 1);
                cpu.work(self.costs.map);
                self.count(|stats| stats.mapped += 1);
            });
        }
    }

    /// Handles the first store to a clean page. Returns the end of the program's pause if too many
    /// pages are dirty.
    fn not_writable(
        &self,
        cpu: Cpu<'_>,
        at: &Area,
        page: u32,
        supply: &mut dyn Supply,
    ) -> Option<u64> {
        let index = at.index(page);
        let mut dirtied = false;
        at.locked(cpu, index, || {
            let Pte::Present(mapping) = at.space.pte(cpu, page) else { return };
            if mapping.writable {
                return;
            }
            supply.becomes_writable(cpu, at.file);
            dirtied = self.set_dirty(mapping.frame);
            // The hardware may have set bits of the entry since it was read.
            let Pte::Present(mapping) = at.space.take_pte(cpu, page) else { return };
            let mapping = Mapping { writable: true, accessed: true, dirty: true, ..mapping };
            at.space.replace_pte(cpu, page, Pte::Present(mapping));
        });
        if dirtied { self.dirty_pause(cpu) } else { None }
    }

    /// Marks a page dirty. Returns whether it was clean.
    pub(super) fn set_dirty(&self, frame: u32) -> bool {
        let was_clean = !self.page(frame).mark(DIRTY);
        if was_clean {
            self.dirty.borrow_mut().push_back(frame);
            self.dirty_pages.set(self.dirty_pages.get() + 1);
            self.count(|stats| stats.dirtied += 1);
        }
        was_clean
    }

    /// Whether page `page` of a file is mapped, for tests and oracles.
    #[must_use]
    pub fn is_mapped(&self, file: FileId, page: u32) -> bool {
        self.file(file).frame(page).is_some_and(|frame| self.page(frame).mapped.get() > 0)
    }
}
