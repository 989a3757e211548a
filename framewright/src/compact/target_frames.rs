//! Frames to move pages to (*targets*), and frames that pages have left.
//!
//! Targets are taken, and left frames are freed, in batches, each under one hold of the zone lock. Dropping
//! the value frees its frames.

use crate::{
    buddy::{Bundle, Bundles, Contents, TargetFilter},
    migrate::Targets,
    pcp::ZoneOnCpu,
    platform::{Platform, or_on_panic},
    types::{
        CompactEvent, Event, FrameRange, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, Scanner,
        Watermark,
    },
    zone::ZoneAccess,
};

/// Frames that are taken at once.
const BATCH: u32 = 64;

/// Targets in the movable pageblocks of a zone, from the fullest pageblock first. For a full source:
/// only in pageblocks with unmovable frames, from the emptiest first.
pub(super) struct TargetFrames<'r, 'm, P: Platform> {
    on_cpu: ZoneOnCpu<'r, 'm, P>,
    /// The pageblocks that targets are taken from.
    filter: TargetFilter,
    /// The pageblock that is being emptied.
    source: Option<u32>,
    /// Whether no targets are taken from the reserve of the zone.
    keeps_reserve: bool,
    /// Single frames that were taken in advance.
    stash: Bundles,
    /// Source frames of moved pages. They are freed in batches.
    freed: Bundles,
    /// Frames that were taken.
    pub(super) taken: u64,
    /// Pageblock headers that were read to find targets.
    pub(super) looked_at: u32,
}

impl<'r, 'm, P: Platform> TargetFrames<'r, 'm, P> {
    /// Targets in any movable pageblock.
    pub(super) fn in_zone(at: ZoneOnCpu<'r, 'm, P>) -> Self {
        let (stash, freed) = (Bundles::new(), Bundles::new());
        Self {
            on_cpu: at,
            filter: TargetFilter::ANY,
            source: None,
            keeps_reserve: false,
            stash,
            freed,
            taken: 0,
            looked_at: 0,
        }
    }

    /// Targets for pages of pageblock `source`, whose contents are `held`.
    pub(super) fn for_source(at: ZoneOnCpu<'r, 'm, P>, source: u32, held: &Contents) -> Self {
        let mut target_frames = Self::in_zone(at);
        (target_frames.filter, target_frames.source) =
            (TargetFilter::for_source(held), Some(source));
        target_frames
    }

    /// Targets in any movable pageblock, but not from the reserve of the zone, because the frames that
    /// pages leave stay isolated for longer.
    pub(super) fn above_reserve(at: ZoneOnCpu<'r, 'm, P>) -> Self {
        let mut target_frames = Self::in_zone(at);
        target_frames.keeps_reserve = true;
        target_frames
    }

    /// Number of frames that may be taken now. A page that moves within the zone frees as many
    /// frames as it takes, so there is usually no limit. But if the frames that it leaves stay
    /// isolated, the reserve must not be used.
    fn allowed(&self) -> u64 {
        let access = ZoneAccess::above(Watermark::Min, self.on_cpu.zone.kind());
        if self.keeps_reserve { self.on_cpu.zone.allowed(access) } else { u64::MAX }
    }

    fn take_in_zone(&mut self, order: Order) -> Option<Pfn> {
        let (at, filter, most) =
            (self.on_cpu, self.filter, self.on_cpu.tuning.compact.headers_per_piece);
        let allowed = self.allowed() >> order.get();
        let mut one = Bundles::new();
        // Single frames are taken in advance.
        let (out, batch) =
            if order == Order::ZERO { (&mut self.stash, BATCH) } else { (&mut one, 1) };
        if out.is_empty() {
            let near = out.as_slice().last().map(|last| last.pageblock());
            let blocks = allowed.min(batch.into()) as u32;
            let mut looked_at = 0;
            out.clear();
            at.take_blocks(out, |buddy, out| {
                looked_at = buddy.take_targets((order, blocks), (filter, near), most, out);
            });
            self.looked_at += looked_at;
            // If the trace panics, `drop` frees the stash.
            or_on_panic(|| trace_taken(at, out.as_slice()), || free_larger(at, out.as_slice()));
        }
        out.pop_lowest().map(|frame| at.pfn(frame))
    }

    /// The zone-relative number of a frame of the zone.
    fn frame(&self, pfn: Pfn) -> u32 {
        (pfn.get() - self.on_cpu.zone.base().get()) as u32
    }

    fn free_sources(&mut self) {
        self.on_cpu.give_blocks(&mut self.freed);
    }
}

impl<P: Platform> Targets for TargetFrames<'_, '_, P> {
    fn take(&mut self, order: Order) -> Option<Pfn> {
        let taken = self.take_in_zone(order)?;
        self.taken += order.frames();
        Some(taken)
    }

    fn put_back(&mut self, pfn: Pfn, order: Order) {
        self.on_cpu.free_to_zone(self.frame(pfn), order);
    }

    fn free_source(&mut self, pfn: Pfn, order: Order) {
        let frame = self.frame(pfn);
        if self.freed.is_full() {
            self.free_sources();
        }
        self.freed.push(Bundle::of(frame, order));
        self.freed.join_last();
    }

    fn finish_frees(&mut self) {
        self.free_sources();
    }

    fn after_drain(&mut self) {
        // The headers counted drained frames as allocated, so pageblocks are emptier now.
        if let Some(source) = self.source {
            self.filter =
                TargetFilter::for_source(&self.on_cpu.zone.contents(self.on_cpu.platform, source));
        }
    }
}

impl<P: Platform> Drop for TargetFrames<'_, '_, P> {
    fn drop(&mut self) {
        self.on_cpu.give_blocks(&mut self.stash);
        self.free_sources();
    }
}

/// Frees blocks that are larger than a frame.
fn free_larger<P: Platform>(at: ZoneOnCpu<'_, '_, P>, taken: &[Bundle]) {
    for bundle in taken.iter().filter(|bundle| bundle.order > Order::ZERO) {
        bundle.frames().for_each(|frame| _ = at.free_to_zone(frame, bundle.order));
    }
}

/// Traces the taken frames by pageblock. One header per pageblock was read.
fn trace_taken<P: Platform>(at: ZoneOnCpu<'_, '_, P>, taken: &[Bundle]) {
    if !P::TRACING {
        return;
    }
    for of_one in taken.chunk_by(|one, next| one.pageblock() == next.pageblock()) {
        let start = at.pfn(of_one[0].pageblock() << PAGEBLOCK_ORDER);
        let Some(range) = FrameRange::new(start, start.offset(PAGEBLOCK_FRAMES as u64)) else {
            continue;
        };
        let taken = of_one.iter().map(|bundle| bundle.frame_count()).sum();
        let event = CompactEvent::IsolatePages { by: Scanner::Free, range, scanned: 1, taken };
        at.platform.trace(at.id, &Event::Compaction(event));
    }
}
