//! The lists as the embedder sees them.

use crate::{
    frame::Pfn,
    memory::Memory,
    platform::{CpuId, Platform},
};

use super::{
    PageKind, Refault,
    batch::{Entry, Move},
    flags::{Flags, Place, Snapshot},
    kind::LruList,
    lists::End,
    node::{LockedLists, LruZone},
    page::Page,
    state::LruState,
};

/// The pages of a memory that can be reclaimed, by when they were used.
///
/// A page is named by its frame, which the embedder owns as a block of order 0. None of these
/// methods waits for anything but a lock of the library, and none calls the embedder.
pub struct Lru<'a, 'm, P: Platform> {
    pub(super) memory: &'a Memory<'m, P>,
    pub(super) state: &'a LruState<'m, P>,
}

/// Who frees the frame of a page that its owner has forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreedBy {
    /// The caller, as ever.
    Caller,
    /// Whoever has isolated the page, when that is put back: reclaim does, others learn it from
    /// [`Lru::put_back`].
    Isolator,
}

impl<P: Platform> Clone for Lru<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Lru<'_, '_, P> {}

impl<'m, P: Platform> Memory<'m, P> {
    /// Its LRU lists; `None` if it was made without ([`Planes::lru`](crate::Planes::lru)).
    #[must_use]
    pub fn lru(&self) -> Option<Lru<'_, 'm, P>> {
        self.lru_state().map(|state| Lru { memory: self, state })
    }
}

impl<'a, 'm, P: Platform> Lru<'a, 'm, P> {
    /// Adds a page that is used for the first time, on CPU `cpu`: to the inactive list of its kind,
    /// once the batch of the CPU is full. `false` if the memory has no such frame or CPU, or the
    /// page is known already.
    pub fn add(&self, cpu: CpuId, pfn: Pfn, kind: PageKind) -> bool {
        self.add_with(cpu, pfn, kind_flags(kind))
    }

    /// As [`Lru::add`], of a page that comes again: see [`Lru::refault`].
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

    /// Takes a page off the lists, before its frame is freed or used otherwise. `false` if it is
    /// not on any, or somebody has isolated it: then it may still be put back. Who cannot wait for
    /// that leaves the frame to them: [`Lru::abandon`].
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

    /// Takes a page off the lists for good, whoever has it isolated: the owner has forgotten it
    /// (truncated its file, ended its program). Says who frees the frame.
    ///
    /// # Safety
    ///
    /// The caller owns the frame as a block of order 0, and passes it on if the answer is
    /// [`FreedBy::Isolator`]: nobody uses it any more, no translation to it is left anywhere,
    /// cached or not, and the [`PageOwner`](super::PageOwner) answers that it cannot lock the page.
    #[allow(unsafe_code)]
    pub unsafe fn abandon(&self, pfn: Pfn) -> FreedBy {
        let mut who = [FreedBy::Caller];
        // SAFETY: as the caller promises.
        unsafe { self.abandon_many(&[pfn], &mut who) };
        who[0]
    }

    /// [`Lru::abandon`] for many pages, neighbours on one node with one hold of its LRU lock: who frees
    /// the frame of each goes to `who`. For unmapping and truncating. Pages beyond the end of `who`
    /// are left alone.
    ///
    /// # Safety
    ///
    /// As for [`Lru::abandon`], of every page.
    #[allow(unsafe_code)]
    pub unsafe fn abandon_many(&self, frames: &[Pfn], who: &mut [FreedBy]) {
        let count = frames.len().min(who.len());
        let (mut frames, mut who) = (&frames[..count], &mut who[..count]);
        while let Some(&first) = frames.first() {
            let done = match self.state.page(self.memory, first) {
                Some(page) => self.abandon_near(&page, frames, who),
                None => {
                    who[0] = FreedBy::Caller;
                    1
                }
            };
            (frames, who) = (&frames[done..], &mut who[done..]);
        }
    }

    /// Abandons a page, which is in the first of some frames, and those after it on the same node, with
    /// one hold of its LRU lock. Returns how many.
    fn abandon_near(&self, first: &Page<'a, 'm, P>, frames: &[Pfn], who: &mut [FreedBy]) -> usize {
        /// Pages of one hold: interrupts are masked meanwhile.
        const HOLD: usize = 32;
        let frames = &frames[..frames.len().min(HOLD)];
        let node = first.node;
        node.with_lists(self.platform(), |lists| {
            let (mut page, mut done) = (*first, 0);
            loop {
                let now = page.flags.get();
                who[done] = page.abandon(lists);
                done += 1;
                if now.place() == Place::Listed {
                    let (frames, who) = (&frames[done..], &mut who[done..]);
                    done += self.abandon_like(now, page.zone, frames, who, lists);
                }
                let next = frames.get(done).and_then(|&pfn| self.state.page(self.memory, pfn));
                match next.filter(|next| core::ptr::eq(next.node, node)) {
                    Some(next) => page = next,
                    None => return done,
                }
            }
        })
    }

    /// Abandons pages as long as they are of one zone, and on the same list as another, of which `now` was
    /// seen. Returns how many. Under the LRU lock of its node.
    #[inline(always)]
    fn abandon_like(
        &self,
        now: Snapshot,
        zone: &LruZone,
        frames: &[Pfn],
        who: &mut [FreedBy],
        lists: &mut LockedLists<'_, 'm, P>,
    ) -> usize {
        let (slots, flags) = (self.memory.slots_of(zone.id), self.state.flags);
        let of_zone = frames.iter().map_while(|&pfn| slots.of(pfn));
        let alike = of_zone.take_while(|&slot| flags[slot as usize].reset_if_like(now));
        let abandoned = lists.remove_all(now.list(), alike);
        zone.count(now.list(), -(abandoned as i32));
        who[..abandoned].fill(FreedBy::Caller);
        abandoned
    }

    /// Takes a page off its list for a while, to do something with it that reclaim would be in the
    /// way of. `false` if it is not on a list, or somebody else was faster.
    #[must_use = "an isolated page has to be put back"]
    pub fn isolate(&self, pfn: Pfn) -> bool {
        let Some(page) = self.state.page(self.memory, pfn) else { return false };
        let isolated = page.node.with_lists(self.platform(), |lists| page.isolate(lists));
        if isolated {
            page.node.add_isolated(page.flags.kind(), 1);
        }
        isolated
    }

    /// Puts back a page that the caller has isolated. `false` if it was
    /// [abandoned](Lru::abandon) meanwhile: the frame is the caller's to free.
    ///
    /// # Safety
    ///
    /// The caller has [isolated](Lru::isolate) the page, and has not put it back since. A page that
    /// others have isolated may be about to be freed or moved.
    #[must_use = "who learns that the page was abandoned has to free its frame"]
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

    /// The page was used in a way that no page table knows of (read, written): an inactive page
    /// that was used before becomes active.
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

    /// Has a page become active.
    pub fn activate(&self, cpu: CpuId, pfn: Pfn) {
        self.push_page(cpu, pfn, Move::Activate);
    }

    /// Has a page become inactive: it is not expected to be used again soon.
    pub fn deactivate(&self, cpu: CpuId, pfn: Pfn) {
        self.push_page(cpu, pfn, Move::Deactivate);
    }

    /// Locks a page into memory, or no longer: the unevictable list is not looked through.
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

    /// Brings what waits in the batch of a CPU to the lists.
    pub fn drain(&self, cpu: CpuId) {
        if let Some(batch) = self.batch_of(cpu) {
            self.drain_batch(batch);
        }
    }

    /// Brings what waits in the batches of all CPUs to the lists.
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

/// The flags of pages of a kind.
fn kind_flags(kind: PageKind) -> u8 {
    if kind == PageKind::File { Flags::FILE } else { 0 }
}
