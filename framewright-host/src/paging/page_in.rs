//! Reads missing pages into memory.
//!
//! A thread claims a run of pages, allocates a frame for each, reads them, and makes them visible.
//! Other threads wait for claimed pages. So if no frame can be allocated, or the store fails or
//! panics, the claims on all pages that are not visible yet end.

use std::{io, ops::Range};

use framewright::{
    Block, MigrateType, Order, Request,
    reclaim::{PageKind, Shadow},
};

use super::{
    FileId, PagerCpu, PagingError,
    cache::{PageCache, PageId, Slot},
    page::{Access, Claim},
    stats::count,
};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

/// Pages that are being read into memory. The CPU's `frames` contains a frame for each page that is
/// not visible to other threads yet.
pub(super) struct PageIn<'b, 's, 'm> {
    pager_cpu: &'b mut PagerCpu<'s, 'm>,
    file: FileId,
    /// Pages that were claimed.
    pages: Range<u32>,
    /// The number of pages that are visible to other threads. Their frames are no longer in
    /// `frames`.
    visible: u32,
}

impl<'b, 's, 'm> PageIn<'b, 's, 'm> {
    /// A read of one page, which the caller has claimed.
    pub(super) fn new(pager_cpu: &'b mut PagerCpu<'s, 'm>, id: PageId) -> Self {
        debug_assert!(pager_cpu.frames.is_empty());
        Self { pager_cpu, file: id.file, pages: id.page..id.page + 1, visible: 0 }
    }

    /// Reads the page and fixes it. Also reads the missing pages after it, up to the end of its
    /// read-ahead window.
    pub(super) fn run(mut self, access: Access, rescued: bool) -> Result<(), PagingError> {
        let (cache, page) = (self.cache(), self.pages.start);
        count(&cache.counters.misses, 1);
        count(&cache.counters.dirtied, (access == Access::Store).into());
        self.pager_cpu.pager.reclaim().tick(self.pager_cpu.token.cpu());
        // If there is no frame, the drop of `self` frees the memory of the page. A rescued page
        // needs this, too: the flush of its list skips it now.
        let block = self.pager_cpu.frame(page, PAGE)?;
        self.pager_cpu.frames.push_back(block);
        if rescued {
            count(&cache.counters.rescued, 1);
        } else {
            self.claim_neighbours();
            self.fill().map_err(|reason| PagingError::Unreadable { page, reason })?;
        }
        while let Some(block) = self.pager_cpu.frames.pop_front() {
            self.publish(page + self.visible, block, (self.visible == 0).then_some(access));
            self.visible += 1;
        }
        Ok(())
    }

    fn cache(&self) -> &'s PageCache {
        self.pager_cpu.pager.cache
    }

    /// Claims the following pages up to the end of the read-ahead window. Stops at the first page
    /// that is not missing, or that gets no frame without a retry.
    fn claim_neighbours(&mut self) {
        let cache = self.cache();
        let file = cache.file(self.file);
        let window = (self.pages.start / file.readahead + 1).saturating_mul(file.readahead);
        while self.pages.end < window.min(file.region.pages()) {
            let page = self.pages.end;
            let Ok(block) = self.pager_cpu.frame(page, PAGE.no_retry()) else { break };
            match cache.claim(PageId { file: self.file, page }) {
                Claim::Read => {
                    self.pager_cpu.frames.push_back(block);
                    self.pages.end += 1;
                }
                Claim::Rescue => {
                    // The page is in memory and needs no read, so the run ends before it.
                    count(&cache.counters.rescued, 1);
                    self.publish(page, block, None);
                    break;
                }
                Claim::Taken => {
                    self.pager_cpu.free_unused(block);
                    break;
                }
            }
        }
    }

    /// Reads all pages. If that fails, reads only the first.
    fn fill(&mut self) -> io::Result<()> {
        let result = self.read();
        if result.is_ok() || self.pages.len() == 1 {
            return result;
        }
        self.abandon_from(1);
        self.read()
    }

    #[allow(unsafe_code)]
    fn read(&self) -> io::Result<()> {
        let (cache, pages) = (self.cache(), self.pages.clone());
        let file = cache.file(self.file);
        count(&cache.counters.read, pages.len() as u64);
        // SAFETY: the pages were claimed, and no thread uses them until they are visible.
        unsafe {
            file.region.with_bytes(pages.clone(), |bytes| file.store.read(pages.start, bytes))
        }
    }

    /// Makes a claimed page visible after its contents are in memory.
    fn publish(&self, page: u32, block: Block<'m>, fixed: Option<Access>) {
        let (cache, id) = (self.cache(), PageId { file: self.file, page });
        let number = cache.number(block.pfn()).expect("a frame of the machine");
        let shadow = cache.take_shadow(id);
        let (frame, _) = block.into_raw();
        cache.set_slot(number, Slot::Holds(id));
        cache.page(id).state.publish(number, fixed);
        let (lru, cpu) = (self.pager_cpu.pager.reclaim().lru(), self.pager_cpu.token.cpu());
        match shadow {
            0 => lru.add(cpu, frame, PageKind::File),
            shadow => lru.add_refaulted(cpu, frame, PageKind::File, Shadow::from_raw(shadow)),
        };
    }

    /// Ends the claims on all pages after the first `pages`, and frees their frames.
    fn abandon_from(&mut self, pages: u32) {
        let end = self.pages.start + pages;
        for page in end..self.pages.end {
            self.cache().abandon_claim(PageId { file: self.file, page });
        }
        self.pages.end = end;
        let kept = (pages - self.visible) as usize;
        while self.pager_cpu.frames.len() > kept
            && let Some(block) = self.pager_cpu.frames.pop_back()
        {
            self.pager_cpu.free_unused(block);
        }
    }
}

impl Drop for PageIn<'_, '_, '_> {
    fn drop(&mut self) {
        self.abandon_from(self.visible);
    }
}
