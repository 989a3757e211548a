//! Contiguous memory: a given range, or a run of any length at any address.
//!
//! A run at *any* address is the start of a free block that has at least as many frames. If there
//! is no such block, or if the run must lie in a given range, the pageblocks are searched, with a
//! bounded number of steps under each hold of the zone lock. If another CPU allocates from a found
//! run before it is taken, the search continues with the frame after the start of that run.
//!
//! A *given* range is isolated first, so that no more of it is allocated, and the CPU lists are
//! drained. The caller may then move pages out of the range. After that the range is taken, or the
//! frames in use are reported; the isolation ends in both cases. One hold of the lock takes or
//! frees a bounded number of frames.

use crate::{
    buddy::{Buddy, FreeRun, RunWanted},
    core::MemoryCore,
    pcp::ZoneOnCpu,
    platform::Platform,
    tuning::Hardening,
    types::{
        Block, Contiguous, CpuId, Extent, FrameRange, MigrateType, Order, PAGEBLOCK_FRAMES,
        RangeError, SingleFrames, ZoneId,
    },
    zone::{self},
};

/// The maximum number of frames that are taken or given under one hold of the zone lock.
const BATCH: u32 = 64 * PAGEBLOCK_FRAMES as u32;

/// The maximum number of steps of a search under one hold of the zone lock. A step passes one run of free or of
/// allocated frames, at most 64 pageblocks. With this bound, a search holds the lock no longer than taking a batch
/// of frames does.
const SEARCHED: u32 = 128;

/// The CPU whose counters include these operations.
const ACCOUNT: CpuId = CpuId::new(0);

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// Allocates exactly the frames of `range`, which lies in one zone. After the range is
    /// isolated, `evacuate` is called with the zone and the range in it, and tries to free the frames
    /// in use. Watermarks do not apply.
    ///
    /// # Errors
    ///
    /// [`RangeError::Busy`] if frames are in use: `in_the_way` was called with each run of them.
    pub(crate) fn alloc_range(
        &self,
        range: FrameRange,
        migratetype: MigrateType,
        evacuate: &mut dyn FnMut(ZoneId, u32, u32),
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<Extent<'m>, RangeError> {
        if !migratetype.is_requestable() {
            return Err(RangeError::NotRequestable(migratetype));
        }
        let (zone, start, end) = self.locate_range(range)?;
        let _isolation =
            self.isolate_range(zone, start, end).map_err(|at| RangeError::Isolated { at })?;
        evacuate(zone, start, end);
        let cpu = self.context(zone, ACCOUNT);
        let take = |from, to| cpu.take_isolated(from, to, migratetype);
        if take_run(&cpu, start, end, take) {
            return Ok(Extent::new(self.tag(), range));
        }
        let frames = self.report_in_use(zone, start, end, in_the_way);
        Err(RangeError::Busy { frames })
    }

    /// Allocates a contiguous run of any number of frames, if the min watermark allows that for the request.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotFound`] if no zone has a suitable run of free frames. If the request may
    /// wait, the CPU lists were drained before the last search.
    pub(crate) fn alloc_contiguous(&self, wanted: &Contiguous) -> Result<Extent<'m>, RangeError> {
        if wanted.frames() == 0 {
            return Err(RangeError::Empty);
        }
        if !wanted.request().migratetype().is_requestable() {
            return Err(RangeError::NotRequestable(wanted.request().migratetype()));
        }
        if let Some(extent) = self.find_contiguous(wanted) {
            return Ok(extent);
        }
        if !wanted.request().may_wait() {
            return Err(RangeError::NotFound);
        }
        self.drain_all();
        self.find_contiguous(wanted).ok_or(RangeError::NotFound)
    }

    /// Turns frames back into an extent: the inverse of [`Extent::into_raw`].
    ///
    /// # Errors
    ///
    /// The range is empty, or it is not memory of one zone.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as an extent of this memory, or as a part of one.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn adopt_extent(&self, range: FrameRange) -> Result<Extent<'m>, RangeError> {
        self.locate_range(range)?;
        Ok(Extent::new(self.tag(), range))
    }

    /// Takes frames that are in use from the start. The memory is not shared yet, so all of them are free.
    pub(crate) fn reserve(&self, range: FrameRange) {
        if let Ok((zone, start, end)) = self.locate_range(range) {
            let cpu = self.context(zone, ACCOUNT);
            for (from, to) in batches(start, end) {
                cpu.take_range(from, to, MigrateType::Unmovable);
            }
        }
    }

    /// The number of allocated frames in a range, including those on the lists of CPUs.
    pub(crate) fn frames_in_use(&self, range: FrameRange) -> u64 {
        let place = self.locate_range(range);
        place.map_or(0, |(zone, start, end)| self.report_in_use(zone, start, end, &mut |_| ()))
    }

    /// Frees frames of extents by frame number.
    ///
    /// # Errors
    ///
    /// [`RangeError::BadFree`] names the first frame that cannot be freed, unless frees are not checked.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as extents of this memory, and no longer uses them.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn free_range_raw(&self, range: FrameRange) -> Result<(), RangeError> {
        let (zone, start, end) = self.locate_range(range)?;
        let cpu = self.context(zone, ACCOUNT);
        for (from, to) in batches(start, end) {
            cpu.check_range(from, to).map_err(|(frame, why)| RangeError::BadFree {
                at: cpu.pfn(frame),
                why: why.into(),
            })?;
        }
        give_run(&cpu, start, end);
        Ok(())
    }

    /// Splits an extent into blocks of single frames.
    ///
    /// # Errors
    ///
    /// An extent of another memory, or one that was freed by frame number before, is returned.
    pub(crate) fn split_extent(&self, extent: Extent<'m>) -> Result<SingleFrames<'m>, Extent<'m>> {
        if !extent.belongs_to(self.tag()) {
            return Err(extent);
        }
        let Ok((zone, start, end)) = self.locate_range(extent.range()) else { return Err(extent) };
        let cpu = self.context(zone, ACCOUNT);
        if cpu.mark_split(start, end).is_err() {
            return Err(extent);
        }
        for (from, to) in batches(start, end) {
            cpu.unfold_range(from, to);
        }
        Ok(SingleFrames::of(extent))
    }

    /// Splits a block into blocks of single frames.
    ///
    /// # Errors
    ///
    /// A block is returned if it belongs to another memory, is larger than a pageblock, or was freed by frame number
    /// before.
    pub(crate) fn split_block(&self, block: Block<'m>) -> Result<SingleFrames<'m>, Block<'m>> {
        let (start, order) = (block.pfn(), block.order());
        let range = FrameRange::new(start, start.offset(order.frames()));
        let Some(range) = range.filter(|_| block.belongs_to(self.tag())) else { return Err(block) };
        if order > Order::PAGEBLOCK {
            return Err(block);
        }
        // Smaller blocks are recorded only where frees are checked.
        if (order == Order::PAGEBLOCK || self.tuning().hardening != Hardening::Off)
            && let Some((zone, frame)) = self.find(start, order)
            && self.context(zone, ACCOUNT).split_into_frames(frame, order).is_err()
        {
            return Err(block);
        }
        Ok(SingleFrames::of(Extent::new(self.tag(), range)))
    }

    /// Frees an extent, or a part of one.
    ///
    /// # Errors
    ///
    /// An extent of another memory is given back.
    pub(crate) fn free_extent(&self, extent: Extent<'m>) -> Result<(), Extent<'m>> {
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
        let mut zones = self.candidates(ACCOUNT, wanted.request());
        zones.find_map(|(_, cpu)| self.find_in_zone(&cpu, wanted))
    }

    fn find_in_zone(&self, cpu: &ZoneOnCpu<'_, 'm, P>, wanted: &Contiguous) -> Option<Extent<'m>> {
        let zone = cpu.zone;
        let frames = u32::try_from(wanted.frames()).ok()?;
        if let Some(extent) = self.take_start_of_block(cpu, wanted, frames) {
            return Some(extent);
        }
        let (mut from, to) = match wanted.bounds() {
            Some(range) => zone.clip(range)?,
            None => (0, zone.spanned() as u32),
        };
        loop {
            let access = wanted.request().last_access();
            if zone.marks().allowance(zone.free(), access) < i64::from(frames) {
                return None;
            }
            let search = |buddy: &mut Buddy<'_>| {
                buddy.find_free_run(
                    RunWanted { frames, align: wanted.align().frames(), to },
                    from,
                    SEARCHED,
                )
            };
            let found = zone.with(self.platform(), search);
            let passed = match found {
                FreeRun::Found(start) | FreeRun::Continue(start) => start,
                FreeRun::None => to,
            };
            zone.probe_search(self.platform(), zone::pageblocks(from, passed.max(from)));
            match found {
                FreeRun::Found(start) => {
                    let take = |from, to| cpu.take_range(from, to, wanted.request().migratetype());
                    if take_run(cpu, start, start + frames, take) {
                        let range = FrameRange::new(zone.pfn(start), zone.pfn(start + frames))?;
                        return Some(Extent::new(self.tag(), range));
                    }
                    // A part of the run was allocated or isolated meanwhile.
                    from = start + 1;
                }
                FreeRun::Continue(next) => from = next,
                FreeRun::None => return None,
            }
        }
    }

    /// Takes the frames from the start of a free block that has at least as many, if there is one. This needs no
    /// search, costs about as much as allocating such a block, and mixes types no more than other requests do.
    fn take_start_of_block(
        &self,
        cpu: &ZoneOnCpu<'_, 'm, P>,
        wanted: &Contiguous,
        frames: u32,
    ) -> Option<Extent<'m>> {
        let access = wanted.request().last_access();
        let allowed = cpu.zone.marks().allowance(cpu.zone.free(), access) >= i64::from(frames);
        if wanted.bounds().is_some() || !allowed {
            return None;
        }
        let order = Order::holding(u64::from(frames))?.max(wanted.align());
        let how = (wanted.request().migratetype(), access);
        let start = cpu.take_start_of_block(order, frames, how)?;
        let range = FrameRange::new(cpu.pfn(start), cpu.pfn(start + frames))?;
        Some(Extent::new(self.tag(), range))
    }

    /// The zone that contains `range`, and the bounds of the range as frames of the zone.
    fn locate_range(&self, range: FrameRange) -> Result<(ZoneId, u32, u32), RangeError> {
        if range.frames() == 0 {
            return Err(RangeError::Empty);
        }
        let (zone, start) = self.find(range.start(), Order::ZERO).ok_or(RangeError::NotOurs)?;
        let end = u64::from(start) + range.frames();
        let end = u32::try_from(end).map_err(|_| RangeError::NotOurs)?;
        if !self.zones()[zone.index()].has_all(start, end) {
            return Err(RangeError::NotOurs);
        }
        Ok((zone, start, end))
    }
}

/// Takes frames `start` to `end`, all or none, up to [`BATCH`] frames at a time.
fn take_run<P: Platform>(
    cpu: &ZoneOnCpu<'_, '_, P>,
    start: u32,
    end: u32,
    take: impl Fn(u32, u32) -> bool,
) -> bool {
    for (from, to) in batches(start, end) {
        if !take(from, to) {
            give_run(cpu, start, from);
            return false;
        }
    }
    true
}

fn give_run<P: Platform>(cpu: &ZoneOnCpu<'_, '_, P>, start: u32, end: u32) {
    for (from, to) in batches(start, end) {
        cpu.give_range(from, to);
    }
}

/// Splits frames `start` to `end` into parts of at most [`BATCH`].
fn batches(start: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
    let batch = move |from: u32| (from, end.min((from / BATCH + 1) * BATCH));
    let first = (start < end).then(|| batch(start));
    core::iter::successors(first, move |&(_, at)| (at < end).then(|| batch(at)))
}
