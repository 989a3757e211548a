//! Memory hotplug.

use framewright::{FrameRange, HotplugError, Order, Pfn};

use super::{
    steps::Step,
    world::World,
    zone::{Frame, ZoneTruth},
};

const PAGEBLOCK: u64 = 512;

impl World<'_, '_> {
    /// Some pageblocks in and around a zone, or sometimes parts of pageblocks.
    fn some_range(&self, step: Step) -> FrameRange {
        let zones = &self.oracle.zones;
        let (zone, pick) = (usize::from(step.pick) % zones.len(), u64::from(step.pick));
        let span = zones[zone].span();
        let pageblocks = (span.end - span.start) / PAGEBLOCK;
        let start = span.start + pick / zones.len() as u64 % (pageblocks + 1) * PAGEBLOCK;
        if zones[zone].in_pieces && step.flags & 1 == 0 {
            // The start and the length are arbitrary.
            let start = start + u64::from(step.cpu) % PAGEBLOCK;
            return FrameRange::new(Pfn::new(start), Pfn::new(start + step.frames() % 3000))
                .expect("a range");
        }
        let end = start + u64::from(step.order % 5) * PAGEBLOCK + u64::from(step.flags == 200);
        FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("a range")
    }

    pub(super) fn add_memory(&mut self, step: Step) {
        let range = self.some_range(step);
        let piece = self.oracle.zones.iter().position(|zone| zone.in_pieces && zone.names(range));
        let expected = piece.filter(|_| range.frames() > 0).map(|zone| self.is_piece(zone, range));
        let expected = expected.unwrap_or_else(|| self.is_absent(range));
        assert_eq!(self.memory.add_memory(range), expected.map(drop), "{range:?}");
        if let Ok(zone) = expected {
            self.oracle.zones[zone].fill(range, Frame::Free);
            self.memory_changed(range);
        }
    }

    /// The zone of a range that can be added as a piece, or the error. No frame of a piece may be
    /// present.
    fn is_piece(&self, zone: usize, range: FrameRange) -> Result<usize, HotplugError> {
        let is_there = |pfn: &u64| self.oracle.zones[zone].at(*pfn) != Frame::Hole;
        match (range.start().get()..range.end().get()).find(is_there) {
            Some(at) => Err(HotplugError::Present { at: Pfn::new(at) }),
            None => Ok(zone),
        }
    }

    fn is_absent(&self, range: FrameRange) -> Result<usize, HotplugError> {
        self.name(range).and_then(|zone| {
            let is_there = |truth: &ZoneTruth, at: u64| truth.count_in(at, Frame::Hole) == 0;
            match pageblocks(range).find(|at| is_there(&self.oracle.zones[zone], *at)) {
                Some(at) => Err(HotplugError::Present { at: Pfn::new(at) }),
                None => Ok(zone),
            }
        })
    }

    /// Removes a range. Must succeed if none of its frames is allocated. Frames on the lists of
    /// CPUs do not prevent that.
    pub(super) fn remove_memory(&mut self, step: Step) {
        let range = self.some_range(step);
        let expected = self.name(range).and_then(|zone| {
            let truth = &self.oracle.zones[zone];
            if let Some(at) = pageblocks(range).find(|at| truth.count_in(*at, Frame::Hole) > 0) {
                return Err(HotplugError::Absent { at: Pfn::new(at) });
            }
            if let Some(at) = pageblocks(range).find(|at| truth.is_isolated(*at)) {
                return Err(HotplugError::Isolated { at: Pfn::new(at) });
            }
            match pageblocks(range).map(|at| truth.count_in(at, Frame::Used)).sum() {
                0 => Ok(zone),
                frames => Err(HotplugError::Busy { frames }),
            }
        });
        let mut in_the_way = Vec::new();
        let result = self.memory.remove_memory(range, &mut |frames| in_the_way.push(frames));
        assert_eq!(result, expected.map(drop), "{range:?}");
        let is_busy = matches!(result, Err(HotplugError::Busy { .. }));
        self.check_in_the_way(range, &in_the_way, is_busy);
        if let Ok(zone) = expected {
            self.oracle.zones[zone].fill(range, Frame::Hole);
            self.memory_changed(range);
        }
    }

    /// Checks that exactly the allocated frames were reported, as runs, in ascending order.
    pub(super) fn check_in_the_way(
        &self,
        range: FrameRange,
        in_the_way: &[FrameRange],
        is_busy: bool,
    ) {
        let mut named = in_the_way.iter().flat_map(|run| run.start().get()..run.end().get());
        if is_busy {
            let is_used = |pfn: &u64| self.oracle.at(Pfn::new(*pfn)) == Frame::Used;
            assert!(named.eq((range.start().get()..range.end().get()).filter(is_used)));
        } else {
            assert_eq!(named.next(), None, "a frame of {range:?} was reported as in use");
        }
    }

    /// The zone of the whole pageblocks in a range, or the error of the range.
    fn name(&self, range: FrameRange) -> Result<usize, HotplugError> {
        let is_whole = |pfn: Pfn| pfn.get().is_multiple_of(PAGEBLOCK);
        if range.frames() == 0 || !is_whole(range.start()) || !is_whole(range.end()) {
            return Err(HotplugError::NotWhole);
        }
        let mut zones = self.oracle.zones.iter();
        zones.position(|zone| zone.names(range)).ok_or(HotplugError::NotInMap)
    }

    fn memory_changed(&mut self, range: FrameRange) {
        self.check_marks();
        self.tally.stale.fill(true);
        let first = range.start().align_down(Order::PAGEBLOCK);
        self.reported.retain(|pageblock| !(first..range.end()).contains(pageblock));
    }
}

fn pageblocks(range: FrameRange) -> impl Iterator<Item = u64> {
    (range.start().get()..range.end().get()).step_by(PAGEBLOCK as usize)
}
