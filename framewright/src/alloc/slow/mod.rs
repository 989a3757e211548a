//! The slow path: what to do when the lists of the CPU and the zone behind them had nothing.
//!
//! 1. A walk of the zones that the request can use, above their low watermarks. Refills happen
//!    here.
//! 2. Background reclaim is woken, once per node, and the zones are walked above the min
//!    watermark, or as deep as urgency entitles to ([`Request::urgent`], [`Request::atomic`]).
//!    Who finds no huge page has some kept ready (`zone/stock.rs`) from now on.
//! 3. Requests that reclaim rarely helps (costly orders, and higher orders that cannot be moved
//!    about) begin with a short round of compaction.
//! 4. Who has a right to more of the reserve uses it: who frees memory, who was told to end.
//!    Requests that cannot wait, or come from inside relief, end here.
//! 5. Reclaim; if it freed something but others took it, a pageblock of the high-atomic reserve
//!    is given up; then, or the first time, everything that all CPUs hold comes home. Then
//!    compaction. After each the zones are walked.
//! 6. [`retry`] decides whether another round from 2 on has a point. If not, what is left of the
//!    [reserve](highatomic) makes one; else the embedder [judges](verdict), once nothing is kept ready for
//!    huge pages any more. Who fails without that looks there, too, unless he tries once only.
//! 7. A request that never fails may use half of the reserve; then it waits through the wait
//!    hook, and goes on with 2.
//!
//! The number of rounds is bounded. Rounds without progress are counted. Rounds whose frames others take are
//! counted as well, so that a [`Relief`] that only claims progress cannot keep a request here. Compaction is
//! repeated a bounded number of times, at rising priority.
//!
//! When memory comes or goes, zones change under the walk. Its generation is read before the
//! first walk and compared before every round and before giving up; if it has changed the request
//! starts anew.
//!
//! In *defragmenting mode* no walk of a request that may ask for relief takes from pageblocks of
//! another type, unless it claims a whole one, before a round of reclaim and compaction was tried, which
//! is to form one also for a single frame; and the background is woken for whole pageblocks.
//!
//! A node mask and [`Request::this_node`] bind to the end: who gave them knows of no memory
//! elsewhere that would do.

mod highatomic;
mod retry;
mod verdict;
mod walk;

use super::{
    AllocError, MigrateType, Request,
    in_hand::{Capture, Keeping},
};
use crate::{
    frame::{Order, Pfn},
    memory::{Claim, Memory},
    pcp::Cpu,
    platform::{CompactPriority, Compacted, MOVES_PER_DRAIN, Need, Platform, Relief, Wait},
    zone::{Access, Rights, ZoneId},
};

pub(super) use highatomic::reserve;
pub(crate) use verdict::Judge;
use walk::walk;
pub(super) use walk::{count_miss, take, wake};

/// Frames that one round of reclaim is asked for, at least.
const RECLAIM_FRAMES: u64 = 32;

/// Allocates a block and names its first frame.
pub(super) fn alloc<P: Platform>(
    claim: &mut Claim<'_, '_, P>,
    request: Request,
) -> Result<Pfn, AllocError> {
    if !request.migratetype().is_requestable() {
        return Err(AllocError::NotRequestable(request.migratetype()));
    }
    let memory = claim.memory();
    let generation = memory.generation();
    match walk(claim, request, first_access(memory, request)) {
        Ok(pfn) => Ok(pfn),
        Err(error) => Slow::new(claim, request, generation, error)?.run(),
    }
}

/// What a request may take at first.
pub(super) fn first_access<P: Platform>(memory: &Memory<'_, P>, request: Request) -> Access {
    let access = request.first_access();
    if avoids_mixing(memory, request) { unmixed(access) } else { access }
}

/// Whether relief comes before types are mixed in a pageblock.
fn avoids_mixing<P: Platform>(memory: &Memory<'_, P>, request: Request) -> bool {
    memory.tuning().alloc.defrag_mode && request.may_ask_for_relief()
}

fn unmixed(access: Access) -> Access {
    Access { rights: access.rights.with(Rights::UNMIXED), ..access }
}

/// Why a round did not end with another.
enum Stop {
    /// There is nothing left to try.
    Failed,
    /// Memory came or went: what is known of zones is out of date.
    Changed,
}

/// A request on the slow path, and what it has been through.
struct Slow<'s, 'a, 'm, P: Platform> {
    claim: &'s mut Claim<'a, 'm, P>,
    memory: &'a Memory<'m, P>,
    relief: &'a dyn Relief,
    need: Need,
    /// The zone it tries first.
    zone: ZoneId,
    preferred: Cpu<'a, 'm, P>,
    generation: u32,
    /// What it may take by now.
    access: Access,
    /// Why the last walk found nothing.
    error: AllocError,
    /// Whether its first round is yet to come.
    is_fresh: bool,
    /// How hard compaction is to try next.
    priority: CompactPriority,
    /// What compaction forms, and what was waited for.
    captured: Capture<'s, 'm, P>,
    /// The last round of compaction.
    compacted: Option<(CompactPriority, Compacted)>,
    /// Rounds after successful compaction since the priority was raised last.
    compaction_retries: u32,
    /// Rounds since the last progress.
    idle: u32,
    /// Consecutive rounds that freed something and did not serve the request.
    unserved: u32,
    /// Whether the last round of reclaim freed anything.
    progressed: bool,
    reclaimed: u64,
    /// Rounds of relief.
    rounds: u32,
    /// Whether what CPUs hold was brought home.
    drained: bool,
    waits: u32,
}

impl<'s, 'a, 'm, P: Platform> Slow<'s, 'a, 'm, P> {
    /// A request that failed its first walk with `error`.
    fn new(
        claim: &'s mut Claim<'a, 'm, P>,
        request: Request,
        generation: u32,
        error: AllocError,
    ) -> Result<Self, AllocError> {
        let (memory, cpu) = (claim.memory(), claim.cpu());
        let first = memory.candidates(cpu, request).next();
        let (zone, preferred) = first.ok_or(AllocError::NoZone)?;
        let node = request.node().unwrap_or_else(|| memory.node_of(cpu));
        Ok(Self {
            claim,
            memory,
            relief: memory.platform().relief(),
            need: Need { request, cpu, node, unmixed: avoids_mixing(memory, request) },
            zone,
            preferred,
            generation,
            access: request.slow_access(),
            error,
            is_fresh: true,
            priority: CompactPriority::SyncLight,
            captured: Capture::new(memory, request.order()),
            compacted: None,
            compaction_retries: 0,
            idle: 0,
            unserved: 0,
            progressed: false,
            reclaimed: 0,
            rounds: 0,
            drained: false,
            waits: 0,
        })
    }

    fn run(mut self) -> Result<Pfn, AllocError> {
        self.preferred.pages.counters.slow_paths.add(1);
        loop {
            match self.round() {
                Ok(Some(pfn)) => return Ok(pfn),
                Ok(None) => {}
                Err(Stop::Changed) => self = self.start_anew()?,
                Err(Stop::Failed) if self.has_changed() => self = self.start_anew()?,
                Err(Stop::Failed) if self.need.request.never_fails() => {
                    if let Some(pfn) = self.walk(self.need.request.no_fail_access()) {
                        return Ok(pfn);
                    }
                    self.take_heart();
                }
                Err(Stop::Failed) => {
                    if let Some(pfn) = self.take_of_stock() {
                        return Ok(pfn);
                    }
                    self.preferred.pages.counters.failures.add(1);
                    return Err(self.final_error());
                }
            }
            self.pause();
        }
    }

    /// Nobody who tries more than once fails for what is kept ready for huge pages.
    fn take_of_stock(&mut self) -> Option<Pfn> {
        let request = self.need.request;
        let mut zones = self.memory.candidates(self.need.cpu, request);
        if request.tries_once() || !zones.any(|(_, at)| at.zone.stock() > 0) {
            return None;
        }
        let error = self.error;
        let rights = self.access.rights.with(Rights::STOCK);
        let served = self.walk(Access { rights, ..self.access });
        self.error = error;
        served
    }

    /// Steps 2 to 6. Neither a frame nor an error asks for another round.
    fn round(&mut self) -> Result<Option<Pfn>, Stop> {
        self.check_unchanged()?;
        wake(self.memory, self.need.cpu, self.need.request);
        if let Some(pfn) = self.dip_into_reserves()? {
            return Ok(Some(pfn));
        }
        if !self.need.request.may_ask_for_relief() {
            return Err(Stop::Failed);
        }
        self.rounds = self.rounds.saturating_add(1);
        if let Some(pfn) = self.reclaim() {
            return Ok(Some(pfn));
        }
        if let Some(pfn) = self.compact() {
            return Ok(Some(pfn));
        }
        // Everything else was tried once.
        if core::mem::take(&mut self.need.unmixed)
            && let Some(pfn) = self.walk(self.access)
        {
            return Ok(Some(pfn));
        }
        self.go_on()
    }

    /// Steps 2 to 4.
    fn dip_into_reserves(&mut self) -> Result<Option<Pfn>, Stop> {
        let last = self.need.request.last_access();
        if self.is_fresh {
            self.is_fresh = false;
            self.claim.end_quarantine();
            if let Some(pfn) = self.walk(self.access) {
                return Ok(Some(pfn));
            }
            self.tell_of_lack();
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

    /// Has huge pages kept ready from now on, if that is what is missing.
    fn tell_of_lack(&self) {
        let request = self.need.request;
        let asks = request.order() == Order::PAGEBLOCK && request.may_wake();
        // Nobody else would make room, or take the stock down again. Where there is room, and nothing forms
        // of it, more of it is no use.
        let zone = self.preferred.zone;
        let in_vain =
            || zone.has_room_for_stock() && self.memory.huge_reserve_is_deferred(self.zone);
        if asks && self.relief.reclaims_in_background() && !in_vain() {
            zone.lacks_huge(self.preferred.platform);
        }
    }

    /// Step 3.
    fn compact_early(&mut self) -> Result<Option<Pfn>, Stop> {
        let request = self.need.request;
        let helps = request.is_costly() || request.migratetype() != MigrateType::Movable;
        if !helps || request.ignores_watermarks() || !self.may_compact() {
            return Ok(None);
        }
        let served = self.compact_at(CompactPriority::Async);
        if served.is_none() && request.is_costly() && request.tries_once() {
            match self.compacted {
                Some((_, Compacted::Unavailable)) => {}
                // It would take reclaim, and for a block that size much of it.
                Some((_, Compacted::Skipped | Compacted::Deferred)) => return Err(Stop::Failed),
                _ if request.wants_one_node() => return Err(Stop::Failed),
                _ => self.priority = CompactPriority::Async,
            }
        }
        Ok(served)
    }

    /// Step 5, first half.
    fn reclaim(&mut self) -> Option<Pfn> {
        // A costly block is for compaction to form, where there is compaction: reclaim makes room, if there is
        // time left to use it.
        let leaves_forming = self.leaves_forming();
        let request = self.need.request;
        if leaves_forming && !self.captured.handle().has_plenty_left() && !request.may_fail_late() {
            self.progressed = false;
            return None;
        }
        self.preferred.pages.counters.allocstall.add(1);
        let block = if leaves_forming { 0 } else { request.order().frames() };
        let wanted = block.max(RECLAIM_FRAMES);
        let freed = self.keeping(|need, relief| relief.reclaim(need, wanted));
        // To look at pages, unmap them and flush takes about as long for each that it frees as to move it.
        self.captured.handle().spend(freed);
        self.progressed = freed > 0;
        self.reclaimed = self.reclaimed.saturating_add(freed);
        if self.progressed
            && let Some(pfn) = self.walk(self.access)
        {
            return Some(pfn);
        }
        // Without progress it is done once: no request fails while lists are full of free frames,
        // but rounds that achieve nothing leave the lists in peace.
        if self.progressed {
            self.unreserve(false);
        } else if self.drained {
            return None;
        }
        self.drained = true;
        self.bring_home();
        self.walk(self.access)
    }

    /// Whether the block is for compaction to form.
    fn leaves_forming(&self) -> bool {
        self.need.request.is_costly() && self.has_compaction()
    }

    /// What all CPUs hold comes home: once for whoever has compaction form a block, which may have
    /// done it already, and if there is time left for that.
    fn bring_home(&mut self) {
        if self.leaves_forming() {
            let captured = self.captured.handle();
            if captured.is_home() || captured.left() < MOVES_PER_DRAIN {
                return;
            }
            captured.bring_home();
        }
        self.memory.drain_all();
    }

    /// Reclaims with some of the frames kept from others, for the lists of the CPU. They serve
    /// requests like most of those that come; others are better off with what the zone makes of them.
    fn keeping(&mut self, reclaim: impl FnOnce(&Need, &dyn Relief) -> u64) -> u64 {
        let request = self.need.request;
        let common =
            request.order() == Order::ZERO && request.migratetype() == MigrateType::Movable;
        if !common || !self.preferred.has_lists() {
            return reclaim(&self.need, self.relief);
        }
        let _kept = Keeping::begin(self.claim);
        reclaim(&self.need, self.relief)
    }

    /// Step 5, second half.
    fn compact(&mut self) -> Option<Pfn> {
        if self.may_compact() { self.compact_at(self.priority) } else { None }
    }

    /// Whether compaction may be asked, for this order and by this request: for a single frame, so that a
    /// pageblock forms that it does not have to be mixed into.
    fn may_compact(&self) -> bool {
        let Need { request, unmixed, .. } = self.need;
        let helps = request.order() > Order::ZERO || unmixed;
        helps && request.may_ask_for_relief() && request.may_io()
    }

    fn compact_at(&mut self, priority: CompactPriority) -> Option<Pfn> {
        let result = self.relief.compact(&self.need, priority, self.captured.handle());
        self.compacted = Some((priority, result));
        let captured = self.captured.take().map(|block| block.into_raw().0);
        // A round that was refused for earlier failures counts as one that failed.
        let counts = !matches!(result, Compacted::Unavailable | Compacted::Skipped);
        if !counts && captured.is_none() {
            return None;
        }
        let walks = result != Compacted::Deferred;
        let served = captured.or_else(|| if walks { self.walk(self.access) } else { None });
        if let Some(pfn) = served {
            self.memory.compaction_helped(pfn, self.need.request.order());
        }
        let counters = &self.preferred.pages.counters;
        counters.compact_stall.add(1);
        let outcome =
            if served.is_some() { &counters.compact_success } else { &counters.compact_fail };
        outcome.add(1);
        served
    }

    fn walk(&mut self, access: Access) -> Option<Pfn> {
        let access = if self.need.unmixed { unmixed(access) } else { access };
        match walk(self.claim, self.need.request, access) {
            Ok(pfn) => Some(pfn),
            Err(error) => {
                self.error = error;
                None
            }
        }
    }

    fn has_changed(&self) -> bool {
        self.memory.generation() != self.generation
    }

    fn check_unchanged(&self) -> Result<(), Stop> {
        if self.has_changed() { Err(Stop::Changed) } else { Ok(()) }
    }

    /// Forgets what it has been through, but for what it tells of it in the end.
    fn start_anew(self) -> Result<Self, AllocError> {
        let Self { claim, memory, need, error, rounds, reclaimed, waits, .. } = self;
        let fresh = Self::new(claim, need.request, memory.generation(), error)?;
        Ok(Self { rounds, reclaimed, waits, ..fresh })
    }

    /// After something happened outside that may have freed memory: begins to count anew.
    fn take_heart(&mut self) {
        (self.idle, self.unserved, self.drained) = (0, 0, false);
        self.captured.handle().renew();
    }

    /// Lets others have a turn.
    fn pause(&mut self) {
        self.memory.platform().wait(Wait::Memory, self.waits);
        self.waits = self.waits.saturating_add(1);
    }

    /// Why it fails, with what it has waited for.
    fn final_error(&self) -> AllocError {
        self.error.after(u16::try_from(self.rounds).unwrap_or(u16::MAX))
    }
}
