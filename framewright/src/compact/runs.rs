//! Contiguous runs: a free run is taken, or else a run is emptied, pageblock by pageblock.
//! Pageblocks whose headers show unmovable frames are skipped; other unmovable pages are detected
//! only by the attempt to move them.
//!
//! Isolated pageblocks are skipped, too. If they are the only obstacles in some run, the search
//! [waits](super::retries) for them at its end.

use core::ops::Range;

use super::{
    Compactor,
    evacuate::{Evacuated, contents, within},
    retries::RetryBudget,
};
use crate::{
    platform::Platform,
    types::{Contiguous, Extent, FrameRange, Order, PAGEBLOCK_ORDER, RangeError, Request, ZoneId},
    zone::{Zone, clip, pageblocks},
};

/// The maximum number of pages that a contiguous request moves in a zone without success, in
/// multiples of the requested run.
const MAX_WASTED_RUNS: u64 = 4;

impl<'m, P: Platform> Compactor<'_, 'm, P> {
    /// As [`Memory::alloc_contiguous`](crate::Memory::alloc_contiguous), but if no run of free
    /// frames is long enough, moves pages to form one.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotFound`] if no run can be emptied without using the reserve. The search of a
    /// zone ends when more than four times as many pages as the run has frames were moved without
    /// success.
    pub fn alloc_contiguous(&mut self, wanted: &Contiguous) -> Result<Extent<'m>, RangeError> {
        let memory = self.memory;
        match memory.alloc_contiguous(wanted) {
            Err(RangeError::NotFound) => {}
            result => return result,
        }
        let mut search = RunSearch::of(wanted);
        for (id, at) in memory.candidates(self.cpu, wanted.request()) {
            let Some(runs) = Runs::of(at.zone, wanted) else { continue };
            search.moved = 0;
            loop {
                if let Some(extent) = self.take_run(id, &runs, &mut search) {
                    return Ok(extent);
                }
                let waits = search.waiting_may_help && search.may_continue();
                if !waits || !search.retries.wait_slice(memory.platform()) {
                    break;
                }
            }
        }
        Err(RangeError::NotFound)
    }

    /// Takes a run of pageblocks with only movable frames in a zone. If a page does not move, the
    /// search continues after it.
    fn take_run(
        &mut self,
        id: ZoneId,
        runs: &Runs,
        search: &mut RunSearch<'_>,
    ) -> Option<Extent<'m>> {
        search.waiting_may_help = false;
        let mut start = runs.low;
        while search.may_continue() {
            let run = runs.from(start)?;
            let obstacle =
                match self.last_obstacle(id, &run, search.wanted.request(), Isolated::Obstacle) {
                    Some(block) => block,
                    None => match self.evacuate_run(id, &run, search) {
                        Ok(extent) => return Some(extent),
                        Err(block) => block,
                    },
                };
            search.waiting_may_help |=
                self.only_isolation_blocks(id, runs, run, search.wanted.request(), obstacle);
            start = (obstacle + 1) << PAGEBLOCK_ORDER;
        }
        None
    }

    /// Whether pageblock `block`, an obstacle in `run`, is isolated, and there is no other obstacle
    /// in `run` or in a later run that also contains `block`.
    fn only_isolation_blocks(
        &self,
        id: ZoneId,
        runs: &Runs,
        mut run: Range<u32>,
        request: Request,
        block: u32,
    ) -> bool {
        let (first, end) = (block << PAGEBLOCK_ORDER, (block + 1) << PAGEBLOCK_ORDER);
        if !self.zone_context(id).on_cpu.zone.has_isolated(first, end) {
            return false;
        }
        while let Some(other) = self.last_obstacle(id, &run, request, Isolated::WaitedFor) {
            match runs.from((other + 1) << PAGEBLOCK_ORDER) {
                Some(next) if next.start <= first => run = next,
                _ => return false,
            }
        }
        true
    }

    /// The last obstacle in a run; the next run may begin after it. An obstacle is a pageblock with
    /// unmovable frames, or of a type that requests cannot name. The run also must not take more
    /// free frames than the zone has above its reserve. Counted from the end of the run, the
    /// pageblock at which they would become too many is an obstacle. `isolated` says whether
    /// isolated pageblocks are obstacles.
    fn last_obstacle(
        &self,
        id: ZoneId,
        run: &Range<u32>,
        request: Request,
        isolated: Isolated,
    ) -> Option<u32> {
        let ctx = self.zone_context(id);
        let allowed = ctx.on_cpu.zone.allowed(request.last_access());
        let mut free = 0;
        for block in pageblocks(run.start, run.end).rev() {
            let (held, (first, last)) = (contents(ctx, block), clip(block, run.start, run.end));
            if held.unmovable > 0 {
                return Some(block);
            }
            if isolated == Isolated::WaitedFor && ctx.on_cpu.zone.has_isolated(first, last) {
                // The zone does not count free frames of an isolated pageblock. When the isolation
                // ends, the zone counts these frames, and the run takes them: free memory does not
                // change.
                continue;
            }
            if !held.of.is_requestable() {
                return Some(block);
            }
            let ours = within(&held.map, first, last);
            free += u64::from(ours.iter().map(|word| word.count_ones()).sum::<u32>());
            if free > allowed {
                return Some(block);
            }
        }
        None
    }

    /// Empties a run and allocates it. If frames of the run stay in use, the error is the last
    /// pageblock with such frames.
    fn evacuate_run(
        &mut self,
        id: ZoneId,
        run: &Range<u32>,
        search: &mut RunSearch<'_>,
    ) -> Result<Extent<'m>, u32> {
        let RunSearch { wanted, retries, moved, .. } = search;
        let (memory, base) = (self.memory, self.zone_context(id).on_cpu.zone.base());
        let first = run.start >> PAGEBLOCK_ORDER;
        let block_of = |pfn: u64| ((pfn - base.get()) >> PAGEBLOCK_ORDER) as u32;
        let range = FrameRange::new(base.offset(run.start.into()), base.offset(run.end.into()))
            .ok_or(first)?;
        let mut last = first;
        let result = memory.alloc_range(
            range,
            wanted.request().migratetype(),
            &mut |zone, start, end| *moved += self.evacuate_backwards(zone, start..end, retries),
            &mut |stayed| last = block_of(stayed.end().get() - 1),
        );
        result.map_err(|error| match error {
            RangeError::Isolated { at } => block_of(at.get()),
            _ => last,
        })
    }

    /// Moves the pages in some isolated frames to any other frames, pageblock by pageblock from the
    /// last one down. Stops at the first pageblock that keeps pages. The search for a run continues
    /// after it, where pageblocks are already empty. Returns the number of frames whose pages
    /// moved.
    fn evacuate_backwards(
        &mut self,
        zone: ZoneId,
        frames: Range<u32>,
        retries: &mut RetryBudget,
    ) -> u64 {
        let mut all = Evacuated::default();
        for block in pageblocks(frames.start, frames.end).rev() {
            let (first, last) = clip(block, frames.start, frames.end);
            all = all.and_then(self.evacuate_range(zone, first..last, !all.drained_lists, retries));
            if all.left > 0 {
                break;
            }
        }
        all.moved
    }
}

/// The role of isolated pageblocks in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Isolated {
    /// They are obstacles.
    Obstacle,
    /// The caller waits for them, so they are not obstacles.
    WaitedFor,
}

/// The search for a run, zone by zone.
struct RunSearch<'w> {
    wanted: &'w Contiguous,
    /// One budget for all runs, because an obstacle in one run is likely to be in the next one,
    /// too.
    retries: RetryBudget,
    /// Frames that have moved in this zone.
    moved: u64,
    /// Isolated pageblocks are the only obstacle in some run of the zone, so waiting may help.
    waiting_may_help: bool,
}

impl<'w> RunSearch<'w> {
    const fn of(wanted: &'w Contiguous) -> Self {
        Self { wanted, retries: RetryBudget::new(), moved: 0, waiting_may_help: false }
    }

    /// Whether the pages that moved without success are still within their limit.
    const fn may_continue(&self) -> bool {
        self.moved <= MAX_WASTED_RUNS * self.wanted.frames()
    }
}

/// Bounds and alignment of the runs in a zone. Each run begins with a pageblock.
struct Runs {
    /// The zone's first frame.
    base: u64,
    frames: u32,
    /// Alignment of the first frame of a run, in frames.
    align: u64,
    /// The bounds of all runs, as frames of the zone.
    low: u32,
    high: u32,
}

impl Runs {
    fn of<P: Platform>(zone: &Zone<'_, P>, wanted: &Contiguous) -> Option<Self> {
        let (low, high) = match wanted.bounds() {
            Some(range) => zone.clip(range)?,
            None => (0, zone.spanned() as u32),
        };
        let frames = u32::try_from(wanted.frames()).ok()?;
        let align = wanted.align().max(Order::PAGEBLOCK).frames();
        Some(Self { base: zone.base().get(), frames, align, low, high })
    }

    /// The first run that begins at or after a frame.
    fn from(&self, start: u32) -> Option<Range<u32>> {
        let aligned = (self.base + u64::from(start)).next_multiple_of(self.align);
        let start = u32::try_from(aligned - self.base).ok()?;
        let end = start.checked_add(self.frames).filter(|&end| end <= self.high)?;
        Some(start..end)
    }
}
