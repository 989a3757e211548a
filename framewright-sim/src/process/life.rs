//! A process: the kernel's operations for it, in the correct order.

use std::ops::Range;

use super::{
    Access, AddressSpace, Fault, FrameSource, Mapping, Mmu, Pte, Purpose, Symptom, Token,
    space::Region,
};
use crate::engine::Cpu;
use thiserror::Error;

/// Frames that are gathered before one flush, and freed after it: the maximum of Linux's
/// mmu_gather.
const GATHER: usize = 9_698;

/// The reason why an access of a program failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AccessError {
    /// The page is not mapped, or stores to it are not allowed.
    #[error("page {0} is not mapped, or not writable")]
    NotAllowed(u32),
    /// No frame is free for the page or its page table.
    #[error("out of memory")]
    OutOfMemory,
    /// The page is not in a frame, or is being migrated. The embedder handles the entry.
    #[error("the page is not in a frame: {0:?}")]
    Elsewhere(Pte),
}

/// A process, with the address space that its threads share.
#[derive(Clone)]
pub struct Process {
    space: AddressSpace,
}

impl Process {
    /// A process without memory.
    #[must_use]
    pub fn new(mmu: &Mmu) -> Self {
        Self { space: AddressSpace::new(mmu) }
    }

    /// The address space of the process.
    #[must_use]
    pub fn space(&self) -> &AddressSpace {
        &self.space
    }

    /// Loads the address space on `cpu`.
    pub fn run_on(&self, cpu: Cpu<'_>) {
        self.space.load(cpu);
    }

    /// A process with anonymous memory at `pages`.
    #[must_use]
    pub fn with_memory(mmu: &Mmu, pages: Range<u32>) -> Self {
        let process = Self::new(mmu);
        process.add_region(pages);
        process
    }

    /// Maps each of `pages` to the frame with the same number, with the page table in the frame
    /// `table`. Called before a run.
    pub(crate) fn place(&self, table: u32, pages: Range<u32>) {
        self.space.extend(pages.start, table);
        for page in pages {
            let mapping = Mapping { frame: page, writable: true, accessed: false, dirty: false };
            self.space.mark(page, mapping);
            if let Some(oracle) = self.space.mmu().oracle() {
                oracle.given(page);
            }
        }
    }

    /// A process that shares `pages`, at the same addresses. The embedder handles their faults: see
    /// [`AccessError::Elsewhere`].
    #[must_use]
    pub fn sharing(&self, pages: Range<u32>) -> Self {
        let process = Self::new(self.space.mmu());
        if let Some(oracle) = self.space.mmu().oracle() {
            pages.clone().for_each(|page| {
                oracle.page_shared(process.space.id(), page, self.space.id());
            });
        }
        process.space.0.regions.borrow_mut().push(Region { pages, writable: true });
        process
    }

    /// Maps anonymous memory at `pages`, where nothing is mapped. Frames are allocated at the first
    /// access.
    pub fn map(&self, cpu: Cpu<'_>, pages: Range<u32>) {
        self.space.locked(cpu, || self.add_region(pages));
    }

    fn add_region(&self, pages: Range<u32>) {
        if let Some(oracle) = self.space.mmu().oracle() {
            pages.clone().for_each(|page| oracle.page_mapped(self.space.id(), page));
        }
        self.space.0.regions.borrow_mut().push(Region { pages, writable: true });
    }

    /// Loads from a page or stores to it for the program on `cpu`, and handles the faults. Returns
    /// the loaded or stored value.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub fn touch(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        access: Access,
        frames: &mut dyn FrameSource,
    ) -> Result<Token, AccessError> {
        loop {
            match self.access(cpu, page, access) {
                Ok(token) => return Ok(token),
                Err(fault) => self.fault(cpu, page, access, fault, frames)?,
            }
        }
    }

    /// The access itself. Without an oracle, an access that does not fault costs no cycles.
    #[inline]
    fn access(&self, cpu: Cpu<'_>, page: u32, access: Access) -> Result<Token, Fault> {
        if self.space.mmu().oracle().is_some() {
            return self.space.access(cpu, page, access);
        }
        match self.space.0.tables.get(page) {
            Pte::Present(mapping) if access == Access::Load || mapping.writable => Ok(Token::ZERO),
            Pte::Present(_) => Err(Fault::NotWritable),
            _ => Err(Fault::NotPresent),
        }
    }

    /// Handles a page fault: maps a cleared frame if nothing is mapped. If another CPU was faster,
    /// nothing changes: the program tries again, and may fault again.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub fn fault(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        access: Access,
        fault: Fault,
        frames: &mut dyn FrameSource,
    ) -> Result<(), AccessError> {
        let mmu = self.space.mmu();
        mmu.count(|stats| stats.faults += 1);
        cpu.work(mmu.0.costs.fault);
        if fault == Fault::NotWritable {
            return self.space.locked(cpu, || self.allows(page, access));
        }
        let table = match self.space.0.tables.reach(page) {
            true => None,
            false => Some(self.obtain(cpu, Purpose::Table, frames)?),
        };
        let Ok(frame) = self.obtain(cpu, Purpose::Page, frames) else {
            self.release(cpu, table.as_slice(), frames);
            return Err(AccessError::OutOfMemory);
        };
        let mut surplus = Vec::new();
        let result = self
            .space
            .locked(cpu, || self.install(cpu, page, access, Fresh { frame, table }, &mut surplus));
        self.release(cpu, &surplus, frames);
        result
    }

    /// Ensures that there is a page table for a page.
    ///
    /// # Errors
    ///
    /// [`AccessError::OutOfMemory`].
    pub(crate) fn reach(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        frames: &mut dyn FrameSource,
    ) -> Result<(), AccessError> {
        let tables = &self.space.0.tables;
        if tables.reach(page) {
            return Ok(());
        }
        let mut table = Some(self.obtain(cpu, Purpose::Table, frames)?);
        self.space.locked(cpu, || {
            if !tables.reach(page)
                && let Some(table) = table.take()
            {
                tables.extend(page, table);
            }
        });
        self.release(cpu, table.as_slice(), frames);
        Ok(())
    }

    /// Installs the frame and page table of a fault, under the lock. Unused ones are added to
    /// `surplus`.
    fn install(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        access: Access,
        Fresh { frame, table }: Fresh,
        surplus: &mut Vec<u32>,
    ) -> Result<(), AccessError> {
        surplus.push(frame);
        surplus.extend(table);
        self.allows(page, access)?;
        let tables = &self.space.0.tables;
        if !tables.reach(page) {
            // The page table was removed in between, so the program faults once more.
            let Some(table) = table else { return Ok(()) };
            tables.extend(page, table);
            surplus.pop();
        }
        match self.space.pte(cpu, page) {
            Pte::None => {}
            Pte::Present(_) => return Ok(()),
            elsewhere => return Err(AccessError::Elsewhere(elsewhere)),
        }
        let writable = self.allows(page, Access::Store).is_ok();
        let dirty = access == Access::Store;
        let mapping = Mapping { frame, writable, accessed: true, dirty };
        self.space.replace_pte(cpu, page, Pte::Present(mapping));
        surplus.swap_remove(0);
        Ok(())
    }

    /// Unmaps `pages`: when this returns, no CPU can access them, and their frames and empty page
    /// tables are free.
    pub fn unmap(&self, cpu: Cpu<'_>, pages: Range<u32>, frames: &mut dyn FrameSource) {
        self.disown(cpu, pages.clone());
        let mut rest = pages.clone();
        while !rest.is_empty() {
            let gathered = self.clear(cpu, &mut rest);
            if !gathered.is_empty() {
                self.space.flush(cpu, gathered.len() as u64);
            }
            self.release(cpu, &gathered, frames);
        }
        self.unreachable(pages);
    }

    /// The first step of unmapping: removes the region, so that faults on `pages` are refused.
    pub(crate) fn disown(&self, cpu: Cpu<'_>, pages: Range<u32>) {
        self.space.locked(cpu, || self.cut(&pages));
    }

    /// The second step: clears page-table entries and removes empty page tables, up to the limit of
    /// gathered frames. TLBs may still hold their translations.
    pub(crate) fn clear(&self, cpu: Cpu<'_>, pages: &mut Range<u32>) -> Vec<u32> {
        let mut gathered = Vec::new();
        let start = pages.start;
        self.space.locked(cpu, || {
            while pages.start < pages.end && gathered.len() < GATHER {
                if let Some(mapping) = self.space.take_pte(cpu, pages.start).present() {
                    gathered.push(mapping.frame);
                    cpu.work(self.space.mmu().0.costs.unmap_page);
                }
                pages.start += 1;
            }
            self.space.0.tables.prune(start..pages.start, &mut gathered);
        });
        gathered
    }

    /// The last step, after the flush: no CPU may access `pages` from now on.
    pub(crate) fn unreachable(&self, pages: Range<u32>) {
        if let Some(oracle) = self.space.mmu().oracle() {
            pages.for_each(|page| oracle.page_unmapped(self.space.id(), page));
        }
    }

    /// Allows or forbids stores to `pages`.
    pub fn protect(&self, cpu: Cpu<'_>, pages: Range<u32>, writable: bool) {
        let mut changed = 0;
        self.space.locked(cpu, || {
            self.cut(&pages);
            let mut regions = self.space.0.regions.borrow_mut();
            regions.push(Region { pages: pages.clone(), writable });
            drop(regions);
            for page in pages {
                changed += u64::from(self.protect_page(cpu, page, writable));
            }
        });
        // Newly allowed stores need no flush: a store through an outdated translation faults.
        if changed > 0 && !writable {
            self.space.flush(cpu, changed);
        }
    }

    /// Changes one entry if necessary. The hardware may set its bits meanwhile.
    fn protect_page(&self, cpu: Cpu<'_>, page: u32, writable: bool) -> bool {
        match self.space.pte(cpu, page) {
            Pte::Present(mapping) if mapping.writable != writable => {}
            _ => return false,
        }
        cpu.work(self.space.mmu().0.costs.protect_page);
        let Pte::Present(mapping) = self.space.take_pte(cpu, page) else { return false };
        self.space.replace_pte(cpu, page, Pte::Present(Mapping { writable, ..mapping }));
        true
    }

    /// Unmaps everything. No CPU runs the process any more.
    pub fn exit(self, cpu: Cpu<'_>, frames: &mut dyn FrameSource) {
        let regions = self.space.0.regions.take();
        for Region { pages, .. } in regions {
            self.unmap(cpu, pages, frames);
        }
        if self.space.mmu().unit(cpu).has_loaded(&self.space) {
            self.space.unload(cpu);
        }
    }

    /// The number of its frames: pages and page tables.
    #[must_use]
    pub fn frames(&self) -> u64 {
        let mut frames = self.space.tables();
        self.space.0.tables.for_each(|_, pte| frames += u64::from(pte.present().is_some()));
        frames
    }

    /// Checks that the last store to each page is in its frame, or in the contents that `elsewhere`
    /// returns. No CPU may run.
    ///
    /// # Errors
    ///
    /// The page whose last store was lost.
    pub fn check_contents(
        &self,
        elsewhere: impl Fn(u32, Pte) -> Option<Token>,
    ) -> Result<(), (Symptom, u32)> {
        let Some(oracle) = self.space.mmu().oracle() else { return Ok(()) };
        let id = self.space.id();
        for page in oracle.stored_pages(id) {
            let found = match self.space.0.tables.get(page) {
                Pte::Present(mapping) => Some(oracle.contents(mapping.frame)),
                pte => elsewhere(page, pte),
            };
            if !found.is_some_and(|found| oracle.is_last(id, page, found)) {
                return Err((oracle.see_late(Symptom::LostWrite), page));
            }
        }
        Ok(())
    }

    /// Checks that the program may access the page. The caller holds the lock.
    fn allows(&self, page: u32, access: Access) -> Result<(), AccessError> {
        let regions = self.space.0.regions.borrow();
        let region = regions.iter().find(|region| region.pages.contains(&page));
        let allowed = |region: &Region| access == Access::Load || region.writable;
        region
            .filter(|region| allowed(region))
            .map_or(Err(AccessError::NotAllowed(page)), |_| Ok(()))
    }

    /// Cuts `pages` out of the regions. The caller holds the lock.
    fn cut(&self, pages: &Range<u32>) {
        let rest = |region: Region| {
            let before = region.pages.start..region.pages.end.min(pages.start);
            let after = region.pages.start.max(pages.end)..region.pages.end;
            let writable = region.writable;
            let rest = [before, after].into_iter().filter(|pages| !pages.is_empty());
            rest.map(move |pages| Region { pages, writable })
        };
        let regions = self.space.0.regions.take();
        *self.space.0.regions.borrow_mut() = regions.into_iter().flat_map(rest).collect();
    }

    /// Allocates a cleared frame.
    pub(crate) fn obtain(
        &self,
        cpu: Cpu<'_>,
        purpose: Purpose,
        frames: &mut dyn FrameSource,
    ) -> Result<u32, AccessError> {
        let frame = frames.take(cpu, purpose).ok_or(AccessError::OutOfMemory)?;
        if let Some(oracle) = self.space.mmu().oracle() {
            oracle.taken(cpu, frame);
            oracle.fill(frame, Token::ZERO);
        }
        Ok(frame)
    }

    /// Frees frames that no CPU can access any more.
    pub(crate) fn release(&self, cpu: Cpu<'_>, unused: &[u32], frames: &mut dyn FrameSource) {
        if unused.is_empty() {
            return;
        }
        if let Some(oracle) = self.space.mmu().oracle() {
            unused.iter().for_each(|frame| oracle.freed(cpu, *frame));
        }
        frames.give(cpu, unused);
    }
}

/// A frame and a page table for a fault.
struct Fresh {
    frame: u32,
    table: Option<u32>,
}
