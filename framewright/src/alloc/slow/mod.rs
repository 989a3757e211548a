//! The slow path: allocation after the lists of the CPU and their zone had no block.
//!
//! 1. The zones that the request can use are walked above their low watermarks. Refills happen
//!    here.
//! 2. Background reclaim is woken, once per node, and the zones are walked above the min watermark,
//!    or below it as far as urgency allows ([`Request::urgent`], [`Request::atomic`]). A request
//!    that finds no huge page makes its zone keep a huge-page reserve (`zone/huge_reserve.rs`).
//! 3. Reclaim rarely helps requests of costly orders, and of higher orders that are not movable.
//!    These requests begin with a short round of compaction.
//! 4. Some requests may use more of the reserve now: those of tasks that free memory, and of tasks
//!    that the OOM killer has chosen. Requests that cannot wait, or that come from inside
//!    [`Relief`], end here.
//! 5. Reclaim. If reclaim freed frames but other requests took them, a pageblock of the high-atomic
//!    reserve is released. Then the lists of all CPUs are drained; without progress, they are
//!    drained only once. Then compaction. The zones are walked after each.
//! 6. [`retry`] decides whether another round from step 2 on can help. If not, and the
//!    high-atomic reserve has a pageblock left to release, there is another round.
//!    Else the huge-page reserve is released and the embedder is [asked for a verdict](verdict).
//!    Requests that fail without a verdict try the huge-page reserve before they fail, unless they
//!    try only once.
//! 7. A request that never fails may use half of the reserve. If that does not serve it, it waits
//!    through the wait hook and continues with step 2.
//!
//! The number of rounds up to a verdict is bounded. Rounds without progress are counted, and so are
//! rounds whose reclaimed frames other requests took. So a [`Relief`] with false claims of progress
//! cannot keep a request here. Compaction is repeated a bounded number of times, at rising
//! priority.
//!
//! Zones change under the walk when memory is added or removed. The generation of the memory is
//! read before the first walk, and compared before every round and before the request fails. If it
//! has changed, the request starts again.
//!
//! In *defragmenting mode*, a request that may call [`Relief`] first tries a round of reclaim and
//! compaction. Before that round, the request uses a pageblock of another type only if it claims
//! the whole pageblock. The round forms a pageblock even for a single frame, and background reclaim
//! is woken for whole pageblocks.
//!
//! A node mask and [`Request::this_node`] are never ignored: for their caller, memory on other
//! nodes is of no use.

mod retry;
mod verdict;
mod walk;

use super::held_frames::{Capture, KeptForCpu};
use crate::{
    core::{Candidates, Claim, MemoryCore, SlowPathState},
    pcp::ZoneOnCpu,
    platform::{CompactPriority, Compacted, MOVES_PER_DRAIN, Need, Platform, Relief, Wait},
    types::{AllocError, MigrateType, Order, Pfn, Request, ZoneId},
    zone::{AllocFlags, LastReserved, ZoneAccess},
};

use walk::walk;
pub(super) use walk::{count_miss, reserve, take, wake};

/// The minimum number of frames that one round of reclaim is asked for.
const RECLAIM_FRAMES: u64 = 32;

/// Allocates a block and returns its first frame.
pub(super) fn alloc<'a, 'm, P: Platform>(
    claim: &mut Claim<'a, 'm, P>,
    state: &'a dyn SlowPathState,
    request: Request,
) -> Result<Pfn, AllocError> {
    if !request.migratetype().is_requestable() {
        return Err(AllocError::NotRequestable(request.migratetype()));
    }
    let memory = claim.memory();
    let generation = memory.generation();
    let zones = memory.candidate_zones(claim.cpu(), request);
    match walk(claim, &zones, request, first_access(memory, request)) {
        Ok(pfn) => Ok(pfn),
        Err(error) => alloc_in_rounds(claim, state, request, &zones, generation, error),
    }
}

/// Allocates a block after the first walk failed. Starts again whenever memory was added or removed.
#[cold]
#[inline(never)]
fn alloc_in_rounds<'a, 'm, P: Platform>(
    claim: &mut Claim<'a, 'm, P>,
    state: &'a dyn SlowPathState,
    request: Request,
    zones: &Candidates<'m, P>,
    mut generation: u32,
    error: AllocError,
) -> Result<Pfn, AllocError> {
    let memory = claim.memory();
    let mut totals = Totals { error, rounds: 0, reclaimed: 0, waits: 0 };
    loop {
        let mut slow = Slow::new(claim, state, request, zones, generation, &mut totals)?;
        if let Some(result) = slow.run() {
            return result;
        }
        generation = memory.generation();
    }
}

/// The zone access of the first walk.
pub(super) fn first_access<P: Platform>(
    memory: &MemoryCore<'_, P>,
    request: Request,
) -> ZoneAccess {
    let access = request.first_access();
    if avoids_mixing(memory, request) { unmixed(access) } else { access }
}

/// Whether the request asks for reclaim and compaction before it mixes types in a pageblock.
fn avoids_mixing<P: Platform>(memory: &MemoryCore<'_, P>, request: Request) -> bool {
    memory.tuning().alloc.defrag_mode && request.may_ask_for_relief()
}

fn unmixed(access: ZoneAccess) -> ZoneAccess {
    ZoneAccess { flags: access.flags.with(AllocFlags::NO_FRAGMENT), ..access }
}

/// The end of the attempts: there is nothing left to try, or memory was added or removed.
struct Stop;

/// The counts of a request, and its last error. They outlive a restart.
struct Totals {
    /// The error of the last walk.
    error: AllocError,
    /// Rounds of reclaim and compaction.
    rounds: u32,
    /// Frames that reclaim has freed for the request.
    reclaimed: u64,
    /// Waits between rounds.
    waits: u32,
}

/// A request on the slow path, with its state.
struct Slow<'s, 'a, 'm, P: Platform> {
    claim: &'s mut Claim<'a, 'm, P>,
    memory: &'a MemoryCore<'m, P>,
    relief: &'a dyn Relief,
    state: &'a dyn SlowPathState,
    need: Need,
    /// The zones that the request may use.
    zones: &'s Candidates<'m, P>,
    /// The zone that the request tries first.
    zone: ZoneId,
    preferred: ZoneOnCpu<'a, 'm, P>,
    generation: u32,
    /// The zone access of the current attempt.
    access: ZoneAccess,
    totals: &'s mut Totals,
    /// Whether no round has begun yet.
    is_first_round: bool,
    /// The priority of the next compaction.
    priority: CompactPriority,
    /// The block that compaction forms, and the budget of the request.
    captured: Capture<'s, 'm, P>,
    /// The last round of compaction.
    compacted: Option<(CompactPriority, Compacted)>,
    /// Rounds after successful compaction since the priority was last raised.
    compaction_retries: u32,
    /// Rounds since the last progress; for costly orders, all rounds.
    rounds_without_progress: u32,
    /// Rounds that freed frames without serving the request, since the last reset of the counts.
    rounds_with_progress: u32,
    /// Whether the last round of reclaim freed any frames.
    progressed: bool,
    /// Whether the lists of all CPUs were drained.
    drained: bool,
}

impl<'s, 'a, 'm, P: Platform> Slow<'s, 'a, 'm, P> {
    /// The state of a request after a walk in this generation of the memory failed.
    fn new(
        claim: &'s mut Claim<'a, 'm, P>,
        state: &'a dyn SlowPathState,
        request: Request,
        zones: &'s Candidates<'m, P>,
        generation: u32,
        totals: &'s mut Totals,
    ) -> Result<Self, AllocError> {
        let (memory, cpu) = (claim.memory(), claim.cpu());
        let zone = zones.clone().next().ok_or(AllocError::NoZone)?;
        let node = request.node().unwrap_or_else(|| memory.node_of(cpu));
        Ok(Self {
            claim,
            memory,
            relief: memory.platform().relief(),
            state,
            need: Need { request, cpu, node, unmixed: avoids_mixing(memory, request) },
            zones,
            zone,
            preferred: memory.context(zone, cpu),
            generation,
            access: request.slow_access(),
            totals,
            is_first_round: true,
            priority: CompactPriority::SyncLight,
            captured: Capture::new(memory, request.order()),
            compacted: None,
            compaction_retries: 0,
            rounds_without_progress: 0,
            rounds_with_progress: 0,
            progressed: false,
            drained: false,
        })
    }

    /// The result of the request; `None` if it has to start again, because memory was added or removed.
    fn run(&mut self) -> Option<Result<Pfn, AllocError>> {
        // A request that starts again has waited, and was counted before.
        if self.totals.waits == 0 {
            self.preferred.pages.counters.slow_paths.add(1);
        }
        loop {
            match self.round() {
                Ok(Some(pfn)) => return Some(Ok(pfn)),
                Ok(None) => {}
                Err(_) if self.has_changed() => {
                    self.pause();
                    return None;
                }
                Err(_) if self.need.request.never_fails() => {
                    if let Some(pfn) = self.walk(self.need.request.no_fail_access()) {
                        return Some(Ok(pfn));
                    }
                    self.reset_retries();
                }
                Err(_) => {
                    if let Some(pfn) = self.take_from_huge_reserve() {
                        return Some(Ok(pfn));
                    }
                    self.preferred.pages.counters.failures.add(1);
                    return Some(Err(self.final_error()));
                }
            }
            self.pause();
        }
    }

    /// Takes from the huge-page reserve, so that no request that tries more than once fails because
    /// of the reserve.
    fn take_from_huge_reserve(&mut self) -> Option<Pfn> {
        let request = self.need.request;
        let mut zones = self.candidates();
        if request.has_one_round() || !zones.any(|(_, at)| at.zone.huge_reserve() > 0) {
            return None;
        }
        let error = self.totals.error;
        let flags = self.access.flags.with(AllocFlags::HUGE_RESERVE);
        let served = self.walk(ZoneAccess { flags, ..self.access });
        self.totals.error = error;
        served
    }

    /// Steps 2 to 6. `Ok(None)` asks for another round.
    fn round(&mut self) -> Result<Option<Pfn>, Stop> {
        self.check_unchanged()?;
        wake(self.memory, self.zones, self.need.request);
        if let Some(pfn) = self.try_reserves()? {
            return Ok(Some(pfn));
        }
        if !self.need.request.may_ask_for_relief() {
            return Err(Stop);
        }
        self.totals.rounds = self.totals.rounds.saturating_add(1);
        if let Some(pfn) = self.reclaim() {
            return Ok(Some(pfn));
        }
        if let Some(pfn) = self.compact() {
            return Ok(Some(pfn));
        }
        // All other means were tried once.
        if core::mem::take(&mut self.need.unmixed)
            && let Some(pfn) = self.walk(self.access)
        {
            return Ok(Some(pfn));
        }
        self.decide_retry()
    }

    /// Steps 2 to 4.
    fn try_reserves(&mut self) -> Result<Option<Pfn>, Stop> {
        let last = self.need.request.last_access();
        if self.is_first_round {
            self.is_first_round = false;
            self.claim.end_quarantine();
            if let Some(pfn) = self.walk(self.access) {
                return Ok(Some(pfn));
            }
            self.report_missing_huge_page();
            if let Some(pfn) = self.compact_early()? {
                return Ok(Some(pfn));
            }
            if last == self.access {
                return Ok(None);
            }
        }
        self.access = last;
        Ok(self.walk(last))
    }

    /// Makes the zone keep a huge-page reserve, if the request is for a huge page.
    fn report_missing_huge_page(&self) {
        let request = self.need.request;
        let asks = request.order() == Order::PAGEBLOCK && request.may_wake();
        // Without background reclaim, nothing would fill or release the reserve. If
        // compaction cannot form a pageblock from the present free frames, more free frames do not
        // help.
        let zone = self.preferred.zone;
        let is_in_vain =
            || zone.exceeds_huge_reserve() && self.state.huge_reserve_is_deferred(self.zone);
        if asks && self.relief.reclaims_in_background() && !is_in_vain() {
            zone.huge_page_missed(self.preferred.platform);
        }
    }

    /// Step 3: compaction before reclaim.
    fn compact_early(&mut self) -> Result<Option<Pfn>, Stop> {
        let request = self.need.request;
        let helps = request.is_costly() || request.migratetype() != MigrateType::Movable;
        if !helps || request.ignores_watermarks() || !self.may_compact() {
            return Ok(None);
        }
        let served = self.compact_at(CompactPriority::Async);
        if served.is_none() && request.is_costly() && request.has_one_round() {
            match self.compacted {
                Some((_, Compacted::Unavailable)) => {}
                // Compaction needs reclaim first, and a block of this size needs much of it.
                Some((_, Compacted::Skipped | Compacted::Deferred)) => return Err(Stop),
                _ if request.wants_one_node() => return Err(Stop),
                _ => self.priority = CompactPriority::Async,
            }
        }
        Ok(served)
    }

    /// Step 5, first half: reclaim and draining.
    fn reclaim(&mut self) -> Option<Pfn> {
        // Compaction, if there is any, forms costly blocks. Reclaim then only provides free frames
        // for it, and only if enough of the budget is left to use them.
        let is_for_compaction = self.is_for_compaction();
        let request = self.need.request;
        if is_for_compaction
            && !self.captured.handle().has_plenty_left()
            && !request.may_fail_after_retries()
        {
            self.progressed = false;
            return None;
        }
        self.preferred.pages.counters.allocstall.add(1);
        let block = if is_for_compaction { 0 } else { request.order().frames() };
        let wanted = block.max(RECLAIM_FRAMES);
        let freed = self.reclaim_keeping(|need, relief| relief.reclaim(need, wanted));
        // Scanning, unmapping and flushing take about as long per freed page as moving a page.
        self.captured.handle().spend(freed);
        self.progressed = freed > 0;
        self.totals.reclaimed = self.totals.reclaimed.saturating_add(freed);
        if self.progressed
            && let Some(pfn) = self.walk(self.access)
        {
            return Some(pfn);
        }
        // Without progress the lists are drained once, so that no request fails while lists are
        // full of free frames. Further rounds without progress do not disturb the lists.
        if self.progressed {
            self.unreserve(LastReserved::Stays);
        } else if self.drained {
            return None;
        }
        self.drained = true;
        self.drain_all_lists();
        self.walk(self.access)
    }

    /// Whether compaction is to form the block, instead of reclaim.
    fn is_for_compaction(&self) -> bool {
        self.need.request.is_costly() && self.has_compaction()
    }

    /// Drains the lists of all CPUs. If compaction is to form the block, the lists are drained only
    /// if the budget allows, and only once per request; compaction may have drained them already.
    #[inline(never)]
    fn drain_all_lists(&mut self) {
        if self.is_for_compaction() {
            let captured = self.captured.handle();
            if captured.has_drained() || captured.left() < MOVES_PER_DRAIN {
                return;
            }
            captured.charge_drain();
        }
        self.memory.drain_all();
    }

    /// Reclaims, and keeps some of the frames for the lists of this CPU if the request is for a
    /// single movable frame, like most requests. Other requests need the blocks into which frames
    /// merge in the zone.
    fn reclaim_keeping(&mut self, reclaim: impl FnOnce(&Need, &dyn Relief) -> u64) -> u64 {
        let request = self.need.request;
        let common =
            request.order() == Order::ZERO && request.migratetype() == MigrateType::Movable;
        if !common || !self.preferred.has_lists() {
            return reclaim(&self.need, self.relief);
        }
        let _kept = KeptForCpu::begin(self.claim, self.state);
        reclaim(&self.need, self.relief)
    }

    /// Step 5, second half: compaction.
    fn compact(&mut self) -> Option<Pfn> {
        if self.may_compact() { self.compact_at(self.priority) } else { None }
    }

    /// Whether compaction may be asked for this request. With `unmixed` it may be asked even for
    /// single frames: it then forms a pageblock, so that types are not mixed.
    fn may_compact(&self) -> bool {
        let Need { request, unmixed, .. } = self.need;
        let helps = request.order() > Order::ZERO || unmixed;
        helps && request.may_ask_for_relief() && request.may_io()
    }

    fn compact_at(&mut self, priority: CompactPriority) -> Option<Pfn> {
        let result = self.relief.compact(&self.need, priority, self.captured.handle());
        self.compacted = Some((priority, result));
        let captured = self.captured.take().map(|block| block.into_raw().0);
        // A round that was refused because of earlier failures counts as a failed one.
        let counts = !matches!(result, Compacted::Unavailable | Compacted::Skipped);
        if !counts && captured.is_none() {
            return None;
        }
        let walks = result != Compacted::Deferred;
        let served = captured.or_else(|| if walks { self.walk(self.access) } else { None });
        if let Some(pfn) = served {
            self.state.compaction_helped(pfn, self.need.request.order());
        }
        let counters = &self.preferred.pages.counters;
        counters.compact_stall.add(1);
        let outcome =
            if served.is_some() { &counters.compact_success } else { &counters.compact_fail };
        outcome.add(1);
        served
    }

    #[inline(never)]
    fn walk(&mut self, access: ZoneAccess) -> Option<Pfn> {
        let access = if self.need.unmixed { unmixed(access) } else { access };
        match walk(self.claim, self.zones, self.need.request, access) {
            Ok(pfn) => Some(pfn),
            Err(error) => {
                self.totals.error = error;
                None
            }
        }
    }

    /// The zones that the request may use, best first, with the CPU's lists for each.
    fn candidates(&self) -> impl Iterator<Item = (ZoneId, ZoneOnCpu<'a, 'm, P>)> + use<'a, 'm, P> {
        let (memory, cpu) = (self.memory, self.need.cpu);
        self.zones.clone().map(move |id| (id, memory.context(id, cpu)))
    }

    fn has_changed(&self) -> bool {
        self.memory.generation() != self.generation
    }

    fn check_unchanged(&self) -> Result<(), Stop> {
        if self.has_changed() { Err(Stop) } else { Ok(()) }
    }

    /// Resets the retry counters, after an event outside this request that may have freed memory.
    fn reset_retries(&mut self) {
        (self.rounds_without_progress, self.rounds_with_progress, self.drained) = (0, 0, false);
        self.captured.handle().renew();
    }

    /// Lets other tasks run.
    fn pause(&mut self) {
        self.memory.platform().wait(Wait::Memory, self.totals.waits);
        self.totals.waits = self.totals.waits.saturating_add(1);
    }

    /// The error of the request, with the number of rounds.
    fn final_error(&self) -> AllocError {
        self.totals.error.after(u16::try_from(self.totals.rounds).unwrap_or(u16::MAX))
    }
}
