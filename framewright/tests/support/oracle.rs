//! The model of all zones.

use framewright::{FrameRange, MemoryRange, NodeId, Order, Pfn, ZoneKind};

use super::zone::{Frame, ZoneTruth};

/// The zones, sorted by node and kind, as the library numbers them.
pub struct Oracle {
    pub zones: Vec<ZoneTruth>,
}

impl Oracle {
    pub fn new(map: &[MemoryRange]) -> Self {
        let mut names: Vec<(NodeId, ZoneKind)> = map.iter().map(|r| (r.node, r.zone)).collect();
        names.sort_unstable();
        names.dedup();
        let zones = names.into_iter().map(|(node, kind)| ZoneTruth::new(map, node, kind));
        Self { zones: zones.collect() }
    }

    /// The number of a frame's zone.
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.at(pfn.get()) != Frame::Hole)
    }

    /// The state of a frame. A frame outside all zones is a hole.
    pub fn at(&self, pfn: Pfn) -> Frame {
        self.zone_of(pfn).map_or(Frame::Hole, |zone| self.zones[zone].at(pfn.get()))
    }

    /// The number of a block's zone, if all its frames belong to one zone.
    pub fn zone_of_block(&self, pfn: Pfn, order: Order) -> Option<usize> {
        self.zone_of(pfn).filter(|&zone| {
            let zone = &self.zones[zone];
            (0..order.frames()).all(|i| zone.at(pfn.get() + i) != Frame::Hole)
        })
    }

    /// Whether all frames of a block belong to one zone, and have the state `what`.
    pub fn all(&self, pfn: Pfn, order: Order, what: Frame) -> bool {
        self.zone_of(pfn).is_some_and(|zone| self.zones[zone].all(pfn, order, what))
    }

    /// Whether a block can be allocated: all frames are free, and none is isolated.
    pub fn is_allocatable(&self, pfn: Pfn, order: Order) -> bool {
        let mut pageblocks = (0..order.frames()).step_by(512);
        self.all(pfn, order, Frame::Free) && !pageblocks.any(|i| self.is_isolated(pfn.offset(i)))
    }

    /// Records that a block was allocated, and returns its zone.
    pub fn take(&mut self, pfn: Pfn, order: Order) -> usize {
        assert!(pfn.is_aligned(order), "{order:?} at {pfn} is not aligned");
        let zone = self.zone_of(pfn).unwrap_or_else(|| panic!("{pfn} does not exist"));
        for i in 0..order.frames() {
            let frame = self.zones[zone].at(pfn.get() + i);
            assert_eq!(frame, Frame::Free, "{order:?} at {pfn}: frame {i} is not free");
        }
        self.zones[zone].set(pfn, order, Frame::Used);
        zone
    }

    /// Records that a range was allocated, and returns its zone.
    pub fn take_range(&mut self, range: FrameRange) -> usize {
        let zone = self.zone_of(range.start()).expect("it exists");
        let frames = self.zones[zone].slice(range).expect("it is of one zone");
        assert!(frames.iter().all(|frame| *frame == Frame::Free), "{range:?} is not free");
        self.zones[zone].fill(range, Frame::Used);
        zone
    }

    /// Records that a range was freed.
    pub fn release_range(&mut self, range: FrameRange) {
        let zone = self.zone_of(range.start()).expect("it exists");
        self.zones[zone].fill(range, Frame::Free);
    }

    /// Records that a block was freed.
    pub fn release(&mut self, pfn: Pfn, order: Order) {
        assert!(self.all(pfn, order, Frame::Used), "the test freed what it does not own");
        let zone = self.zone_of(pfn).expect("it is used");
        self.zones[zone].set(pfn, order, Frame::Free);
    }

    /// Whether the frame is in an isolated pageblock.
    pub fn is_isolated(&self, pfn: Pfn) -> bool {
        self.zone_of(pfn).is_some_and(|zone| self.zones[zone].is_isolated(pfn.get()))
    }

    pub fn managed(&self) -> u64 {
        self.zones.iter().map(ZoneTruth::managed).sum()
    }

    /// A frame in or near a zone, perhaps in a hole.
    pub fn some_frame(&self, pick: u16) -> Pfn {
        let zone = &self.zones[usize::from(pick) % self.zones.len()];
        let span = zone.span();
        let offset = u64::from(pick).wrapping_mul(0x9e37_79b9) >> 5;
        let frames = span.end - span.start + 600;
        Pfn::new((span.start + offset % frames).saturating_sub(300))
    }
}
