//! Frames to move pages to, and frames that pages have left.
//!
//! Both cross the zone lock in batches. Dropped, it gives back what it holds.

use crate::{
    buddy::{Bundle, Bundles, Contents, Hosts},
    frame::{FrameRange, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn},
    migrate::Targets,
    observe::{CompactEvent, Event, Scanner},
    pcp::ZoneOnCpu,
    platform::Platform,
    zone::{Watermark, ZoneAccess},
};

/// Frames that are taken at once.
const BATCH: u32 = 64;

/// Room in the movable pageblocks of a zone, fullest first.
pub(super) struct Room<'r, 'm, P: Platform> {
    at: ZoneOnCpu<'r, 'm, P>,
    /// Pageblocks that it is in.
    hosts: Hosts,
    /// The pageblock that is emptied.
    source: Option<u32>,
    /// The reserve of the zone is no room.
    spares_reserve: bool,
    stash: Bundles,
    left: Bundles,
    /// Frames that were taken.
    pub(super) taken: u64,
    /// Headers that were looked at for them.
    pub(super) looked_at: u32,
}

impl<'r, 'm, P: Platform> Room<'r, 'm, P> {
    /// In any pageblock.
    pub(super) fn in_zone(at: ZoneOnCpu<'r, 'm, P>) -> Self {
        let (stash, left) = (Bundles::new(), Bundles::new());
        Self {
            at,
            hosts: Hosts::ANY,
            source: None,
            spares_reserve: false,
            stash,
            left,
            taken: 0,
            looked_at: 0,
        }
    }

    /// For what is in pageblock `source`, which holds `held`.
    pub(super) fn beside(at: ZoneOnCpu<'r, 'm, P>, source: u32, held: &Contents) -> Self {
        let mut room = Self::in_zone(at);
        (room.hosts, room.source) = (Hosts::beside(held), Some(source));
        room
    }

    /// In any pageblock, but not in the reserve of the zone: what leaves others is withheld for longer.
    pub(super) fn to_spare(at: ZoneOnCpu<'r, 'm, P>) -> Self {
        let mut room = Self::in_zone(at);
        room.spares_reserve = true;
        room
    }

    /// Frames that may be taken now. Pages that stay in the zone leave as many; but who withholds what they
    /// leave must not use up the reserve.
    fn allowed(&self) -> u64 {
        let access = ZoneAccess::above(Watermark::Min, self.at.zone.kind());
        if self.spares_reserve { self.at.zone.allowed(access) } else { u64::MAX }
    }

    fn take_here(&mut self, order: Order) -> Option<Pfn> {
        let (at, hosts, most) = (self.at, self.hosts, self.at.tuning.compact.headers);
        let allowed = self.allowed() >> order.get();
        let mut one = Bundles::new();
        // Single frames are taken ahead.
        let (out, batch) =
            if order == Order::ZERO { (&mut self.stash, BATCH) } else { (&mut one, 1) };
        if out.is_empty() {
            let near = out.as_slice().last().map(|last| last.pageblock());
            let blocks = allowed.min(batch.into()) as u32;
            let mut looked_at = 0;
            out.clear();
            at.take_blocks(out, |buddy, out| {
                looked_at = buddy.take_room((order, blocks), (hosts, near), most, out);
            });
            self.looked_at += looked_at;
            trace_taken(at, out.as_slice());
        }
        out.pop_lowest().map(|frame| at.pfn(frame))
    }

    /// The number in the zone of a frame that is in it.
    fn frame(&self, pfn: Pfn) -> u32 {
        (pfn.get() - self.at.zone.base().get()) as u32
    }

    fn give_left(&mut self) {
        self.at.give_blocks(&mut self.left);
    }
}

impl<P: Platform> Targets for Room<'_, '_, P> {
    fn take(&mut self, order: Order) -> Option<Pfn> {
        let taken = self.take_here(order)?;
        self.taken += order.frames();
        Some(taken)
    }

    fn put(&mut self, pfn: Pfn, order: Order) {
        self.at.free_to_zone(self.frame(pfn), order);
    }

    fn left(&mut self, pfn: Pfn, order: Order) {
        let frame = self.frame(pfn);
        if self.left.is_full() {
            self.give_left();
        }
        self.left.push(Bundle::of(frame, order));
        self.left.join_last();
    }

    fn settle(&mut self) {
        self.give_left();
    }

    fn drained(&mut self) {
        // All pageblocks are emptier than they looked.
        if let Some(source) = self.source {
            self.hosts = Hosts::beside(&self.at.zone.contents(self.at.platform, source));
        }
    }
}

impl<P: Platform> Drop for Room<'_, '_, P> {
    fn drop(&mut self) {
        self.at.give_blocks(&mut self.stash);
        self.give_left();
    }
}

/// Tells of frames that were taken, by pageblock: all that was looked at of each is its header.
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
