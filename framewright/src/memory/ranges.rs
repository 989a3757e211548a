//! Contiguous memory: a given range, or a run of any length wherever there is one.
//!
//! A *given* range is withheld first, so that nothing more of it is handed out and what CPU
//! lists hold of it comes home; then it is taken, or the frames in the way are named and it is
//! let go again. For a run *anywhere* the pageblock headers are searched, a hundred at a time
//! under the zone lock, and what was found is taken; if somebody was faster, the search goes on.
//! Either way frames move under the lock in bounded stretches.

use core::fmt;

use super::Memory;
use crate::{
    alloc::{MigrateType, Request},
    buddy::{Buddy, FreeRun, RunWanted},
    frame::{Extent, FrameRange, Order, PAGEBLOCK_FRAMES, Pfn},
    pcp::ZoneOnCpu,
    platform::{CpuId, Platform},
    zone::{self, NodeId, NodeMask, ZoneId, ZoneKind},
};

/// Frames that are taken or given under one hold of the zone lock, at the most.
const STRETCH: u32 = 64 * PAGEBLOCK_FRAMES as u32;

/// Stretches of pageblocks that are searched under one hold of the zone lock. The search takes no longer than
/// taking the frames that it finds.
const SEARCHED: u32 = 128;

/// Whose counters such operations appear under.
const ACCOUNT: CpuId = CpuId::new(0);

/// What contiguous memory is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contiguous {
    frames: u64,
    align: Order,
    within: Option<FrameRange>,
    request: Request,
}

impl Contiguous {
    /// `frames` neighbouring frames, anywhere.
    #[must_use]
    pub const fn new(frames: u64, migratetype: MigrateType) -> Self {
        let request = Request::new(Order::ZERO, migratetype);
        Self { frames, align: Order::ZERO, within: None, request }
    }

    /// The first frame shall be a multiple of 2^align.
    #[must_use]
    pub const fn aligned(self, align: Order) -> Self {
        Self { align, ..self }
    }

    /// All of it shall lie in `range`: what a device can address.
    #[must_use]
    pub const fn within(self, range: FrameRange) -> Self {
        Self { within: Some(range), ..self }
    }

    /// Zones up to `highest` only.
    #[must_use]
    pub const fn zone(self, highest: ZoneKind) -> Self {
        Self { request: self.request.zone(highest), ..self }
    }

    /// Prefers a node.
    #[must_use]
    pub const fn on_node(self, node: NodeId) -> Self {
        Self { request: self.request.on_node(node), ..self }
    }

    pub(crate) const fn frames(&self) -> u64 {
        self.frames
    }

    pub(crate) const fn align(&self) -> Order {
        self.align
    }

    pub(crate) const fn bounds(&self) -> Option<FrameRange> {
        self.within
    }

    pub(crate) const fn request(&self) -> Request {
        self.request
    }

    /// These nodes only.
    #[must_use]
    pub const fn nodes(self, nodes: NodeMask) -> Self {
        Self { request: self.request.nodes(nodes), ..self }
    }
}

/// Why contiguous memory could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeError {
    /// The range is empty.
    Empty,
    /// Not all of it is memory of one zone that is present.
    NotOurs,
    /// Requests may not ask for this type.
    NotRequestable(MigrateType),
    /// Somebody withholds a pageblock of it.
    Isolated {
        /// Its first frame.
        at: Pfn,
    },
    /// Frames of it are in use.
    Busy {
        /// How many.
        frames: u64,
    },
    /// No run of free frames is long enough.
    NotFound,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Empty => f.write_str("the range has no frames"),
            RangeError::NotOurs => {
                f.write_str("the range is not memory of one zone that is present as a whole")
            }
            RangeError::NotRequestable(of) => {
                write!(f, "requests may not ask for {of} memory")
            }
            RangeError::Isolated { at } => {
                write!(f, "the pageblock at frame {at} is isolated by somebody else")
            }
            RangeError::Busy { frames } => write!(f, "{frames} frames of the range are in use"),
            RangeError::NotFound => f.write_str("no run of free frames is long enough"),
        }
    }
}

impl core::error::Error for RangeError {}

impl<'m, P: Platform> Memory<'m, P> {
    /// Allocates exactly the frames of `range`, which lies in one zone. Watermarks do not
    /// apply.
    ///
    /// # Errors
    ///
    /// [`RangeError::Busy`] if frames are in use: `in_the_way` was told which. Nothing has
    /// changed then.
    pub fn alloc_range(
        &self,
        range: FrameRange,
        migratetype: MigrateType,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<Extent<'m>, RangeError> {
        self.alloc_range_clearing(range, migratetype, &mut |_, _, _| (), in_the_way)
    }

    /// The same after `clear` has tried to empty the range, which is named by zone and frames.
    pub(crate) fn alloc_range_clearing(
        &self,
        range: FrameRange,
        migratetype: MigrateType,
        clear: &mut dyn FnMut(ZoneId, u32, u32),
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<Extent<'m>, RangeError> {
        if !migratetype.is_requestable() {
            return Err(RangeError::NotRequestable(migratetype));
        }
        let (zone, start, end) = self.locate_range(range)?;
        let _withheld =
            self.withhold(zone, start, end).map_err(|at| RangeError::Isolated { at })?;
        clear(zone, start, end);
        let cpu = self.context(zone, ACCOUNT);
        let take = |from, to| cpu.take_isolated(from, to, migratetype);
        if take_run(&cpu, start, end, take) {
            return Ok(Extent::new(self.tag(), range));
        }
        let frames = self.report_in_use(zone, start, end, in_the_way);
        Err(RangeError::Busy { frames })
    }

    /// Allocates neighbouring frames in any number, as far as the min watermark allows.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotFound`] if no zone has a run of free frames that would do; what CPU
    /// lists hold was brought home first.
    pub fn alloc_contiguous(&self, wanted: &Contiguous) -> Result<Extent<'m>, RangeError> {
        if wanted.frames == 0 {
            return Err(RangeError::Empty);
        }
        if !wanted.request.migratetype().is_requestable() {
            return Err(RangeError::NotRequestable(wanted.request.migratetype()));
        }
        if let Some(extent) = self.find_contiguous(wanted) {
            return Ok(extent);
        }
        self.drain_all();
        self.find_contiguous(wanted).ok_or(RangeError::NotFound)
    }

    /// Turns frames back into an extent: the inverse of [`Extent::into_raw`].
    ///
    /// # Errors
    ///
    /// The range is empty, or not memory of one zone.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as an extent of this memory, or as a part of one.
    #[allow(unsafe_code)]
    pub unsafe fn adopt_extent(&self, range: FrameRange) -> Result<Extent<'m>, RangeError> {
        self.locate_range(range)?;
        Ok(Extent::new(self.tag(), range))
    }

    /// Frees an extent, which may be a part of what was allocated.
    ///
    /// # Errors
    ///
    /// An extent of another memory is given back.
    pub fn free_extent(&self, extent: Extent<'m>) -> Result<(), Extent<'m>> {
        if !extent.belongs_to(self.tag()) {
            return Err(extent);
        }
        match self.locate_range(extent.range()) {
            Ok((zone, start, end)) => {
                give_run(&self.context(zone, ACCOUNT), start, end);
                Ok(())
            }
            Err(_) => Err(extent),
        }
    }

    fn find_contiguous(&self, wanted: &Contiguous) -> Option<Extent<'m>> {
        let mut zones = self.candidates(ACCOUNT, wanted.request);
        zones.find_map(|(_, cpu)| self.find_in_zone(&cpu, wanted))
    }

    fn find_in_zone(&self, cpu: &ZoneOnCpu<'_, 'm, P>, wanted: &Contiguous) -> Option<Extent<'m>> {
        let zone = cpu.zone;
        let frames = u32::try_from(wanted.frames).ok()?;
        let (mut from, to) = match wanted.within {
            Some(range) => zone.clip(range)?,
            None => (0, zone.spanned() as u32),
        };
        loop {
            let access = wanted.request.last_access();
            if zone.marks().allowance(zone.free(), access) < i64::from(frames) {
                return None;
            }
            let search = |buddy: &mut Buddy<'_>| {
                buddy.find_free_run(
                    RunWanted { frames, align: wanted.align.frames(), to },
                    from,
                    SEARCHED,
                )
            };
            let found = zone.with(&self.platform, search);
            let passed = match found {
                FreeRun::Found(start) | FreeRun::Continue(start) => start,
                FreeRun::None => to,
            };
            zone.probe_search(&self.platform, zone::pageblocks(from, passed.max(from)));
            match found {
                FreeRun::Found(start) => {
                    let take = |from, to| cpu.take_range(from, to, wanted.request.migratetype());
                    if take_run(cpu, start, start + frames, take) {
                        let range = FrameRange::new(zone.pfn(start), zone.pfn(start + frames))?;
                        return Some(Extent::new(self.tag(), range));
                    }
                    // Somebody took or withholds part of it meanwhile.
                    from = start + 1;
                }
                FreeRun::Continue(next) => from = next,
                FreeRun::None => return None,
            }
        }
    }

    /// The zone that holds all of `range`, and the range's place in it.
    fn locate_range(&self, range: FrameRange) -> Result<(ZoneId, u32, u32), RangeError> {
        if range.frames() == 0 {
            return Err(RangeError::Empty);
        }
        let (zone, start) = self.find(range.start(), Order::ZERO).ok_or(RangeError::NotOurs)?;
        let end = u64::from(start) + range.frames();
        let end = u32::try_from(end).map_err(|_| RangeError::NotOurs)?;
        if !self.zones[zone.index()].has_all(start, end) {
            return Err(RangeError::NotOurs);
        }
        Ok((zone, start, end))
    }
}

/// Takes frames `start` to `end`, all or none, a stretch at a time.
fn take_run<P: Platform>(
    cpu: &ZoneOnCpu<'_, '_, P>,
    start: u32,
    end: u32,
    take: impl Fn(u32, u32) -> bool,
) -> bool {
    for (from, to) in stretches(start, end) {
        if !take(from, to) {
            give_run(cpu, start, from);
            return false;
        }
    }
    true
}

fn give_run<P: Platform>(cpu: &ZoneOnCpu<'_, '_, P>, start: u32, end: u32) {
    for (from, to) in stretches(start, end) {
        cpu.give_range(from, to);
    }
}

/// Frames `start` to `end`, a bounded number at a time.
fn stretches(start: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
    (start..end).step_by(STRETCH as usize).map(move |at| (at, end.min(at.saturating_add(STRETCH))))
}
