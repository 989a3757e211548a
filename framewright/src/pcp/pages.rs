//! The hot part of a CPU's lists: the fields that the hot path uses.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;

use super::{
    ListIndex, Lists, Sizing, index::RING, owner::Owner, store::BundleStore, traffic::Traffic,
};
use crate::{
    hardening::Quarantine,
    observe::{CpuCounters, CpuStats},
    platform::{Access, Cost, Line, Miss, OwnerLock, Platform, Section, Site},
    sync::{AtomicU8, AtomicU32, AtomicU64, ExclusiveCell, Ordering},
    types::{CpuId, Order, ZoneId, cold_path},
};

/// The hot part of a CPU's lists, and the machine: the context for work on [`Lists`].
pub(crate) struct ListsContext<'c, 'm, P: Platform> {
    pub(super) platform: &'c P,
    pub(super) pages: &'c CpuPages<'m, P>,
}

impl<P: Platform> Clone for ListsContext<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for ListsContext<'_, '_, P> {}

impl<P: Platform> ListsContext<'_, '_, P> {
    /// Whether the platform uses the reports of costs and cache lines.
    #[inline(always)]
    pub(super) fn listens(&self) -> bool {
        P::LISTENING
    }

    /// Reports work on the lists to the platform.
    #[inline(always)]
    pub(super) fn cost(&self, cost: Cost, count: u32) {
        self.platform.cost(cost, count);
    }

    /// Reports to the platform that a line of the store is used.
    #[inline(always)]
    pub(super) fn touch_store(&self, line: u32) {
        let line = Line::CpuStore(self.pages.zone, self.pages.cpu, line);
        self.platform.touch(line, Access::Write, Miss::Independent);
    }
}

/// The lists of one CPU for one zone. On the hot path, an operation on a single frame uses only a
/// ring and the first cache line of this type. Allocations of higher orders and frees of orders 1
/// to 3 also use the second cache line.
#[repr(C, align(64))]
pub(crate) struct CpuPages<'m, P: Platform> {
    /// Blocks in each ring. Written by the side (owner or drainer) that is inside the lists; read
    /// by any CPU.
    lens: [AtomicU8; ListIndex::COUNT],
    /// Blocks that each ring may contain; 0 while the CPU is offline or the lists are switched off.
    limits: [AtomicU8; ListIndex::COUNT],
    owner: Owner<P>,
    /// Written by the side that is inside.
    pub(super) traffic: Traffic,
    pub(crate) counters: CpuCounters,
    /// Frames in the store and in quarantine, published for readers outside the lists.
    stored: AtomicU64,
    slots: usize,
    /// The current limit of the CPU's frames by the sizing rules, published for readers.
    high: AtomicU64,
    /// Pageblocks in which one hold of the zone lock may free ([`Sizing::hold_pageblocks`]), published for readers.
    hold_pageblocks: AtomicU32,
    lists: ExclusiveCell<Lists<'m>>,
    /// The zone and the CPU of the lists, for reports to the machine.
    zone: ZoneId,
    cpu: CpuId,
}

impl<'m, P: Platform> CpuPages<'m, P> {
    /// Initialises the lists of a zone and CPU in their place. As a value they would need half of a kernel's stack.
    pub(crate) fn init<'p>(
        place: &'p mut MaybeUninit<Self>,
        kind: OwnerLock,
        (zone, cpu): (ZoneId, CpuId),
        store: BundleStore<'m>,
        quarantine: Quarantine<'m>,
    ) -> &'p mut Self {
        let at = place.as_mut_ptr();
        // SAFETY: `at` points to memory for all fields, which is borrowed exclusively. The pattern at the
        // end names every field; each is initialised before.
        unsafe {
            (&raw mut (*at).lens).write(core::array::from_fn(|_| AtomicU8::new(0)));
            (&raw mut (*at).limits).write(core::array::from_fn(|_| AtomicU8::new(0)));
            (&raw mut (*at).owner).write(Owner::new(kind));
            (&raw mut (*at).traffic).write(Traffic::new());
            (&raw mut (*at).counters).write(CpuCounters::new());
            (&raw mut (*at).stored).write(AtomicU64::new(0));
            (&raw mut (*at).slots).write(store.capacity());
            (&raw mut (*at).high).write(AtomicU64::new(0));
            (&raw mut (*at).hold_pageblocks).write(AtomicU32::new(1));
            Lists::init(ExclusiveCell::place(&raw mut (*at).lists), store, quarantine);
            (&raw mut (*at).zone).write(zone);
            (&raw mut (*at).cpu).write(cpu);
            // A field that is missing above is missing here: the compiler refuses it.
            #[rustfmt::skip]
            let Self {
                lens: _, limits: _, owner: _, traffic: _, counters: _, stored: _, slots: _, high: _, hold_pageblocks: _,
                lists: _, zone: _, cpu: _,
            } = &*at;
            place.assume_init_mut()
        }
    }

    /// The right to enter the lists as their owner.
    ///
    /// # Safety
    ///
    /// While the value lives there is no other for these lists, and all use of the previous one
    /// happened before this call.
    #[inline(always)]
    pub(crate) unsafe fn owned(&self) -> Owned<'_, 'm, P> {
        Owned { pages: self }
    }

    /// The owner's fast entry.
    #[inline(always)]
    fn enter(&self, platform: &P) -> bool {
        platform.point(Site::EnterLists);
        self.touch(platform);
        if platform.force(Site::EnterLists) {
            return false;
        }
        let inside = self.owner.enter(platform);
        if inside {
            platform.enter(self.section());
        }
        inside
    }

    /// The owner's exit after [`CpuPages::enter`] succeeded.
    #[inline(always)]
    fn leave(&self, platform: &P) {
        platform.leave(self.section());
        self.owner.leave(platform);
    }

    #[inline(always)]
    fn touch(&self, platform: &P) {
        platform.touch(Line::CpuLists(self.zone, self.cpu), Access::Write, Miss::Dependent);
    }

    #[inline(always)]
    fn section(&self) -> Section {
        Section::Lists(self.zone, self.cpu)
    }

    /// First step of a remote drainer; the remote barrier comes next.
    pub(crate) fn announce(&self, platform: &P) {
        self.touch(platform);
        self.owner.announce(platform);
    }

    /// Last step of a remote drainer: runs `f` on the lists.
    ///
    /// # Safety
    ///
    /// The caller has called [`CpuPages::announce`] once for this, and a remote barrier
    /// ([`Platform::remote_barrier`]) for this CPU after it.
    pub(crate) unsafe fn as_drainer<R>(
        &self,
        platform: &P,
        f: impl FnOnce(&mut Lists<'m>) -> R,
    ) -> R {
        self.owner.take_over(platform);
        self.touch(platform);
        platform.enter(self.section());
        // SAFETY: the drain was announced, the barrier has run, and the owner was seen outside. By
        // the owner protocol no other side enters until `release`.
        let result = unsafe { self.lists.with_mut(f) };
        platform.leave(self.section());
        self.owner.release(platform);
        result
    }

    /// Slots of the store. The number never changes.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Puts a block of `order` on a ring, unless that is full or a drain may be due.
    ///
    /// # Safety
    ///
    /// The caller is the owner, and it is inside.
    #[inline(always)]
    unsafe fn put(&self, list: ListIndex, frame: u32, order: Order) -> bool {
        let len = self.len(list);
        if len >= self.limit(list) || self.traffic.may_drain(list, order) {
            return false;
        }
        // SAFETY: the caller's promise. A limit never exceeds the size of a ring, so `len` is an entry.
        unsafe {
            self.lists.with_mut(move |lists| *lists.ring(list).get_unchecked_mut(len) = frame);
        }
        self.set_len(list, len + 1);
        self.traffic.count_free(list, order);
        true
    }

    /// Frames on the lists, in the store and in quarantine; possibly stale, because this reads from
    /// outside.
    #[inline(never)]
    pub(crate) fn held(&self) -> u64 {
        let rings = ListIndex::all().map(|list| self.len(list) << list.order().get());
        self.stored() + rings.sum::<usize>() as u64
    }

    /// Frames in the store and in quarantine; possibly stale, because this reads from outside.
    pub(crate) fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Frames that the CPU may hold now, possibly stale.
    pub(crate) fn high(&self) -> u64 {
        self.high.load(Ordering::Relaxed)
    }

    /// Publishes the result of the sizing rules.
    pub(super) fn publish(&self, sizing: &Sizing) {
        self.high.store(sizing.high().into(), Ordering::Relaxed);
        self.traffic.set_may_drain_from(sizing.may_drain_from());
    }

    /// Publishes the bounds of the sizing rules, which change only if they are recalculated.
    pub(super) fn publish_bounds(&self, sizing: &Sizing) {
        self.hold_pageblocks.store(sizing.hold_pageblocks(), Ordering::Relaxed);
        self.publish(sizing);
    }

    /// Pageblocks in which one hold of the zone lock may free. Possibly stale outside the lists.
    pub(super) fn hold_pageblocks(&self) -> u32 {
        self.hold_pageblocks.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn len(&self, list: ListIndex) -> usize {
        usize::from(self.lens[list.get()].load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn set_len(&self, list: ListIndex, len: usize) {
        debug_assert!(len <= RING);
        self.lens[list.get()].store(len as u8, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn limit(&self, list: ListIndex) -> usize {
        usize::from(self.limits[list.get()].load(Ordering::Relaxed))
    }

    /// Sets the number of blocks that a ring may contain. Only for the side that is inside.
    pub(super) fn set_limit(&self, list: ListIndex, limit: usize) {
        self.limits[list.get()].store(limit.min(RING) as u8, Ordering::Relaxed);
    }

    pub(super) fn set_stored(&self, frames: u64) {
        self.stored.store(frames, Ordering::Relaxed);
    }

    /// Opens the rings with the limits of `sizing`, or closes them if the lists are switched off.
    pub(super) fn open(&self, sizing: &Sizing) {
        for list in ListIndex::all() {
            let limit = sizing.ring_limit(list).min(RING) as u8;
            self.limits[list.get()].store(limit, Ordering::Relaxed);
        }
    }

    /// All counters of the CPU in the zone.
    pub(crate) fn stats(&self) -> CpuStats {
        let mut stats = self.counters.read();
        let (allocated, freed) = self.traffic.frames();
        let requests = allocated - self.traffic.allocated_beyond().min(allocated);
        stats.pgalloc += allocated;
        stats.pgfree += freed;
        stats.list_hits = requests.saturating_sub(stats.list_misses);
        stats
    }
}

/// Guards the owner's work on the lists. If a hook of the platform panics during that work, a frame
/// may be on the lists twice. So dropping this value, which only a panic does, empties the lists,
/// leaks their frames, and ends the owner's entry.
struct Inside<'w, 'm, P: Platform> {
    pages: &'w CpuPages<'m, P>,
    platform: &'w P,
    /// Whether the owner has entered by [`Owner::enter`], otherwise by [`Owner::enter_slowly`].
    is_biased: bool,
}

impl<P: Platform> Drop for Inside<'_, '_, P> {
    fn drop(&mut self) {
        let Self { pages, platform, is_biased } = *self;
        // SAFETY: the owner is inside until `leave_after`. This value is dropped only while a panic
        // unwinds, which has ended the owner's own use of the lists.
        unsafe { pages.lists.with_mut(|lists| lists.lose_all(pages)) };
        pages.owner.leave_after(platform, is_biased);
    }
}

/// The right to enter the lists of one CPU for one zone as their owner. There is one such value at
/// a time ([`CpuPages::owned`]), and each entry borrows it exclusively, so that the owner is never
/// inside twice.
pub(crate) struct Owned<'o, 'm, P: Platform> {
    pages: &'o CpuPages<'m, P>,
}

impl<'m, P: Platform> Owned<'_, 'm, P> {
    /// Takes the block freed last from the ring of a list of `order`, if the owner may enter and the ring is not empty.
    #[inline(always)]
    pub(crate) fn pop(&mut self, platform: &P, list: ListIndex, order: Order) -> Option<u32> {
        let pages = self.pages;
        if !pages.enter(platform) {
            return None;
        }
        let len = &pages.lens[list.get()];
        // Lengths are bytes. For an empty ring, this wraps to a number that is no index of a ring.
        // So the test of the index also detects an empty ring.
        let last = len.load(Ordering::Relaxed).wrapping_sub(1);
        // SAFETY: the owner is inside until `leave`.
        let frame = unsafe {
            pages.lists.with_mut(|lists| lists.ring(list).get(usize::from(last)).copied())
        };
        let Some(frame) = frame else {
            cold_path();
            pages.leave(platform);
            return None;
        };
        len.store(last, Ordering::Relaxed);
        pages.traffic.count_alloc(order);
        platform.cost(Cost::HotAlloc, 1);
        pages.leave(platform);
        Some(frame)
    }

    /// Enters the lists to put one block on a ring, if the owner may enter. The list of a block is chosen inside.
    #[inline(always)]
    pub(crate) fn begin_push<'p>(&'p mut self, platform: &'p P) -> Option<Push<'p, 'm, P>> {
        self.pages.enter(platform).then_some(Push { pages: self.pages, platform })
    }

    /// Runs `f` on the lists as their owner, under either owner lock; `None` if a drainer is inside
    /// or about to enter.
    pub(super) fn enter<R>(
        &mut self,
        platform: &P,
        f: impl FnOnce(&mut Lists<'m>) -> R,
    ) -> Option<R> {
        let pages = self.pages;
        let is_biased = pages.enter(platform);
        if !is_biased {
            if !pages.owner.enter_slowly(platform) {
                return None;
            }
            platform.enter(pages.section());
        }
        let inside = Inside { pages, platform, is_biased };
        // SAFETY: the owner is inside until `leave_after`: it has entered, or it holds the lock.
        let result = unsafe { pages.lists.with_mut(f) };
        core::mem::forget(inside);
        platform.leave(pages.section());
        pages.owner.leave_after(platform, is_biased);
        Some(result)
    }
}

/// The owner inside the lists, to put one block on a ring. [`Push::end`] leaves the lists.
#[must_use]
pub(crate) struct Push<'o, 'm, P: Platform> {
    pages: &'o CpuPages<'m, P>,
    platform: &'o P,
}

impl<P: Platform> Push<'_, '_, P> {
    /// Puts a block of `order` on the ring of `list`. Returns `false` and does nothing if the ring is full or a drain
    /// may be due.
    #[inline(always)]
    pub(crate) fn put(&mut self, list: ListIndex, frame: u32, order: Order) -> bool {
        // SAFETY: the owner is inside until `end`.
        unsafe { self.pages.put(list, frame, order) }
    }

    /// Leaves the lists. Returns `pushed`: whether a block was put on a ring.
    #[inline(always)]
    pub(crate) fn end(self, pushed: bool) -> bool {
        if pushed {
            self.platform.cost(Cost::HotFree, 1);
            self.pages.leave(self.platform);
            return true;
        }
        cold_path();
        self.pages.leave(self.platform);
        false
    }
}
