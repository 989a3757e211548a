//! The state of reclaim per node: the lists under their lock, and counts that are read without the
//! lock.

use crate::{
    observe::{NodeStat, NodeStats},
    platform::{Access, Cost, Line, Miss, Platform, Section, SpinLock, Throttle},
    sync::{AtomicU32, AtomicU64, Ordering, fence},
    types::{LruList, NodeId, PageKind, Pfn, ZoneId, ZoneKind},
    zone::Zone,
};

use super::{
    kswapd_state::KswapdState,
    lists::{End, Link, Lists, NONE},
};

/// The part of a zone in the LRU lists.
pub(crate) struct LruZone {
    pub(super) id: ZoneId,
    pub(super) node: NodeId,
    pub(super) kind: ZoneKind,
    /// The zone's first frame, and its range of slots in the per-frame tables.
    pub(super) base: Pfn,
    pub(super) slots: core::ops::Range<u32>,
    /// Pages of the zone on each list. Written under the LRU lock of the node.
    pages: [AtomicU32; LruList::COUNT],
}

impl LruZone {
    pub(crate) fn new<P: Platform>(zone: &Zone<'_, P>) -> Self {
        let start = zone.side_table_start() as u32;
        Self {
            id: zone.id(),
            node: zone.node(),
            kind: zone.kind(),
            base: zone.base(),
            slots: start..start + zone.spanned() as u32,
            pages: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Number of pages of the zone on a list.
    pub(super) fn pages(&self, list: LruList) -> u64 {
        self.pages[list as usize].load(Ordering::Relaxed).into()
    }

    /// Adds to the number of pages on a list. Under the LRU lock of the node.
    #[inline(always)]
    pub(super) fn count(&self, list: LruList, difference: i32) {
        let pages = &self.pages[list as usize];
        let count = pages.load(Ordering::Relaxed).wrapping_add_signed(difference);
        pages.store(count, Ordering::Relaxed);
    }
}

/// The lists of a node under their lock. Each operation reports its cost to the platform.
pub(super) struct LockedLists<'h, 'm, P: Platform> {
    lists: &'h mut Lists<'m>,
    platform: &'h P,
    node: NodeId,
}

impl<'m, P: Platform> LockedLists<'_, 'm, P> {
    /// The lists, read-only.
    pub(super) fn lists(&self) -> &Lists<'m> {
        self.lists
    }

    /// Adds a page that is on no list.
    pub(super) fn insert(&mut self, list: LruList, slot: u32, at: End) {
        probe_move(self.platform, self.node, slot, Miss::Independent);
        self.lists.insert(list, slot, at);
    }

    /// See [`Lists::insert_all`].
    #[inline(always)]
    pub(super) fn insert_all(&mut self, list: LruList, slots: impl Iterator<Item = u32>) -> usize {
        let Self { lists, platform, node } = self;
        let probed = slots.inspect(|&slot| probe_move(*platform, *node, slot, Miss::Independent));
        lists.insert_all(list, probed)
    }

    /// Removes the last `count` pages from a list: see [`Lists::cut`].
    pub(super) fn cut(&mut self, list: LruList, count: u32, rest: Option<u32>) {
        self.platform.cost(Cost::LruMoves, count);
        self.lists.cut(list, count, rest);
    }

    /// The page that is taken after `slot`.
    pub(super) fn next(&self, slot: u32) -> Option<u32> {
        touch(self.platform, self.node, slot, Access::Read, Miss::Dependent);
        self.lists.newer(slot)
    }

    /// Removes a page from the list that it is on.
    pub(super) fn remove(&mut self, list: LruList, slot: u32) {
        self.remove_all(list, core::iter::once(slot));
    }

    /// See [`Lists::remove_all`].
    #[inline(always)]
    pub(super) fn remove_all(&mut self, list: LruList, slots: impl Iterator<Item = u32>) -> usize {
        let Self { lists, platform, node } = self;
        // Removing a page reads the links of its neighbours.
        let probed = slots.inspect(|&slot| probe_move(*platform, *node, slot, Miss::Dependent));
        lists.remove_all(list, probed)
    }

    /// Reports the cost of a page that was skipped because of its zone.
    pub(super) fn probe_skip(&self) {
        self.platform.cost(Cost::LruSkips, 1);
    }
}

/// Links per cache line.
const LINKS_PER_LINE: u32 = 8;

fn touch<P: Platform>(platform: &P, node: NodeId, slot: u32, access: Access, miss: Miss) {
    platform.touch(Line::LruLinks(node, slot / LINKS_PER_LINE), access, miss);
}

fn probe_move<P: Platform>(platform: &P, node: NodeId, slot: u32, miss: Miss) {
    platform.cost(Cost::LruMoves, 1);
    touch(platform, node, slot, Access::Write, miss);
}

/// The number of waiters on a node, by reason.
pub(super) struct Waiters([AtomicU32; Throttle::COUNT]);

impl Waiters {
    pub(super) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU32::new(0)))
    }

    /// Counts a waiter. The waiter must check its condition after this, so that either the waiter
    /// sees the change or the waker sees the waiter.
    pub(super) fn enter(&self, why: Throttle) -> WaiterGuard<'_> {
        let count = &self.0[why as usize];
        count.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        WaiterGuard(count)
    }

    /// Whether there may be a waiter that has not seen the changes that the caller made before this
    /// call.
    pub(super) fn has(&self, why: Throttle) -> bool {
        fence(Ordering::SeqCst);
        self.0[why as usize].load(Ordering::Relaxed) > 0
    }
}

/// A pause in progress. Dropping the guard ends it, also if the embedder panics.
pub(super) struct WaiterGuard<'p>(&'p AtomicU32);

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of reclaim for one node.
pub(crate) struct Node<'m, P: Platform> {
    id: NodeId,
    lists: SpinLock<P, Lists<'m>>,
    /// The links, read without the lock for prefetching.
    links: &'m [Link],
    /// The tail of each list, published under the lock.
    tails: [AtomicU32; LruList::COUNT],
    /// The length of each list, published under the lock.
    lengths: [AtomicU32; LruList::COUNT],
    /// Isolated pages, by kind.
    isolated: [AtomicU32; PageKind::COUNT],
    /// Evictions and activations so far. This is the clock of the workingset.
    clock: AtomicU64,
    /// The recent cost of reclaiming each kind.
    costs: [AtomicU64; PageKind::COUNT],
    /// Activations by refaults so far, by kind.
    refaults: [AtomicU32; PageKind::COUNT],
    /// Values of `refaults` at the last snapshot.
    refaults_snapshot: [AtomicU32; PageKind::COUNT],
    pub(super) kswapd: KswapdState,
    pub(super) waiters: Waiters,
    stats: [AtomicU64; NodeStat::COUNT],
}

impl<'m, P: Platform> Node<'m, P> {
    pub(crate) fn new(id: NodeId, links: &'m [Link]) -> Self {
        Self {
            id,
            lists: SpinLock::new(Section::Lru(id), Lists::new(links)),
            links,
            tails: core::array::from_fn(|_| AtomicU32::new(NONE)),
            lengths: core::array::from_fn(|_| AtomicU32::new(0)),
            isolated: core::array::from_fn(|_| AtomicU32::new(0)),
            clock: AtomicU64::new(0),
            costs: core::array::from_fn(|_| AtomicU64::new(0)),
            refaults: core::array::from_fn(|_| AtomicU32::new(0)),
            refaults_snapshot: core::array::from_fn(|_| AtomicU32::new(0)),
            kswapd: KswapdState::new(),
            waiters: Waiters::new(),
            stats: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.id
    }

    /// Whether the LRU lock is held at the moment. A hint.
    #[cfg(feature = "compare")]
    pub(crate) fn is_contended(&self, platform: &P) -> bool {
        self.lists.is_held(platform)
    }

    /// Runs `f` on the lists under the LRU lock, and publishes their lengths.
    pub(super) fn with_lists<R>(
        &self,
        platform: &P,
        f: impl FnOnce(&mut LockedLists<'_, 'm, P>) -> R,
    ) -> R {
        self.lists.with(platform, |lists| {
            platform.cost(Cost::LruHold, 1);
            platform.touch(Line::LruNode(self.id), Access::Write, Miss::Dependent);
            let result = f(&mut LockedLists { lists, platform, node: self.id });
            for list in LruList::ALL {
                self.lengths[list as usize].store(lists.length(list), Ordering::Relaxed);
                self.tails[list as usize]
                    .store(lists.tail(list).unwrap_or(NONE), Ordering::Relaxed);
            }
            result
        })
    }

    /// Walks over the `count` pages at the tail of a list before the lock is taken, and passes the
    /// slot of each to `expect`. This fetches their links into the cache, so that the lock is not
    /// held during cache misses. If other CPUs take these pages first, the walk has no effect.
    pub(super) fn prefetch_tail(
        &self,
        platform: &P,
        list: LruList,
        count: usize,
        expect: impl Fn(u32),
    ) {
        let mut slot = self.tails[list as usize].load(Ordering::Relaxed);
        for _ in 0..count {
            let Some(link) = self.links.get(slot as usize) else { break };
            touch(platform, self.id, slot, Access::Read, Miss::Dependent);
            expect(slot);
            slot = link.newer_unlocked();
        }
    }

    /// Fetches the links of pages that will be added to lists, before the lock is taken.
    #[inline(always)]
    pub(super) fn prefetch_links(&self, platform: &P, slots: impl Iterator<Item = u32>) {
        let mut last = NONE;
        for slot in slots {
            let line = slot / LINKS_PER_LINE;
            if line != last {
                last = line;
                touch(platform, self.id, slot, Access::Write, Miss::Independent);
                self.links[slot as usize].prefetch_for_write();
            }
        }
    }

    /// Number of pages on a list, out of date by one critical section at most.
    pub(super) fn pages(&self, list: LruList) -> u64 {
        self.lengths[list as usize].load(Ordering::Relaxed).into()
    }

    pub(super) fn isolated(&self, kind: PageKind) -> u64 {
        self.isolated[kind as usize].load(Ordering::Relaxed).into()
    }

    pub(super) fn add_isolated(&self, kind: PageKind, pages: u32) {
        self.isolated[kind as usize].fetch_add(pages, Ordering::Relaxed);
    }

    /// Subtracts pages that were put back or freed. Not called under a lock of the library.
    pub(super) fn sub_isolated(&self, platform: &P, kind: PageKind, pages: u32) {
        self.isolated[kind as usize].fetch_sub(pages, Ordering::Relaxed);
        self.resume(platform, &[Throttle::Isolated]);
    }

    /// Wakes the waiters for these reasons, if there are any. Called after a change that may meet their
    /// condition, not under a lock of the library.
    #[inline(never)]
    pub(super) fn resume(&self, platform: &P, reasons: &[Throttle]) {
        for &why in reasons {
            if self.waiters.has(why) {
                platform.relief().resume(self.id(), why);
            }
        }
    }

    pub(super) fn clock(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(super) fn advance_clock(&self, by: u64) {
        self.clock.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn cost(&self, kind: PageKind) -> u64 {
        self.costs[kind as usize].load(Ordering::Relaxed)
    }

    /// Adds a cost of reclaiming `kind`. Both costs are halved when their sum exceeds a quarter of
    /// the pages, so that they reflect recent reclaim.
    pub(super) fn charge(&self, kind: PageKind, cost: u64) {
        if cost == 0 {
            return;
        }
        self.costs[kind as usize].fetch_add(cost, Ordering::Relaxed);
        let pages: u64 = LruList::EVICTABLE.iter().map(|&list| self.pages(list)).sum();
        if PageKind::ALL.iter().map(|&kind| self.cost(kind)).sum::<u64>() > pages / 4 {
            for cost in &self.costs {
                cost.store(cost.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// Adds the cost of a refault of a workingset page.
    pub(super) fn charge_refault(&self, kind: PageKind) {
        self.charge(kind, 1);
    }

    pub(super) fn count_workingset_activation(&self, kind: PageKind) {
        self.refaults[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether pages of `kind` were activated by refaults since [`Node::snapshot_refaults`].
    pub(super) fn workingset_changed(&self, kind: PageKind) -> bool {
        let read = |counts: &[AtomicU32]| counts[kind as usize].load(Ordering::Relaxed);
        read(&self.refaults) != read(&self.refaults_snapshot)
    }

    pub(super) fn snapshot_refaults(&self) {
        for (seen, refaults) in self.refaults_snapshot.iter().zip(&self.refaults) {
            seen.store(refaults.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(super) fn count(&self, stat: NodeStat, amount: u64) {
        if amount > 0 {
            self.stats[stat as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Number of writes of pages that have ended so far.
    pub(super) fn written(&self) -> u64 {
        self.stat(NodeStat::NrWritten) + self.stat(NodeStat::WriteFailed)
    }

    /// Number of pages reclaimed so far.
    pub(super) fn stolen(&self) -> u64 {
        self.stat(NodeStat::PgstealKswapd) + self.stat(NodeStat::PgstealDirect)
    }

    fn stat(&self, stat: NodeStat) -> u64 {
        self.stats[stat as usize].load(Ordering::Relaxed)
    }

    pub(super) fn stats(&self) -> NodeStats {
        NodeStats::from_fn(|i| self.stats[i].load(Ordering::Relaxed))
    }
}
