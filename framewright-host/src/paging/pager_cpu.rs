//! A CPU of the pager, which uses pages and reads missing pages.

use std::{collections::VecDeque, ops::Range};

use framewright::{Block, CpuToken, Request, platform::Wait};

use super::{
    FileId, PageCache, Pager, PagingError, Reading, Writing,
    cache::PageId,
    page::{Access, Claim, Fix, PINS_MAX, PageLock, PageState, Writer},
    page_in::PageIn,
    stats::count,
};
use crate::{HostMachine, wait::wait};

/// A CPU of a pager: a registered thread that uses pages. [`Pager::cpu`] returns it.
pub struct PagerCpu<'s, 'm> {
    pub(super) pager: &'s Pager<'s, 'm>,
    pub(super) token: CpuToken<'s, 'm, HostMachine>,
    /// Frames of pages that are being read.
    pub(super) frames: VecDeque<Block<'m>>,
}

impl<'s, 'm> PagerCpu<'s, 'm> {
    pub(super) fn new(pager: &'s Pager<'s, 'm>, token: CpuToken<'s, 'm, HostMachine>) -> Self {
        Self { pager, token, frames: VecDeque::new() }
    }

    /// Allocates a frame of the cache's machine for this page.
    pub(super) fn frame(&mut self, page: u32, request: Request) -> Result<Block<'m>, PagingError> {
        let block = self.token.alloc(request);
        let block = block.map_err(|reason| PagingError::OutOfMemory { page, reason })?;
        let frame = block.pfn();
        if self.pager.cache.number(frame).is_some() {
            return Ok(block);
        }
        self.free_unused(block);
        Err(PagingError::ForeignFrame { page, frame })
    }

    /// Frees a frame that was not needed.
    pub(super) fn free_unused(&mut self, block: Block<'m>) {
        let freed = self.token.free(block);
        debug_assert_eq!(freed, Ok(()));
    }

    /// Returns a guard for reading a page of a file.
    ///
    /// # Errors
    ///
    /// [`PagingError`]: there is no such page, it cannot be read, no frame can be allocated, or the
    /// page has the maximum number of guards.
    ///
    /// # Panics
    ///
    /// If the store panics. The page is still missing then.
    #[inline]
    pub fn read(&mut self, file: FileId, page: u32) -> Result<Reading<'s>, PagingError> {
        let id = self.id(file, page)?;
        self.fix(id, Access::Read)?;
        Ok(Reading::new(self.pager.cache, id))
    }

    /// Returns a guard for storing to a page of a file. The page is dirty from now on.
    ///
    /// # Errors
    ///
    /// As [`PagerCpu::read`].
    #[inline]
    pub fn write(&mut self, file: FileId, page: u32) -> Result<Writing<'s>, PagingError> {
        let id = self.id(file, page)?;
        self.fix(id, Access::Store)?;
        Ok(Writing::new(self.pager.cache, id))
    }

    /// Writes all dirty pages of a file that are not in use, and makes the writes durable.
    ///
    /// # Errors
    ///
    /// [`PagingError::NoSuchFile`]: the cache has no such file. Otherwise the call tries to write
    /// all pages, and returns the first of these errors: [`PagingError::Unwritten`],
    /// [`PagingError::Unsynced`], [`PagingError::InUse`].
    ///
    /// # Panics
    ///
    /// If the store panics. All pages that were not written before the panic are still dirty.
    pub fn sync(&mut self, file: FileId) -> Result<(), PagingError> {
        let pages = self.pages(file)?;
        self.sync_pages(file, 0..pages)
    }

    /// As [`PagerCpu::sync`], for some pages of a file: those with a number in `pages`. Other pages may be written, too.
    ///
    /// # Errors
    ///
    /// As [`PagerCpu::sync`], and [`PagingError::NoSuchPage`] if the file ends before `pages` does. Nothing is written then.
    ///
    /// # Panics
    ///
    /// As [`PagerCpu::sync`].
    pub fn sync_pages(&mut self, file: FileId, pages: Range<u32>) -> Result<(), PagingError> {
        let cache = self.pager.cache;
        let (mut failed, mut in_use) = (None, None);
        if let Some(last) = pages.clone().last() {
            self.id(file, last)?;
        }
        for id in cache.used(file).filter(|id| pages.contains(&id.page)) {
            match lock_dirty(&cache.page(id).state) {
                Dirty::No => {}
                Dirty::InUse => {
                    let (pages, _) = in_use.get_or_insert((0, id.page));
                    *pages += 1;
                }
                Dirty::Locked(lock) => {
                    if let Err(reason) = cache.write(id, &lock, Writer::Sync) {
                        let (pages, _, _) = failed.get_or_insert((0, id.page, reason));
                        *pages += 1;
                    }
                }
            }
        }
        // Even if no page was dirty: reclaim may have written some.
        let synced = cache.file(file).store.sync();
        if let Some((pages, page, reason)) = failed {
            return Err(PagingError::Unwritten { pages, page, reason });
        }
        synced.map_err(|reason| PagingError::Unsynced { reason })?;
        match in_use {
            Some((pages, page)) => Err(PagingError::InUse { pages, page }),
            None => Ok(()),
        }
    }

    /// Writes all dirty pages, and evicts all pages, of all files. No other thread may use the
    /// cache.
    ///
    /// # Errors
    ///
    /// As [`PagerCpu::sync`]. Pages stay in memory if their write failed. Written pages are evicted even if
    /// [`PagingError::Unsynced`] is returned.
    pub fn evict_all(&mut self) -> Result<(), PagingError> {
        const AT_A_TIME: u64 = 1 << 12;
        /// Rounds without success before the eviction ends: about a fifth of a second.
        const ROUNDS_MAX: u32 = 200;
        let cache = self.pager.cache;
        let result = cache.files().map(|file| self.sync(file)).fold(Ok(()), Result::and);
        let (reclaim, cpu) = (self.pager.reclaim(), self.token.cpu());
        let node = self.pager.memory.node_of(cpu);
        let mut in_vain = 0;
        while cache.has_evictable() && in_vain < ROUNDS_MAX {
            reclaim.lru().drain_all();
            self.pager.report_writes(cpu);
            // This frees nothing while other CPUs have isolated the remaining pages.
            let freed = reclaim.shrink_node(cpu, node, AT_A_TIME);
            in_vain = if freed == 0 { in_vain + 1 } else { 0 };
            wait(Wait::Memory, in_vain);
        }
        result
    }

    /// Frees a block of a reclaimed frame.
    #[cfg(test)]
    pub(super) fn free(&mut self, block: framewright::Block<'m>) {
        self.token.free(block).expect("a block of the memory");
    }

    /// The block of a frame that the cache has released.
    #[cfg(test)]
    #[allow(unsafe_code)]
    pub(super) fn adopt(&self, frame: framewright::Pfn) -> framewright::Block<'m> {
        // SAFETY: the cache had the frame from a block of order 0, and has released it.
        unsafe { self.token.adopt_unchecked(frame, framewright::Order::ZERO) }
    }

    /// The number of pages of a file.
    fn pages(&self, file: FileId) -> Result<u32, PagingError> {
        let files = &self.pager.cache.files;
        let found = files.get(file.0 as usize).map(|file| file.region.pages());
        found.ok_or(PagingError::NoSuchFile { file: file.0, files: files.len() as u32 })
    }

    fn id(&self, file: FileId, page: u32) -> Result<PageId, PagingError> {
        let pages = self.pages(file)?;
        if page < pages {
            Ok(PageId { file, page })
        } else {
            Err(PagingError::NoSuchPage { page, pages })
        }
    }

    /// Fixes a page. Reads it first if it is missing.
    #[inline]
    fn fix(&mut self, id: PageId, access: Access) -> Result<(), PagingError> {
        match self.pager.cache.page(id).state.fix(access) {
            Fix::Fixed { dirtied } => {
                if dirtied {
                    count(&self.pager.cache.counters.dirtied, 1);
                }
                Ok(())
            }
            Fix::Busy | Fix::Absent | Fix::TooMany => self.fix_slowly(id, access),
        }
    }

    #[cold]
    fn fix_slowly(&mut self, id: PageId, access: Access) -> Result<(), PagingError> {
        let cache = self.pager.cache;
        let state = &cache.page(id).state;
        let mut spins = 0;
        loop {
            match state.fix(access) {
                Fix::Fixed { dirtied } => {
                    count(&cache.counters.dirtied, dirtied.into());
                    return Ok(());
                }
                Fix::Absent => match cache.claim(id) {
                    Claim::Taken => {}
                    claim => {
                        let rescued = claim == Claim::Rescue;
                        return PageIn::new(self, id).run(access, rescued);
                    }
                },
                Fix::Busy => {}
                Fix::TooMany => {
                    return Err(PagingError::TooManyGuards { page: id.page, guards: PINS_MAX });
                }
            }
            wait(Wait::Lock, spins);
            spins = spins.saturating_add(1);
        }
    }
}

/// The result of locking a dirty page.
enum Dirty<'p> {
    No,
    Locked(PageLock<'p>),
    InUse,
}

/// Locks a page if it is dirty. Waits while the page is locked, or chosen by reclaim, but does not wait
/// for guards.
fn lock_dirty(state: &PageState) -> Dirty<'_> {
    let mut spins = 0;
    loop {
        if let Some(lock) = state.try_lock_dirty() {
            return Dirty::Locked(lock);
        }
        if !state.is_dirty() {
            return Dirty::No;
        }
        if state.is_fixed() {
            return Dirty::InUse;
        }
        wait(Wait::Lock, spins);
        spins = spins.saturating_add(1);
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageCache({} files, {})", self.files.len(), self.eviction_method())
    }
}
