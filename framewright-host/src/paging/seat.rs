//! A thread's view of a cache: using pages, and bringing them in.

use std::ops::Range;

use framewright::{
    CpuToken, MigrateType, Order, Pfn, Request,
    platform::Wait,
    reclaim::{PageKind, Shadow},
};

use super::{
    FileId, PageCache, Pager, PagingError, Reading, Writing,
    cache::{PageId, Slot, count},
    owner::free,
    page::{Claim, Fix, PageState},
};
use crate::{HostMachine, wait::wait};

/// A CPU, which is a thread. See [`Pager::seat`].
pub struct Seat<'s, 'm> {
    pager: &'s Pager<'s, 'm>,
    token: CpuToken<'s, 'm, HostMachine>,
    /// Frames of pages that are being read.
    frames: Vec<Pfn>,
}

impl<'s, 'm> Seat<'s, 'm> {
    pub(super) fn new(pager: &'s Pager<'s, 'm>, token: CpuToken<'s, 'm, HostMachine>) -> Self {
        Self { pager, token, frames: Vec::new() }
    }

    /// A page of a file, to be read.
    ///
    /// # Errors
    ///
    /// [`PagingError`]: there is no such page, it cannot be read, or no frame can be had for it.
    #[inline]
    pub fn read(&mut self, file: FileId, page: u32) -> Result<Reading<'s>, PagingError> {
        let id = self.id(file, page)?;
        self.fix(id, false)?;
        Ok(Reading::new(self.pager.cache, id))
    }

    /// A page of a file, to be stored to. It is dirty from now on.
    ///
    /// # Errors
    ///
    /// As [`Seat::read`].
    #[inline]
    pub fn write(&mut self, file: FileId, page: u32) -> Result<Writing<'s>, PagingError> {
        let id = self.id(file, page)?;
        self.fix(id, true)?;
        Ok(Writing::new(self.pager.cache, id))
    }

    /// Writes all dirty pages of a file that nobody has in use.
    ///
    /// # Errors
    ///
    /// [`PagingError::Unwritten`], having tried them all; else [`PagingError::InUse`].
    pub fn sync(&mut self, file: FileId) -> Result<(), PagingError> {
        let cache = self.pager.cache;
        let (mut failed, mut in_use) = (None, None);
        for page in 0..cache.file(file).region.pages() {
            let id = PageId { file, page };
            match lock_dirty(&cache.page(id).state) {
                Dirty::No => {}
                Dirty::InUse => {
                    let (pages, _) = in_use.get_or_insert((0, page));
                    *pages += 1;
                }
                Dirty::Locked => {
                    let result = cache.write(id, false);
                    cache.page(id).state.unlock();
                    if let Err(reason) = result {
                        let (pages, _, _) = failed.get_or_insert((0, page, reason));
                        *pages += 1;
                    }
                }
            }
        }
        match (failed, in_use) {
            (Some((pages, page, reason)), _) => Err(PagingError::Unwritten { pages, page, reason }),
            (None, Some((pages, page))) => Err(PagingError::InUse { pages, page }),
            (None, None) => Ok(()),
        }
    }

    /// Writes what is dirty, and gives everything that is in memory back, for all files. To be called
    /// when no other thread uses the cache.
    ///
    /// # Errors
    ///
    /// As [`Seat::sync`], and nothing is given back of the file.
    pub fn clear_away(&mut self) -> Result<(), PagingError> {
        const AT_A_TIME: u64 = 1 << 12;
        /// Rounds without success before it gives up: about a tenth of a second.
        const PATIENCE: u32 = 200;
        let cache = self.pager.cache;
        let result = cache.files().map(|file| self.sync(file)).fold(Ok(()), Result::and);
        let (reclaim, cpu) = (self.pager.reclaim(), self.token.cpu());
        let node = self.pager.memory.node_of(cpu);
        let mut in_vain = 0;
        while cache.has_evictable() && in_vain < PATIENCE {
            reclaim.lru().drain_all();
            self.pager.tell_written(cpu);
            // Nothing, while others have isolated what is left.
            let freed = reclaim.shrink_node(cpu, node, AT_A_TIME);
            in_vain = if freed == 0 { in_vain + 1 } else { 0 };
            wait(Wait::Memory, in_vain);
        }
        result
    }

    /// Gives back a frame that reclaim has handed out.
    #[cfg(test)]
    pub(super) fn free(&mut self, frame: Pfn) {
        free(&mut self.token, frame);
    }

    fn id(&self, file: FileId, page: u32) -> Result<PageId, PagingError> {
        let pages = self.pager.cache.file(file).region.pages();
        if page < pages {
            Ok(PageId { file, page })
        } else {
            Err(PagingError::NoSuchPage { page, pages })
        }
    }

    /// Fixes a page.
    #[inline]
    fn fix(&mut self, id: PageId, stores: bool) -> Result<(), PagingError> {
        match self.pager.cache.page(id).state.fix(stores) {
            Fix::Fixed { dirtied } => {
                if dirtied {
                    count(&self.pager.cache.counters.dirtied, 1);
                }
                Ok(())
            }
            Fix::Busy | Fix::Absent => self.fix_slowly(id, stores),
        }
    }

    #[cold]
    fn fix_slowly(&mut self, id: PageId, stores: bool) -> Result<(), PagingError> {
        let cache = self.pager.cache;
        let state = &cache.page(id).state;
        let mut spins = 0;
        loop {
            match state.fix(stores) {
                Fix::Fixed { dirtied } => {
                    count(&cache.counters.dirtied, dirtied.into());
                    return Ok(());
                }
                Fix::Absent => match state.claim() {
                    Claim::Taken => {}
                    claim => return self.bring(id, stores, claim == Claim::Rescue),
                },
                Fix::Busy => {}
            }
            wait(Wait::Lock, spins);
            spins = spins.saturating_add(1);
        }
    }

    /// Brings a page in that was claimed, fixed; and neighbours, if they are read in a row.
    fn bring(&mut self, id: PageId, stores: bool, rescued: bool) -> Result<(), PagingError> {
        let cache = self.pager.cache;
        count(&cache.counters.misses, 1);
        count(&cache.counters.dirtied, stores.into());
        self.pager.reclaim().catch_up(self.token.cpu());
        let frame = match self.token.alloc(PAGE) {
            Ok(block) => block.into_raw().0,
            Err(reason) => {
                // Even of one that was rescued: nobody else gives it up any more.
                cache.give_back(id);
                return Err(PagingError::OutOfMemory { page: id.page, reason });
            }
        };
        if rescued {
            count(&cache.counters.rescued, 1);
            self.show(id, frame, Some(stores));
            return Ok(());
        }
        self.frames.clear();
        self.frames.push(frame);
        let run = self.claim_neighbours(id);
        if let Err(reason) = self.fill(id, run) {
            cache.give_back(id);
            free(&mut self.token, frame);
            return Err(PagingError::Unreadable { page: id.page, reason });
        }
        let frames = std::mem::take(&mut self.frames);
        for (page, &frame) in (id.page..).zip(&frames) {
            let fixed = (page == id.page).then_some(stores);
            self.show(PageId { page, ..id }, frame, fixed);
        }
        self.frames = frames;
        Ok(())
    }

    /// Claims the pages after one that is missing, up to the end of its window, as far as they are
    /// missing as well and frames are easily had. All of the run.
    fn claim_neighbours(&mut self, id: PageId) -> Range<u32> {
        let cache = self.pager.cache;
        let file = cache.file(id.file);
        let window = (id.page / file.readahead + 1).saturating_mul(file.readahead);
        let mut end = id.page + 1;
        while end < window.min(file.region.pages()) {
            let Ok(block) = self.token.alloc(PAGE.no_retry()) else { break };
            let frame = block.into_raw().0;
            let next = PageId { page: end, ..id };
            match cache.page(next).state.claim() {
                Claim::Read => self.frames.push(frame),
                Claim::Rescue => {
                    // It is there: no need to go on, nor to read it.
                    count(&cache.counters.rescued, 1);
                    self.show(next, frame, None);
                    break;
                }
                Claim::Taken => {
                    free(&mut self.token, frame);
                    break;
                }
            }
            end = id.page + self.frames.len() as u32;
        }
        id.page..id.page + self.frames.len() as u32
    }

    /// Reads a run of pages that were claimed; or, if that fails, its first alone, and the others are
    /// given back.
    #[allow(unsafe_code)]
    fn fill(&mut self, id: PageId, run: Range<u32>) -> std::io::Result<()> {
        let cache = self.pager.cache;
        let file = cache.file(id.file);
        let read = |pages: Range<u32>| {
            count(&cache.counters.read, u64::from(pages.end - pages.start));
            // SAFETY: the pages were claimed, and nobody uses them until they are shown.
            unsafe { file.region.with_bytes(pages, |bytes| file.store.read(id.page, bytes)) }
        };
        let result = read(run.clone());
        if result.is_ok() || run.len() == 1 {
            return result;
        }
        for page in run.skip(1) {
            cache.give_back(PageId { page, ..id });
        }
        let others = self.frames.split_off(1);
        others.into_iter().for_each(|frame| free(&mut self.token, frame));
        read(id.page..id.page + 1)
    }

    /// A page that was claimed is in memory.
    fn show(&mut self, id: PageId, frame: Pfn, fixed: Option<bool>) {
        let cache = self.pager.cache;
        let shadow = cache.take_shadow(id);
        cache.set_slot(frame, Slot::Holds(id));
        cache.page(id).state.publish(frame, fixed);
        let (lru, cpu) = (self.pager.reclaim().lru(), self.token.cpu());
        match shadow {
            0 => lru.add(cpu, frame, PageKind::File),
            shadow => lru.add_refaulted(cpu, frame, PageKind::File, Shadow::from_raw(shadow)),
        };
    }
}

/// Whether a page is dirty, and locked then.
enum Dirty {
    No,
    Locked,
    InUse,
}

/// Locks a page if it is dirty; waits for reclaim, which has it for a moment, but for no guard.
fn lock_dirty(state: &PageState) -> Dirty {
    let mut spins = 0;
    loop {
        let Some(frame) = state.frame().filter(|_| state.is_dirty()) else { return Dirty::No };
        if state.try_lock(frame).is_some() {
            if state.is_dirty() {
                return Dirty::Locked;
            }
            state.unlock();
        } else if state.is_fixed() {
            return Dirty::InUse;
        }
        wait(Wait::Lock, spins);
        spins = spins.saturating_add(1);
    }
}

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageCache({} files, {})", self.files.len(), self.giving_up())
    }
}
