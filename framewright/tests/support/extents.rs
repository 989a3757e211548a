//! Given ranges, and contiguous runs of any length.

use framewright::{
    Contiguous, Extent, FrameRange, FreeError, MemoryRange, Order, Pfn, Presence, RangeError,
    Request, ZoneKind,
};

use super::{places::Placement, steps::Step, world::World, zone::Frame};

/// The CPU whose counters include allocations without a token.
const ACCOUNT: u16 = 0;

impl<'m> World<'_, 'm> {
    /// Allocates a range. Must succeed if none of its frames is allocated or isolated. Frames on
    /// the lists of CPUs do not prevent that.
    pub(super) fn alloc_range(&mut self, step: Step) {
        let start = self.oracle.some_frame(step.pick);
        let range = FrameRange::new(start, start.offset(step.frames())).expect("a range");
        let expected = self.predict_range(range);
        let mut in_the_way = Vec::new();
        let result = self
            .memory
            .alloc_range(range, step.migratetype(), &mut |frames| in_the_way.push(frames));
        let is_busy = matches!(result, Err(RangeError::Busy { .. }));
        self.check_in_the_way(range, &in_the_way, is_busy);
        match (result, expected) {
            (Ok(extent), Ok(zone)) => {
                assert_eq!(extent.range(), range);
                assert_eq!(self.own_extent(extent), zone);
            }
            (result, expected) => assert_eq!(result.err(), expected.err(), "{range:?}"),
        }
    }

    fn predict_range(&self, range: FrameRange) -> Result<usize, RangeError> {
        if range.frames() == 0 {
            return Err(RangeError::Empty);
        }
        let mut zones = self.oracle.zones.iter();
        let is_there = |frame: &Frame| *frame != Frame::Hole;
        let index =
            zones.position(|zone| zone.slice(range).is_some_and(|f| f.iter().all(is_there)));
        let index = index.ok_or(RangeError::NotOurs)?;
        let zone = &self.oracle.zones[index];
        let first = range.start().align_down(Order::PAGEBLOCK).get();
        let mut pageblocks = (first..range.end().get()).step_by(512);
        if let Some(at) = pageblocks.find(|pageblock| zone.is_isolated(*pageblock)) {
            return Err(RangeError::Isolated { at: Pfn::new(at) });
        }
        let frames = zone.slice(range).into_iter().flatten();
        match frames.filter(|frame| **frame == Frame::Used).count() as u64 {
            0 => Ok(index),
            frames => Err(RangeError::Busy { frames }),
        }
    }

    /// Allocates a contiguous run. If the lists of CPUs are empty, it must come from the first zone
    /// that has one.
    pub(super) fn alloc_contiguous(&mut self, step: Step) {
        let of = Placement { this_node: false, ..step.placement() };
        let request = of.of(Request::new(Order::ZERO, step.migratetype()));
        let near = self.memory.node_of(super::machine::cpu(ACCOUNT));
        let eligible = self.places.eligible(&self.oracle.zones, near, request, of);
        let wanted = Wanted {
            frames: step.frames(),
            align: Order::new(step.order % 12).expect("an order"),
            within: self.some_bounds(step),
            highest: request.highest(),
        };
        let predicted = self.lists_are_empty().then(|| self.predict_run(&wanted, &eligible));
        match self.memory.alloc_contiguous(&wanted.ask(step, of)) {
            Ok(extent) => {
                let range = extent.range();
                assert_eq!(range.frames(), wanted.frames);
                assert!(range.start().is_aligned(wanted.align) && wanted.allows(range));
                let zone = self.own_extent(extent);
                assert!(eligible.contains(&zone), "{wanted:?}: {range:?} is in zone {zone}");
                assert!(predicted.is_none_or(|predicted| predicted == Ok(zone)), "{predicted:?}");
                let free = self.memory.zone(self.ids[zone]).unwrap().free;
                assert!(free >= self.reserve_for_runs(&wanted, zone));
            }
            Err(error) => {
                assert!(self.lists_are_empty() || wanted.frames == 0);
                assert_eq!(self.predict_run(&wanted, &eligible), Err(error), "{wanted:?}");
            }
        }
    }

    fn predict_run(&self, wanted: &Wanted, eligible: &[usize]) -> Result<usize, RangeError> {
        if wanted.frames == 0 {
            return Err(RangeError::Empty);
        }
        let serves = |zone: &&usize| {
            let free = self.memory.zone(self.ids[**zone]).unwrap().free;
            let enough = free >= wanted.frames + self.reserve_for_runs(wanted, **zone);
            enough && self.has_run(wanted, **zone)
        };
        eligible.iter().find(serves).copied().ok_or(RangeError::NotFound)
    }

    fn reserve_for_runs(&self, wanted: &Wanted, zone: usize) -> u64 {
        let zone = self.memory.zone(self.ids[zone]).unwrap();
        zone.min + zone.protection[wanted.highest as usize]
    }

    fn has_run(&self, wanted: &Wanted, zone: usize) -> bool {
        let zone = &self.oracle.zones[zone];
        let mut run = 0;
        zone.span().any(|pfn| {
            let inside = wanted.within.is_none_or(|within| within.contains(Pfn::new(pfn)));
            let free = zone.at(pfn) == Frame::Free && !zone.is_isolated(pfn) && inside;
            run = match run {
                0 if !Pfn::new(pfn).is_aligned(wanted.align) => 0,
                run if free => run + 1,
                _ => 0,
            };
            run >= wanted.frames
        })
    }

    fn some_bounds(&self, step: Step) -> Option<FrameRange> {
        let start = self.oracle.some_frame(step.pick.rotate_left(5));
        (step.flags & 4 != 0).then(|| FrameRange::new(start, start.offset(3000)).expect("a range"))
    }

    fn own_extent(&mut self, extent: Extent<'m>) -> usize {
        let range = extent.range();
        let zone = self.oracle.take_range(range);
        self.use_frames(range.start(), range.frames());
        self.extents.push(extent);
        zone
    }

    /// Takes each range in use from the start.
    pub(super) fn own_in_use(&mut self, map: &[MemoryRange]) {
        for range in map.iter().filter(|range| range.presence == Presence::InUse) {
            let extent = self.memory.take_in_use(range.frames).expect("the map names it");
            let again = self.memory.take_in_use(range.frames);
            assert_eq!(again, Err(RangeError::HandedOut));
            self.own_extent(extent);
        }
    }

    /// Frees an extent, in two parts if a random place is inside it.
    pub(super) fn free_extent(&mut self, step: Step) {
        let Some(i) = usize::from(step.pick).checked_rem(self.extents.len()) else { return };
        let extent = self.extents.swap_remove(i);
        let range = extent.range();
        self.oracle.release_range(range);
        let at = range.start().offset(step.frames());
        match extent.split_at(at) {
            Ok((low, high)) => {
                assert!(low.range().end() == at && high.range().start() == at);
                self.free_part(high, step.flags & 8 != 0);
                self.free_part(low, step.flags & 16 != 0);
            }
            Err(extent) => {
                assert!(!range.contains(at) || at == range.start());
                self.free_part(extent, step.flags & 8 != 0);
            }
        }
    }

    /// Frees an extent, or its range by frame number. A second free by frame number is refused.
    fn free_part(&mut self, extent: Extent<'m>, raw: bool) {
        if !raw {
            self.memory.free_extent(extent).expect("it is ours");
            return;
        }
        let range = extent.into_raw();
        // SAFETY: the extent belonged to the world.
        assert_eq!(unsafe { self.memory.free_range_raw(range) }, Ok(()), "{range:?}");
        if self.checked {
            // SAFETY: violated on purpose. The call must refuse the free, and these frames do not exist.
            let again = unsafe { self.memory.free_range_raw(range) };
            let refused = RangeError::BadFree { at: range.start(), why: FreeError::AlreadyFree };
            assert_eq!(again, Err(refused));
            assert_eq!(self.memory.platform().take_reports().len(), 1);
        }
    }
}

/// A contiguous run to search for.
#[derive(Debug)]
struct Wanted {
    frames: u64,
    align: Order,
    within: Option<FrameRange>,
    highest: ZoneKind,
}

impl Wanted {
    fn ask(&self, step: Step, of: Placement) -> Contiguous {
        let wanted = Contiguous::new(self.frames, step.migratetype()).aligned(self.align);
        let wanted = wanted.zone(self.highest);
        let wanted = self.within.map_or(wanted, |within| wanted.within(within));
        let wanted = of.node.map_or(wanted, |node| wanted.on_node(node));
        of.nodes.map_or(wanted, |nodes| wanted.nodes(nodes))
    }

    fn allows(&self, range: FrameRange) -> bool {
        let inside = |w: FrameRange| w.start() <= range.start() && range.end() <= w.end();
        self.within.is_none_or(inside)
    }
}
