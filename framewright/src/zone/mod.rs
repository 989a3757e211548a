//! A zone: the free frames of a range of memory, their lock, and their watermarks.
//!
//! The zone lock is taken with interrupts masked. Only code of the [`Buddy`] and the [`Depot`] runs
//! under it, and no other lock is taken. Some counters (free frames, available orders) are
//! published as plain atomics when the lock is released. Without the lock they are hints, which may
//! be stale by one critical section. The watermark test is therefore repeated under the lock, where
//! it is exact.

mod access;
mod block_stack;
mod bulk;
#[cfg(feature = "compare")]
mod compare;
mod depot;
mod hooks;
mod huge_requests;
mod huge_reserve;
mod pressure;
mod side_table_index;
mod span;
mod watermark;
mod zonelist;

use core::ops::Range;

#[cfg(feature = "compare")]
use crate::sync::AtomicBool;
use crate::{
    buddy::{
        Buddy, Capture, Classes, Contents, EMPTYING, Fallback, Heads, IsolationRefused, PARTIAL,
        Pageblock, PresentFrames, Refusals, TYPE_FLAGS, Want, Watch,
    },
    hardening::States,
    platform::{self, Cost, Line, Miss, Platform, Section, SpinLock},
    sync::{Address, AtomicU8, AtomicU64, Ordering},
    types::{
        MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, Refusal, ZoneId,
        ZoneKind,
    },
};

pub(crate) use access::{AllocFlags, Refused, ZoneAccess};
pub(crate) use block_stack::{BlockKind, BlockStack, RefillDemand};
pub(crate) use bulk::{DepotRefill, Fallbacks};
pub(crate) use depot::{Chunk, Depot, FlushScope, depot_frames};
use huge_requests::HugeRequests;
pub(crate) use pressure::LastReserved;
pub(crate) use side_table_index::SideTableIndex;
pub(crate) use watermark::{MarkRules, Marks, default_min_free};
pub(crate) use zonelist::{Distances, NodeFacts, Zonelists};

/// The identity of a zone, and where its frames lie.
#[derive(Clone, Copy)]
pub(crate) struct ZonePlacement<'m> {
    pub(crate) id: ZoneId,
    pub(crate) node: NodeId,
    pub(crate) kind: ZoneKind,
    /// First frame of the zone's first pageblock. Zone-relative frame numbers count from here.
    pub(crate) base: Pfn,
    /// The frames that are present.
    pub(crate) present: PresentFrames<'m>,
    /// First frame and end of each range that may be added later: whole pageblocks, or pieces.
    pub(crate) absent: &'m [[u32; 2]],
    /// Frames of the zones before this one, holes included: the index of its first entry in the
    /// per-frame side tables.
    pub(crate) side_table_start: usize,
}

/// A flag in the word with the number of frames in the depot: some of them are surplus (they were
/// not used during the last interval).
const SURPLUS: u64 = 1 << 63;

/// The data that the zone lock protects.
struct Guarded<'m> {
    buddy: Buddy<'m>,
    depot: Depot<'m>,
}

/// A zone.
pub(crate) struct Zone<'m, P: Platform> {
    guarded: SpinLock<P, Guarded<'m>>,
    types: &'m [AtomicU8],
    /// The states of single frames, if hardening tracks them.
    states: Option<States<'m>>,
    placement: ZonePlacement<'m>,
    pageblocks: Address<Pageblock>,
    /// Written under the lock; empty where frees are not checked.
    heads: &'m [Heads],
    managed: AtomicU64,
    marks: Marks,
    huge_requests: HugeRequests,
    /// Published under the lock: free frames that may be allocated.
    free: AtomicU64,
    /// Published under the lock: free frames of the high-atomic reserve, a part of `free`.
    free_reserved: AtomicU64,
    /// Published under the lock: the [`Classes`] of the buddy.
    classes: AtomicU64,
    /// Published under the lock: frames in the depot, and the flag [`SURPLUS`].
    in_depot: AtomicU64,
    /// The time at which the current working-set interval of the depot ends, in nanoseconds of the
    /// platform's clock (see [`Zone::depot_interval_ended`]).
    interval_ends: AtomicU64,
    /// Published under the lock: the number of isolated pageblocks.
    isolated: AtomicU64,
    /// Frames that the depot may contain.
    depot_limit: u64,
    /// Whether larger blocks need free memory in larger blocks ([`Zone::passes_by_order`]).
    #[cfg(feature = "compare")]
    by_order: AtomicBool,
}

impl<'m, P: Platform> Zone<'m, P> {
    /// A zone over `buddy` and `depot`. All watermarks are 0 at first.
    pub(crate) fn new(
        buddy: Buddy<'m>,
        depot: Depot<'m>,
        types: &'m [AtomicU8],
        states: Option<States<'m>>,
        placement: ZonePlacement<'m>,
    ) -> Self {
        let free = buddy.free_frames();
        Self {
            pageblocks: buddy.address(),
            heads: buddy.heads(),
            free: AtomicU64::new(free),
            free_reserved: AtomicU64::new(0),
            classes: AtomicU64::new(buddy.classes().0),
            in_depot: AtomicU64::new(0),
            interval_ends: AtomicU64::new(0),
            isolated: AtomicU64::new(0),
            depot_limit: depot.limit(),
            guarded: SpinLock::new(Section::Zone(placement.id), Guarded { buddy, depot }),
            types,
            states,
            placement,
            managed: AtomicU64::new(free),
            marks: Marks::new(),
            huge_requests: HugeRequests::new(),
            #[cfg(feature = "compare")]
            by_order: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> ZoneId {
        self.placement.id
    }

    /// The node of the zone.
    pub(crate) fn node(&self) -> NodeId {
        self.placement.node
    }

    pub(crate) fn kind(&self) -> ZoneKind {
        self.placement.kind
    }

    /// The number of gigablocks (aligned ranges of 512 pageblocks, 1 GiB) that the zone overlaps.
    pub(crate) fn gigablocks(&self) -> u32 {
        Buddy::gigablocks(self.base(), self.types.len()) as u32
    }

    /// Whether the zone has memory for requests that can use kinds up to `highest`.
    pub(crate) fn serves(&self, highest: ZoneKind) -> bool {
        self.kind() <= highest && self.managed() > 0
    }

    /// The index of the zone's first entry in the per-frame side tables.
    pub(crate) fn side_table_start(&self) -> usize {
        self.placement.side_table_start
    }

    /// The types of the zone's pageblocks: exact under the lock, a hint without it.
    pub(crate) fn types(&self) -> &'m [AtomicU8] {
        self.types
    }

    /// The number of the type of a frame's pageblock, without flags: exact under the lock, a hint
    /// without it.
    pub(crate) fn type_number(&self, frame: u32) -> u8 {
        self.types[(frame >> PAGEBLOCK_ORDER) as usize].load(Ordering::Relaxed) & !TYPE_FLAGS
    }

    /// Whether a frame's pageblock is isolated: exact under the lock, a hint without it. Seldom called, so it is small and
    /// not inlined: an index that cannot panic takes less code than [`Zone::type_number`].
    #[inline(never)]
    pub(crate) fn is_isolated(&self, frame: u32) -> bool {
        let number = self.types.get((frame >> PAGEBLOCK_ORDER) as usize);
        number.is_some_and(|number| {
            number.load(Ordering::Relaxed) & !TYPE_FLAGS == MigrateType::Isolate as u8
        })
    }

    /// As [`Zone::type_number`], with the flag [`EMPTYING`](crate::buddy::EMPTYING).
    pub(crate) fn type_and_emptying(&self, frame: u32) -> u8 {
        self.types[(frame >> PAGEBLOCK_ORDER) as usize].load(Ordering::Relaxed) & !PARTIAL
    }

    /// Whether the pageblock of a frame is emptying.
    pub(crate) fn is_emptying(&self, frame: u32) -> bool {
        self.type_and_emptying(frame) & EMPTYING != 0
    }

    /// Whether some CPU holds the zone lock now. A hint.
    pub(crate) fn is_locked(&self, platform: &P) -> bool {
        self.guarded.is_held(platform)
    }

    /// The states of all frames; present from [`Hardening::Tracked`](crate::tuning::Hardening) on.
    pub(crate) fn states(&self) -> Option<States<'m>> {
        self.states
    }

    /// Frames that the allocator manages: all present frames.
    pub(crate) fn managed(&self) -> u64 {
        self.managed.load(Ordering::Relaxed)
    }

    /// Free frames, possibly stale by one critical section. Isolated frames are not counted.
    pub(crate) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The order of the largest free block; a hint, read without the lock.
    pub(crate) fn largest_free_order(&self) -> Option<Order> {
        Classes(self.classes.load(Ordering::Relaxed)).largest()
    }

    /// Takes exactly the block of `order` at `frame`. Returns `false` if the block is not free as a
    /// whole, or if one of its pageblocks is isolated: free frames of an isolated pageblock must
    /// stay free.
    pub(crate) fn take_specific(
        &self,
        platform: &P,
        frame: u32,
        order: Order,
        of: MigrateType,
    ) -> bool {
        let end = frame + order.frames() as u32;
        self.with_range(platform, (frame, end), |buddy| {
            !self.has_isolated(frame, end) && buddy.take_specific(frame, order, of)
        })
    }

    /// Takes `frames` frames from the start of a free block, as [`Buddy::take_start_of_block`] does.
    pub(crate) fn take_start_of_block(
        &self,
        platform: &P,
        want: &Want,
        frames: u32,
    ) -> Option<(u32, Option<Fallback>)> {
        self.with(platform, |buddy| {
            let taken = buddy.take_start_of_block(want, frames)?;
            let blocks = pageblocks(taken.0, taken.0 + frames);
            self.probe_pageblocks(platform, Cost::RangePageblocks, blocks);
            Some(taken)
        })
    }

    /// Whether a pageblock of the frames from `start` to `end` is isolated: exact under the lock.
    pub(crate) fn has_isolated(&self, start: u32, end: u32) -> bool {
        pageblocks(start, end)
            .any(|block| self.type_number(block << PAGEBLOCK_ORDER) == MigrateType::Isolate as u8)
    }

    /// Whether the map of heads confirms, without the lock, that `frame` is an allocated block of
    /// `order`. A block of several frames is never confirmed. A block that starts at an even
    /// frame number could have a higher order, so it is confirmed only if the next frame starts
    /// another block.
    pub(crate) fn confirms(&self, platform: &P, frame: u32, order: Order) -> bool {
        let index = frame >> PAGEBLOCK_ORDER;
        let Some(heads) = self.heads.get(index as usize) else { return false };
        if order > Order::ZERO {
            return false;
        }
        platform.touch(
            Line::Heads(self.placement.id, index),
            platform::Access::Read,
            Miss::Dependent,
        );
        heads.confirms_frame(frame as usize % PAGEBLOCK_FRAMES)
    }

    /// Checks in the maps, under the lock, that `frame` starts an allocated block of exactly
    /// `order`.
    pub(crate) fn check_allocated(
        &self,
        platform: &P,
        frame: u32,
        order: Order,
    ) -> Result<(), Refusal> {
        // The check only reads, so the published counters need no update.
        self.guarded.with(platform, |Guarded { buddy, .. }| {
            self.probe_hold(platform);
            let pageblock = core::iter::once(frame >> PAGEBLOCK_ORDER);
            self.probe_pageblocks(platform, Cost::RangePageblocks, pageblock);
            buddy.check_allocated(frame, order)
        })
    }

    /// Frees one block. If this completes the block that `capture` waits for, `capture` takes it.
    pub(crate) fn give_or_capture(
        &self,
        platform: &P,
        frame: u32,
        order: Order,
        capture: &mut Capture,
    ) -> Refusals {
        let end = frame + order.frames() as u32;
        self.with_range(platform, (frame, end), |buddy| {
            buddy.give_or_capture(frame, order, capture)
        })
    }

    /// Adds absent frames as free frames.
    pub(crate) fn add_frames(&self, platform: &P, frames: Range<u32>) {
        if let Some(states) = self.states {
            // The frames may have been written to since they were removed, so they do not count as
            // poisoned.
            states.take_poisoned(frames.clone()).for_each(drop);
        }
        self.with(platform, |buddy| {
            let blocks = pageblocks(frames.start, frames.end);
            self.probe_pageblocks(platform, Cost::ChangePageblocks, blocks);
            buddy.add_frames(frames.start, frames.end);
        });
        self.managed.fetch_add(frames.len() as u64, Ordering::Relaxed);
    }

    /// Removes isolated pageblocks that are free as a whole. Returns their number.
    pub(crate) fn remove_pageblocks(&self, platform: &P, blocks: Range<u32>) -> usize {
        let removed = self.with(platform, |buddy| {
            self.probe_pageblocks(platform, Cost::ChangePageblocks, blocks.clone());
            blocks.filter(|&block| buddy.remove_pageblock(block)).count()
        });
        self.managed.fetch_sub((removed << PAGEBLOCK_ORDER) as u64, Ordering::Relaxed);
        removed
    }

    /// The contents of a pageblock.
    pub(crate) fn contents(&self, platform: &P, pageblock: u32) -> Contents {
        self.with(platform, |buddy| {
            let hooks = self.hooks(platform);
            hooks.pageblock(pageblock, Miss::Dependent, false, platform::Access::Read);
            platform.cost(Cost::Search, 1);
            buddy.contents(pageblock)
        })
    }

    /// Isolates a pageblock from allocation.
    pub(crate) fn isolate(&self, platform: &P, pageblock: u32) -> Result<(), IsolationRefused> {
        self.change(platform, pageblock, |buddy| buddy.isolate(pageblock))
    }

    /// As [`Zone::isolate`], but independent of the pageblock's contents.
    pub(crate) fn isolate_any(&self, platform: &P, block: u32) -> Result<(), IsolationRefused> {
        self.change(platform, block, |buddy| buddy.isolate_any(block))
    }

    /// Undoes [`Zone::isolate`].
    pub(crate) fn undo_isolate(&self, platform: &P, pageblock: u32) {
        self.change(platform, pageblock, |buddy| buddy.undo_isolate(pageblock));
    }

    /// As [`Zone::with`], for an operation that changes a pageblock as a whole.
    pub(crate) fn change<R>(
        &self,
        platform: &P,
        pageblock: u32,
        f: impl FnOnce(&mut Buddy<'m>) -> R,
    ) -> R {
        self.with(platform, |buddy| {
            let one = core::iter::once(pageblock);
            self.probe_pageblocks(platform, Cost::ChangePageblocks, one);
            f(buddy)
        })
    }

    /// As [`Zone::with`], for an operation that allocates or frees the frames from `start` to
    /// `end`.
    pub(crate) fn with_range<R>(
        &self,
        platform: &P,
        (start, end): (u32, u32),
        f: impl FnOnce(&mut Buddy<'m>) -> R,
    ) -> R {
        self.with(platform, |buddy| {
            self.probe_pageblocks(platform, Cost::RangePageblocks, pageblocks(start, end));
            f(buddy)
        })
    }

    /// Runs `f` on the buddy under the zone lock, then publishes the counters.
    pub(crate) fn with<R>(&self, platform: &P, f: impl FnOnce(&mut Buddy<'m>) -> R) -> R {
        self.guarded.with(platform, |Guarded { buddy, depot }| {
            self.probe_hold(platform);
            let result = f(buddy);
            self.publish_rarely(buddy, depot);
            self.probe_words(platform, platform::Access::Write);
            result
        })
    }

    /// As [`Zone::with`], for an operation that changes no counter.
    pub(crate) fn read<R>(&self, platform: &P, f: impl FnOnce(&Buddy<'m>) -> R) -> R {
        self.guarded.with(platform, |Guarded { buddy, .. }| {
            self.probe_hold(platform);
            f(buddy)
        })
    }

    /// As [`Zone::with`], with the depot as well. For refills and drains.
    #[inline(always)]
    fn with_depot<R>(
        &self,
        platform: &P,
        f: impl FnOnce(&mut Buddy<'m>, &mut Depot<'m>) -> R,
    ) -> R {
        self.guarded.with(platform, |Guarded { buddy, depot }| {
            self.probe_hold(platform);
            let result = f(buddy, depot);
            self.publish(buddy, depot);
            self.probe_words(platform, platform::Access::Write);
            result
        })
    }

    /// [`Zone::publish`], not inlined into each of the rare operations.
    #[inline(never)]
    fn publish_rarely(&self, buddy: &Buddy<'m>, depot: &Depot<'m>) {
        self.publish(buddy, depot);
    }

    /// Publishes the counters.
    #[inline(always)]
    fn publish(&self, buddy: &Buddy<'m>, depot: &Depot<'m>) {
        self.free.store(buddy.free_frames(), Ordering::Relaxed);
        self.free_reserved.store(buddy.highatomic_free(), Ordering::Relaxed);
        self.classes.store(buddy.classes().0, Ordering::Relaxed);
        let surplus = if depot.has_surplus() { SURPLUS } else { 0 };
        self.in_depot.store(depot.frames() | surplus, Ordering::Relaxed);
        self.isolated.store(buddy.isolated(), Ordering::Relaxed);
    }
}

/// The pageblocks that frames `start` to `end` lie in.
pub(crate) fn pageblocks(start: u32, end: u32) -> Range<u32> {
    start >> PAGEBLOCK_ORDER..end.div_ceil(PAGEBLOCK_FRAMES as u32)
}

/// The part of frames `start` to `end` that lies in a pageblock.
pub(crate) fn clip(block: u32, start: u32, end: u32) -> (u32, u32) {
    let first = block << PAGEBLOCK_ORDER;
    (start.max(first), end.min(first + PAGEBLOCK_FRAMES as u32))
}
