//! Contiguous runs, wherever there is one, or one can be made: what is in the way moves elsewhere, a
//! pageblock at a time. What headers tell will not move is passed over; what else does not is found out by
//! trying.
//!
//! What is withheld is passed over as well, and waited for, [in the end](super::patience), if nothing else is
//! in the way of some run.

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

/// Pages that may move in vain before a contiguous request gives up on a zone: as many as fill so many of
/// the runs that are wanted.
const MAX_WASTED_RUNS: u64 = 4;

impl<'m, P: Platform> Compactor<'_, 'm, P> {
    /// As [`Memory::alloc_contiguous`](crate::Memory::alloc_contiguous), but moves what is in the way
    /// where no run of free frames is long enough.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotFound`] if no run can be emptied either without touching the reserve, or if
    /// much has moved in vain: pages as many as several such runs hold, in each zone.
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

    /// Takes a run of pageblocks of a zone that hold movable frames only. Which of these do not move
    /// turns out when they are tried; then the search goes on behind them.
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
            let obstacle = match self.last_obstacle(id, run, search.wanted.request(), false) {
                Some(block) => block,
                None => match self.clear_run(id, run, search) {
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

    /// Whether a pageblock in the way of a run is withheld, and nothing else is in the way there, or in the
    /// way of another run that holds it and begins later.
    fn only_isolation_blocks(
        &self,
        id: ZoneId,
        runs: &Runs,
        mut run: (u32, u32),
        request: Request,
        block: u32,
    ) -> bool {
        let (first, end) = (block << PAGEBLOCK_ORDER, (block + 1) << PAGEBLOCK_ORDER);
        if !self.zone_context(id).on_cpu.zone.has_isolated(first, end) {
            return false;
        }
        while let Some(other) = self.last_obstacle(id, run, request, true) {
            match runs.from((other + 1) << PAGEBLOCK_ORDER) {
                Some(next) if next.0 <= first => run = next,
                _ => return false,
            }
        }
        true
    }

    /// The last pageblock between two frames that holds what will not move, or from which on so much is free
    /// that the reserve would be touched by who takes it: the next run may begin behind it. So is one that
    /// is withheld, unless somebody is ready to wait for it.
    fn last_obstacle(
        &self,
        id: ZoneId,
        (start, end): (u32, u32),
        request: Request,
        waits: bool,
    ) -> Option<u32> {
        let ctx = self.zone_context(id);
        let allowed = ctx.on_cpu.zone.allowed(request.last_access());
        let mut free = 0;
        for block in pageblocks(start, end).rev() {
            let (held, (first, last)) = (contents(ctx, block), clip(block, start, end));
            if held.pinned > 0 {
                return Some(block);
            }
            if waits && ctx.on_cpu.zone.has_isolated(first, last) {
                // What is free in it adds to the reserve as much as it takes, when it comes.
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

    /// Empties frames `start` to `end` and takes them. If something has stayed: the last pageblock that holds
    /// some of it.
    fn clear_run(
        &mut self,
        id: ZoneId,
        (start, end): (u32, u32),
        search: &mut RunSearch<'_>,
    ) -> Result<Extent<'m>, u32> {
        let RunSearch { wanted, retries, moved, .. } = search;
        let (memory, base) = (self.memory, self.zone_context(id).on_cpu.zone.base());
        let first = start >> PAGEBLOCK_ORDER;
        let block_of = |pfn: u64| ((pfn - base.get()) >> PAGEBLOCK_ORDER) as u32;
        let range =
            FrameRange::new(base.offset(start.into()), base.offset(end.into())).ok_or(first)?;
        let mut last = first;
        let result = memory.alloc_range_clearing(
            range,
            wanted.request().migratetype(),
            &mut |zone, start, end| *moved += self.clear_backwards(zone, (start, end), retries),
            &mut |stayed| last = block_of(stayed.end().get() - 1),
        );
        result.map_err(|error| match error {
            RangeError::Isolated { at } => block_of(at.get()),
            _ => last,
        })
    }

    /// Moves what is in frames `start` to `end`, which are withheld, anywhere else: a pageblock at a time, the
    /// last one first, until something stays in one; how many frames moved. What is empty then lies behind,
    /// where the search for a run goes on: it is not in vain.
    fn clear_backwards(
        &mut self,
        zone: ZoneId,
        (start, end): (u32, u32),
        retries: &mut RetryBudget,
    ) -> u64 {
        let mut all = Evacuated::default();
        for block in pageblocks(start, end).rev() {
            all = all.and_then(self.clear(
                zone,
                clip(block, start, end),
                !all.drained_lists,
                retries,
            ));
            if all.left > 0 {
                break;
            }
        }
        all.moved
    }
}

/// Looking for a run, zone by zone.
struct RunSearch<'w> {
    wanted: &'w Contiguous,
    /// One for all runs: who is in the way in one is so in the next.
    retries: RetryBudget,
    /// Frames that have moved in the zone.
    moved: u64,
    /// There is a run in the zone that nothing is in the way of but what is withheld: to wait may help.
    waiting_may_help: bool,
}

impl<'w> RunSearch<'w> {
    const fn of(wanted: &'w Contiguous) -> Self {
        Self { wanted, retries: RetryBudget::new(), moved: 0, waiting_may_help: false }
    }

    /// Whether not too much has moved in vain.
    const fn may_continue(&self) -> bool {
        self.moved <= MAX_WASTED_RUNS * self.wanted.frames()
    }
}

/// Where in a zone runs may lie that begin with a pageblock.
struct Runs {
    /// The zone's first frame.
    base: u64,
    frames: u32,
    /// Of the first frame of a run.
    align: u64,
    /// The bounds of all of them, in the zone.
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

    /// The first one that begins at or behind a frame.
    fn from(&self, start: u32) -> Option<(u32, u32)> {
        let aligned = (self.base + u64::from(start)).next_multiple_of(self.align);
        let start = u32::try_from(aligned - self.base).ok()?;
        let end = start.checked_add(self.frames).filter(|&end| end <= self.high)?;
        Some((start, end))
    }
}
