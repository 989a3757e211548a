//! The LRU lists as the embedder sees them.

use crate::{
    core::MemoryCore,
    platform::Platform,
    types::{CpuId, LruList, Pfn},
};

use super::{
    PageKind,
    batch::{Entry, Move},
    flags::{Flags, Place, Snapshot},
    lists::End,
    node::{LockedLists, LruZone},
    page::{FreedBy, Page},
    state::LruState,
};

/// The reclaimable pages of a memory, on LRU lists.
///
/// A page is identified by its frame, which the embedder owns as a block of order 0. The methods
/// wait for nothing but locks of the library. They do not call the [`PageOwner`](super::PageOwner);
/// putting back a page may call [`Relief::resume`](crate::platform::Relief::resume).
pub struct Lru<'a, 'm, P: Platform> {
    pub(super) memory: &'a MemoryCore<'m, P>,
    pub(super) state: &'a LruState<'m, P>,
}

/// The treatment of a page that is read again after its eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refault {
    /// The page becomes active at once, because it should have been kept.
    pub activate: bool,
    /// The page was active before its eviction.
    pub restored: bool,
}

impl<P: Platform> Clone for Lru<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Lru<'_, '_, P> {}

impl<'a, 'm, P: Platform> Lru<'a, 'm, P> {
    pub(crate) fn new(memory: &'a MemoryCore<'m, P>, state: &'a LruState<'m, P>) -> Self {
        Self { memory, state }
    }

    /// Adds a page that is used for the first time, on CPU `cpu`. The page is added to the inactive
    /// list of its kind when the batch of the CPU is drained. Returns `false` if the memory does
    /// not have the frame or the CPU, or if the page is known already.
    pub fn add(&self, cpu: CpuId, pfn: Pfn, kind: PageKind) -> bool {
        self.add_with(cpu, pfn, kind_flags(kind))
    }

    /// As [`Lru::add`], for a page that was evicted before: see [`Lru::refault`].
    pub fn add_as(&self, cpu: CpuId, pfn: Pfn, kind: PageKind, refault: Refault) -> bool {
        let mut flags = kind_flags(kind);
        flags |= if refault.activate { Flags::ACTIVE } else { 0 };
        flags |= if refault.restored { Flags::WORKINGSET } else { 0 };
        self.add_with(cpu, pfn, flags)
    }

    /// Adds a page with these flags.
    fn add_with(&self, cpu: CpuId, pfn: Pfn, flags: u8) -> bool {
        let Some((zone, slot)) = self.memory.find_slot(pfn) else { return false };
        let Some(batch) = self.batch_of(cpu) else { return false };
        let is_new = self.state.flags_at(slot).begin(flags);
        if is_new {
            self.push(batch, Entry { slot, zone: zone.id(), to: Move::Add });
        }
        is_new
    }

    /// Removes a page from the lists, before its frame is freed or used for something else. Returns
    /// `false` if the page is unknown, or is isolated and may be put back. If the caller cannot
    /// wait for that, it calls [`Lru::abandon`].
    pub fn remove(&self, pfn: Pfn) -> bool {
        let Some(page) = self.state.page(self.memory, pfn) else { return false };
        page.node.with_lists(self.platform(), |lists| match page.flags.place() {
            Place::Unknown | Place::Isolated => false,
            Place::Pending => {
                page.flags.reset();
                true
            }
            Place::Listed => {
                page.unlink(lists);
                page.flags.reset();
                true
            }
        })
    }

    /// Removes a page from the lists for good, even if it is isolated. The owner no longer uses the
    /// page, because its file was truncated or its process has exited. Returns who must free the
    /// frame.
    ///
    /// # Safety
    ///
    /// The caller owns the frame as a block of order 0. If the answer is [`FreedBy::Isolator`],
    /// ownership passes to the caller that has isolated the page. The frame is no longer used, no
    /// translation to it is left, cached or not, and the [`PageOwner`](super::PageOwner) answers
    /// that it cannot lock the page.
    #[allow(unsafe_code)]
    pub unsafe fn abandon(&self, pfn: Pfn) -> FreedBy {
        let mut freed_by = [FreedBy::Caller];
        // SAFETY: the caller fulfils the contract, which is the same for one page.
        unsafe { self.abandon_many(&[pfn], &mut freed_by) };
        freed_by[0]
    }

    /// As [`Lru::abandon`], for many pages. Consecutive pages of one node are handled under one
    /// hold of its LRU lock. For each page, `freed_by` receives who must free its frame. For use
    /// when a range is unmapped or a file is truncated. Pages beyond the length of `freed_by` are
    /// left alone.
    ///
    /// # Safety
    ///
    /// As for [`Lru::abandon`], for every page.
    #[allow(unsafe_code)]
    pub unsafe fn abandon_many(&self, frames: &[Pfn], freed_by: &mut [FreedBy]) {
        let count = frames.len().min(freed_by.len());
        let (mut frames, mut freed_by) = (&frames[..count], &mut freed_by[..count]);
        while let Some(&first) = frames.first() {
            let done = match self.state.page(self.memory, first) {
                Some(page) => self.abandon_near(&page, frames, freed_by),
                None => {
                    freed_by[0] = FreedBy::Caller;
                    1
                }
            };
            (frames, freed_by) = (&frames[done..], &mut freed_by[done..]);
        }
    }

    /// Abandons the page in the first of `frames`, and those after it that are on the same node,
    /// under one hold of its LRU lock. Returns their number.
    fn abandon_near(
        &self,
        first: &Page<'a, 'm, P>,
        frames: &[Pfn],
        freed_by: &mut [FreedBy],
    ) -> usize {
        /// Pages per hold of the lock, during which interrupts are masked.
        const HOLD: usize = 32;
        let frames = &frames[..frames.len().min(HOLD)];
        let node = first.node;
        node.with_lists(self.platform(), |lists| {
            let (mut page, mut done) = (*first, 0);
            loop {
                let now = page.flags.get();
                freed_by[done] = page.abandon(lists);
                done += 1;
                if now.place() == Place::Listed {
                    let (frames, freed_by) = (&frames[done..], &mut freed_by[done..]);
                    done += self.abandon_like(now, page.zone, frames, freed_by, lists);
                }
                let next = frames.get(done).and_then(|&pfn| self.state.page(self.memory, pfn));
                match next.filter(|next| core::ptr::eq(next.node, node)) {
                    Some(next) => page = next,
                    None => return done,
                }
            }
        })
    }

    /// Abandons pages while they are of one zone, and on the same list as a page with flags `now`.
    /// Returns their number. Under the LRU lock of its node.
    #[inline(always)]
    fn abandon_like(
        &self,
        now: Snapshot,
        zone: &LruZone,
        frames: &[Pfn],
        freed_by: &mut [FreedBy],
        lists: &mut LockedLists<'_, 'm, P>,
    ) -> usize {
        let (slots, flags) = (self.memory.side_table_index_of(zone.id), self.state.flags);
        let of_zone = frames.iter().map_while(|&pfn| slots.of(pfn));
        let alike = of_zone.take_while(|&slot| flags[slot as usize].reset_if_like(now));
        let abandoned = lists.remove_all(now.list(), alike);
        zone.count(now.list(), -(abandoned as i32));
        freed_by[..abandoned].fill(FreedBy::Caller);
        abandoned
    }

    /// Removes a page from its list for a while, so that reclaim leaves it alone. Returns `false`
    /// if the page is unknown to reclaim, or is isolated already.
    #[must_use = "an isolated page has to be put back"]
    pub fn isolate(&self, pfn: Pfn) -> bool {
        let Some(page) = self.state.page(self.memory, pfn) else { return false };
        let isolated = page.node.with_lists(self.platform(), |lists| page.isolate(lists));
        if isolated {
            page.node.add_isolated(page.flags.kind(), 1);
        }
        isolated
    }

    /// Puts back a page that the caller has isolated. Returns `false` if the page was
    /// [abandoned](Lru::abandon) meanwhile: then the caller frees the frame.
    ///
    /// # Safety
    ///
    /// The caller has [isolated](Lru::isolate) the page, and has not put it back since. A page that
    /// others have isolated may be about to be freed or moved.
    #[must_use = "if the page was abandoned, the caller has to free its frame"]
    #[allow(unsafe_code)]
    pub unsafe fn put_back(&self, pfn: Pfn) -> bool {
        let Some(page) = self.state.page(self.memory, pfn) else { return true };
        let kind = page.flags.kind();
        let stays = page.node.with_lists(self.platform(), |lists| {
            let is_isolated = page.flags.place() == Place::Isolated;
            is_isolated.then(|| page.put_back(lists, End::Head))
        });
        if stays.is_some() {
            page.node.sub_isolated(self.platform(), kind, 1);
        }
        stays.unwrap_or(true)
    }

    /// Records a use of a page that no page table records (a read or a write of a file). An
    /// inactive page that was used before becomes active.
    pub fn mark_accessed(&self, cpu: CpuId, pfn: Pfn) {
        let Some(page) = self.state.page(self.memory, pfn) else { return };
        if page.flags.list() == LruList::Unevictable {
            return;
        }
        if page.flags.has(Flags::ACTIVE) || !page.flags.has(Flags::REFERENCED) {
            page.flags.set(Flags::REFERENCED);
        } else {
            self.push_page(cpu, pfn, Move::Activate);
        }
    }

    /// Makes a page active.
    pub fn activate(&self, cpu: CpuId, pfn: Pfn) {
        self.push_page(cpu, pfn, Move::Activate);
    }

    /// Makes a page inactive, because it is not expected to be used again soon.
    pub fn deactivate(&self, cpu: CpuId, pfn: Pfn) {
        self.push_page(cpu, pfn, Move::Deactivate);
    }

    /// Sets or clears whether a page is locked into memory. Reclaim does not scan the unevictable
    /// list.
    pub fn set_unevictable(&self, pfn: Pfn, unevictable: bool) {
        let Some(page) = self.state.page(self.memory, pfn) else { return };
        page.node.with_lists(self.platform(), |lists| {
            let is_listed = page.flags.place() == Place::Listed;
            if is_listed {
                page.unlink(lists);
            }
            page.flags.set_unevictable(unevictable);
            if is_listed {
                page.link(lists, End::Head);
            }
        });
    }

    /// Applies the moves that wait in the batch of a CPU.
    pub fn drain(&self, cpu: CpuId) {
        if let Some(batch) = self.batch_of(cpu) {
            self.drain_batch(batch);
        }
    }

    /// Applies the moves that wait in the batches of all CPUs.
    pub fn drain_all(&self) {
        (0..self.memory.cpu_count()).for_each(|cpu| self.drain(CpuId::new(cpu)));
    }

    pub(super) fn platform(&self) -> &'a P {
        self.memory.platform()
    }

    fn push_page(&self, cpu: CpuId, pfn: Pfn, to: Move) {
        let Some(page) = self.state.page(self.memory, pfn) else { return };
        if let Some(batch) = self.batch_of(cpu) {
            self.push(batch, Entry { slot: page.slot, zone: page.zone.id, to });
        }
    }
}

/// The flags of a new page of a kind.
fn kind_flags(kind: PageKind) -> u8 {
    if kind == PageKind::File { Flags::FILE } else { 0 }
}
