//! The lists as the embedder sees them.

use crate::{
    frame::Pfn,
    memory::Memory,
    observe::NodeStat,
    platform::{CpuId, Platform},
};

use super::{
    PageKind, Refault,
    batch::{Batch, Entry, Move},
    flags::{Flags, Place},
    kind::LruList,
    lists::End,
    node::Held,
    state::{LruState, Page},
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
pub enum Abandoned {
    /// The caller, as ever.
    Yours,
    /// Whoever has isolated the page, when that is put back: reclaim does, others learn it from
    /// [`Lru::put_back`].
    Theirs,
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
        self.add_as(cpu, pfn, kind, Refault::default())
    }

    /// As [`Lru::add`], of a page that comes again: see [`Lru::refault`].
    pub fn add_as(&self, cpu: CpuId, pfn: Pfn, kind: PageKind, refault: Refault) -> bool {
        let Some(page) = self.state.page(self.memory, pfn) else { return false };
        if cpu.index() >= self.state.batches.len() {
            return false;
        }
        let mut flags = 0;
        for (flag, set) in [
            (Flags::FILE, kind == PageKind::File),
            (Flags::ACTIVE, refault.activate),
            (Flags::WORKINGSET, refault.restored),
        ] {
            flags |= if set { flag } else { 0 };
        }
        page.flags.begin(flags) && self.push(cpu, page.slot, Move::Add)
    }

    /// Takes a page off the lists, before its frame is freed or used otherwise. `false` if it is
    /// not on any, or somebody has isolated it: then it may still be put back. Who cannot wait for
    /// that leaves the frame to them: [`Lru::abandon`].
    pub fn remove(&self, pfn: Pfn) -> bool {
        let Some(page) = self.state.page(self.memory, pfn) else { return false };
        page.node.with_lists(self.platform(), |lists| match page.flags.place() {
            Place::Off | Place::Isolated => false,
            Place::Pending => {
                page.flags.forget();
                true
            }
            Place::Listed => {
                page.unlink(lists);
                page.flags.forget();
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
    /// [`Abandoned::Theirs`]: nobody uses it any more, no translation to it is left anywhere,
    /// cached or not, and the [`PageOwner`](super::PageOwner) answers that it cannot lock the page.
    #[allow(unsafe_code)]
    pub unsafe fn abandon(&self, pfn: Pfn) -> Abandoned {
        let mut who = [Abandoned::Yours];
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
    pub unsafe fn abandon_many(&self, frames: &[Pfn], who: &mut [Abandoned]) {
        /// Pages of one hold: interrupts are masked meanwhile.
        const HOLD: usize = 32;
        let mut left = frames.iter().zip(who).peekable();
        while let Some(pfn) = left.peek().map(|(pfn, _)| **pfn) {
            let Some(first) = self.state.page(self.memory, pfn) else {
                left.next().into_iter().for_each(|(_, who)| *who = Abandoned::Yours);
                continue;
            };
            let node = first.node;
            node.with_lists(self.platform(), |lists| {
                for _ in 0..HOLD {
                    let page = left.peek().and_then(|(pfn, _)| self.state.page(self.memory, **pfn));
                    match page.filter(|page| core::ptr::eq(page.node, node)) {
                        Some(page) => {
                            left.next().into_iter().for_each(|(_, who)| *who = page.abandon(lists));
                        }
                        None => break,
                    }
                }
            });
        }
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
    #[must_use = "who learns that the page was abandoned has to free its frame"]
    pub fn put_back(&self, pfn: Pfn) -> bool {
        let Some(page) = self.state.page(self.memory, pfn) else { return true };
        let kind = page.flags.kind();
        page.node.with_lists(self.platform(), |lists| {
            if page.flags.place() != Place::Isolated {
                return true;
            }
            page.node.sub_isolated(kind, 1);
            page.put_back(lists, End::Head)
        })
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
            self.push(cpu, page.slot, Move::Activate);
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
        if let Some(batch) = self.state.batches.get(cpu.index()) {
            self.apply(&batch.take(self.platform()));
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
        if let Some(page) = self.state.page(self.memory, pfn) {
            self.push(cpu, page.slot, to);
        }
    }

    /// Puts a move into the batch of a CPU. `false` if there is no such CPU.
    fn push(&self, cpu: CpuId, slot: u32, to: Move) -> bool {
        let Some(batch) = self.state.batches.get(cpu.index()) else { return false };
        let limit = self.memory.tuning().reclaim.add_batch as usize;
        if let Some(full) = batch.push(self.platform(), Entry { slot, to }, limit) {
            self.apply(&full);
        }
        true
    }

    /// Has the pages of a frame reclaimed next, now that it has been written.
    pub(super) fn rotate(&self, page: &Page<'_, 'm, P>) {
        let entry = Entry { slot: page.slot, to: Move::Rotate };
        page.node.with_lists(self.platform(), |lists| self.apply_one(lists, entry));
    }

    /// Carries out moves, with one hold of the LRU lock of every node concerned.
    fn apply(&self, batch: &Batch) {
        let node_of = |entry: &Entry| self.state.zone_at(entry.slot).node;
        let mut left = batch.entries().iter().fold(0u64, |nodes, e| nodes | 1 << node_of(e).get());
        let all_of_one = left.is_power_of_two();
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            left &= left - 1;
            let node = &self.state.nodes[number];
            let is_here = |e: &&Entry| all_of_one || node_of(e).index() == number;
            let here = || batch.entries().iter().filter(is_here);
            node.bring(self.platform(), here().map(|entry| entry.slot));
            node.with_lists(self.platform(), |lists| {
                here().for_each(|&entry| self.apply_one(lists, entry));
            });
        }
    }

    /// Under the LRU lock of the page's node.
    fn apply_one(&self, lists: &mut Held<'_, 'm, P>, Entry { slot, to }: Entry) {
        let page = self.state.page_at(slot);
        match page.flags.place() {
            Place::Listed if to != Move::Add => page.unlink(lists),
            Place::Pending => _ = page.flags.shift(Place::Pending, Place::Listed),
            // A stale entry, or somebody else has the page.
            _ => return,
        }
        let evictable_inactive =
            matches!(page.flags.list(), LruList::InactiveAnon | LruList::InactiveFile);
        let end = match to {
            Move::Activate if page.flags.activate() => {
                page.node.count(NodeStat::Pgactivate, 1);
                page.node.advance_clock(1);
                End::Head
            }
            Move::Deactivate if page.flags.deactivate() => {
                page.node.count(NodeStat::Pgdeactivate, 1);
                End::Head
            }
            Move::Rotate if evictable_inactive => {
                page.node.count(NodeStat::Pgrotated, 1);
                End::Tail
            }
            _ => End::Head,
        };
        page.link(lists, end);
    }
}

impl<P: Platform> Page<'_, '_, P> {
    /// Puts the page on the list that its flags say. Under the LRU lock of its node.
    pub(super) fn link(&self, lists: &mut Held<'_, '_, P>, end: End) {
        let list = self.flags.list();
        lists.insert(list, self.slot, end);
        self.zone.count(list, 1);
    }

    /// Takes the page off its list. Under the LRU lock of its node.
    pub(super) fn unlink(&self, lists: &mut Held<'_, '_, P>) {
        let list = self.flags.list();
        lists.remove(list, self.slot);
        self.zone.count(list, -1);
    }

    /// Isolates the page if it is on a list or on its way there. Under the LRU lock of its node. The
    /// caller counts it as isolated, many at once: others read that count all the time.
    pub(super) fn isolate(&self, lists: &mut Held<'_, '_, P>) -> bool {
        let is_listed = self.flags.place() == Place::Listed;
        if is_listed {
            self.unlink(lists);
            self.flags.shift(Place::Listed, Place::Isolated);
        } else if !self.flags.shift(Place::Pending, Place::Isolated) {
            return false;
        }
        true
    }

    /// Forgets the page, or has whoever has isolated it do so: says who frees the frame. Under the LRU
    /// lock of its node.
    fn abandon(&self, lists: &mut Held<'_, '_, P>) -> Abandoned {
        match self.flags.place() {
            Place::Isolated if self.flags.condemn() => return Abandoned::Theirs,
            Place::Listed => self.unlink(lists),
            _ => {}
        }
        self.flags.forget();
        Abandoned::Yours
    }

    /// Ends the isolation of the page: on its list again; or `false` if it was condemned. Under the
    /// LRU lock of its node. The caller counts.
    pub(super) fn put_back(&self, lists: &mut Held<'_, '_, P>, end: End) -> bool {
        let stays = self.flags.end_isolation();
        if stays {
            self.link(lists, end);
        }
        stays
    }
}
