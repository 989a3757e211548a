//! Background reclaim of a node, which the embedder runs on a thread or a CPU.
//!
//! ```text
//!              woken                       balanced, or hopeless
//!   asleep ───────────► working ───────────────────────────────► delayed
//!     ▲                    ▲          (a part of it per step)       │
//!     │                    └─────── woken, or short again ──────────┤
//!     └───────────────────────────── still balanced ────────────────┘
//! ```
//!
//! Background reclaim is woken when a request finds the zones of the node below the *low*
//! watermark, and works until one of them is above *high*. So the frames between the two can be
//! allocated before it is woken again. A node on which it has failed for a number of rounds in a
//! row is *hopeless*. Until other code reclaims pages of such a node, its background reclaim is not
//! woken, because it would only cost CPU time.
//!
//! The huge-page reserve of a zone raises its watermarks. The start of each round shrinks the
//! reserve if no huge page has been requested for some time. A round that reclaims nothing, and
//! after which no zone is above *high*, sets the reserve to 0.
//!
//! A round for boosted watermarks frees memory in zones where a fallback mixed migratetypes. The
//! round reclaims as many pages as the boost of the watermarks, writes none, and scans only at high
//! priority numbers. It sweeps as often as necessary, but ends after a sweep that frees nothing. At the end
//! of the round the boost is removed, and compaction should form whole pageblocks in these zones,
//! so that types are not mixed further. The embedder reads this request after each step
//! ([`Kswapd::take_compaction`]).

use crate::{
    alloc::CpuToken,
    observe::NodeStat,
    platform::Platform,
    tlb::BatchSlot,
    types::{CpuId, NodeId, Order, VmscanEvent, Watermark, ZoneKind},
};

use super::{
    Reclaim,
    direct::BATCH_SLOTS,
    kswapd_state::KswapdState,
    retire::{FreeTarget, Retire},
    scan::{Progress, Reclaimer, ScanControl},
    sweep::Sweep,
};

/// The lowest priority number of a round for boosted watermarks, unless the lists are so short that the round begins
/// at a lower number. At this priority a sweep scans a 1024th of each list.
const BOOST_PRIORITY: u32 = 10;

/// The time at which the embedder has to call the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// At once.
    Now,
    /// After [`Kswapd::DELAY`] nanoseconds, or earlier if background reclaim is woken.
    AfterDelay,
    /// When background reclaim is woken.
    WhenWoken,
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "one value per node")]
enum Phase {
    Idle,
    Working(Round),
    Delayed { order: Order, highest: ZoneKind },
}

/// A round in progress.
#[derive(Clone, Copy, Debug)]
struct Round {
    scan: ScanControl,
    /// The boosts at the beginning, by kind of zone.
    boosts: [u64; ZoneKind::COUNT],
    /// Whether the round is only for boosts: without them, a zone is above its *high* watermark.
    for_boost: bool,
    /// Pages that are still to be reclaimed for the boosts.
    boost_left: u64,
    progress: Progress,
    sweep: Option<Sweep>,
}

/// Background reclaim of one node, as a state machine. The embedder calls [`Kswapd::step`] in a
/// loop. [`NextStep`] tells how long it waits between calls.
pub struct Kswapd<'a, 'm, P: Platform> {
    reclaim: Reclaim<'a, 'm, P>,
    node: NodeId,
    phase: Phase,
    /// Compaction should form blocks for huge pages in zones up to this kind.
    /// [`Kswapd::take_compaction`] returns this once.
    to_compact: Option<ZoneKind>,
}

impl<'a, 'm, P: Platform> Reclaim<'a, 'm, P> {
    /// Returns the background reclaim of a node, asleep; `None` if the memory does not have the
    /// node. There must be only one per node.
    #[must_use]
    pub fn kswapd(&self, node: NodeId) -> Option<Kswapd<'a, 'm, P>> {
        let kswapd = Kswapd { reclaim: *self, node, phase: Phase::Idle, to_compact: None };
        self.has_node(node).then_some(kswapd)
    }
}

impl<'a, 'm, P: Platform> Kswapd<'a, 'm, P> {
    /// The delay of [`NextStep::AfterDelay`], in nanoseconds.
    pub const DELAY: u64 = 100_000_000;

    /// The maximum number of pages that one step scans. A step may exceed it by a cluster of each
    /// list.
    pub const STEP: u64 = 256;

    /// The node of this background reclaim.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Does a bounded part of the work ([`Kswapd::STEP`]). Frames go to the lists of the token's
    /// CPU.
    ///
    /// # Panics
    ///
    /// If the token belongs to another memory.
    pub fn step(&mut self, token: &mut CpuToken<'_, 'm, P>) -> NextStep {
        let is_ours = core::ptr::eq(token.memory(), self.reclaim.memory);
        assert!(is_ours, "the token belongs to another memory");
        self.step_with(token.cpu(), FreeTarget::Token(token))
    }

    /// As [`Kswapd::step`], on a CPU whose token is in use by a request that
    /// [pauses](crate::platform::Relief::pause) there. Frames go to the zones.
    pub fn step_on(&mut self, cpu: CpuId) -> NextStep {
        self.step_with(cpu, FreeTarget::Zones(self.reclaim.lru(), cpu))
    }

    fn step_with(&mut self, cpu: CpuId, taker: FreeTarget<'_, '_, 'm, P>) -> NextStep {
        let next = match self.phase {
            Phase::Idle => self.begin(cpu),
            Phase::Working(round) => self.work(round, cpu, taker),
            Phase::Delayed { order, highest } => self.wake_up(cpu, order, highest),
        };
        self.reclaim.resume_for_reserve(self.node);
        next
    }

    /// The order of blocks that should be formed next, and the highest kind of zone for it
    /// ([`Compactor::background`](crate::compact::Compactor::background)). To be called after each
    /// step. Returns a value once, after a round for boosted watermarks.
    pub fn take_compaction(&mut self) -> Option<(Order, ZoneKind)> {
        Some((Order::PAGEBLOCK, self.to_compact.take()?))
    }

    fn kswapd_state(&self) -> &KswapdState {
        &self.reclaim.state.node(self.node).kswapd
    }

    fn begin(&mut self, cpu: CpuId) -> NextStep {
        self.kswapd_state().begin();
        let Some((order, highest)) = self.kswapd_state().take() else {
            return self.sleep(cpu);
        };
        let reclaim = &self.reclaim;
        for zone in reclaim.memory.zones_of(self.node) {
            zone.age_huge_reserve(reclaim.memory.platform());
        }
        reclaim.trace(cpu, || VmscanEvent::KswapdWake { node: self.node, order });
        reclaim.state.node(self.node).count(NodeStat::Pageoutrun, 1);
        let boosts = reclaim.boosts(self.node, highest);
        let first = reclaim.first_priority(self.node, highest);
        let scan = ScanControl {
            by: Reclaimer::Kswapd,
            cpu,
            node: self.node,
            highest,
            order,
            priority: first,
            first,
            target: self.target(highest),
            may_write: false,
            may_swap: false,
            force_deactivate: false,
            not_reclaimed: 0,
        };
        let boost_left = boosts.iter().sum();
        let for_boost = boost_left > 0;
        let progress = Progress::default();
        let round = Round { scan, boosts, for_boost, boost_left, progress, sweep: None };
        self.phase = Phase::Working(round);
        NextStep::Now
    }

    /// Continues a round: makes a part of a sweep, or ends the round.
    fn work(&mut self, mut round: Round, cpu: CpuId, taker: FreeTarget<'_, '_, 'm, P>) -> NextStep {
        round.scan.cpu = cpu;
        if round.sweep.is_none() && !self.needs_sweep(&mut round) {
            return self.end(&round);
        }
        let mut slots = [BatchSlot::default(); BATCH_SLOTS];
        let flusher = self.reclaim.flusher(cpu);
        let capacity = flusher.batch_capacity(BATCH_SLOTS);
        let mut retire = Retire::new(flusher.batch(&mut slots), capacity, taker);
        self.reclaim.tick(round.scan.cpu);
        retire.drain_flushed();
        self.sweep(&mut round, &mut retire);
        retire.finish();
        if round.scan.priority <= 1 {
            // The scans so far were not enough. Deferred frames are not free, but a flush is enough
            // to free them.
            retire.drain_deferred();
        }
        drop(retire);
        self.phase = Phase::Working(round);
        NextStep::Now
    }

    /// Whether the round has to make another sweep. Prepares the round for it.
    fn needs_sweep(&self, round: &mut Round) -> bool {
        let ScanControl { order, highest, .. } = round.scan;
        if round.for_boost && !self.reclaim.is_balanced_unboosted(self.node, order, highest) {
            // Memory is short even without the boosts: reclaim with all means.
            round.for_boost = false;
            round.scan.priority = round.scan.first;
        }
        if !round.for_boost && self.reclaim.is_balanced(self.node, order, highest) {
            return false;
        }
        round.scan.priority >= 1
    }

    /// Makes a part of a sweep.
    fn sweep(&self, round: &mut Round, retire: &mut Retire<'_, '_, '_, 'm, P>) {
        let mut sweep = round.sweep.take().unwrap_or_else(|| {
            round.scan.may_write = !round.for_boost;
            round.scan.may_swap = !round.for_boost && self.reclaim.ask_for_swap();
            self.reclaim.begin_sweep(&round.scan)
        });
        let enough = round.progress.scanned + Self::STEP;
        while round.progress.scanned < enough {
            if self.reclaim.continue_sweep(&round.scan, &mut sweep, &mut round.progress, retire) {
                self.adjust_priority(round, &sweep);
                return;
            }
        }
        round.sweep = Some(sweep);
    }

    /// After a whole sweep: sets the priority of the next one.
    fn adjust_priority(&self, round: &mut Round, sweep: &Sweep) {
        let Round { scan, boost_left, .. } = round;
        if scan.order > Order::ZERO && round.progress.reclaimed >= 2 * scan.order.frames() {
            // These frames are enough for compaction to form the block.
            scan.order = Order::ZERO;
        }
        let deeper = sweep.scanned < scan.target || sweep.reclaimed == 0;
        if !round.for_boost {
            scan.priority -= u32::from(deeper);
            return;
        }
        *boost_left = boost_left.saturating_sub(sweep.reclaimed);
        if *boost_left == 0 || sweep.reclaimed == 0 {
            scan.priority = 0;
        } else if scan.priority > BOOST_PRIORITY {
            scan.priority -= u32::from(deeper);
        }
    }

    /// Ends a round: starts another one, or waits for the delay.
    fn end(&mut self, round: &Round) -> NextStep {
        let ScanControl { order, highest, .. } = round.scan;
        if self.lower_boosts(round.boosts) {
            self.to_compact = Some(highest);
        }
        let kswapd_state = self.kswapd_state();
        if round.progress.reclaimed == 0 && !self.reclaim.is_balanced(self.node, order, highest) {
            self.after_round_without_progress(order, highest);
        }
        if !self.reclaim.is_balanced(self.node, order, highest)
            && !self.reclaim.is_hopeless(self.node)
        {
            kswapd_state.request(order, highest);
            self.phase = Phase::Idle;
            return NextStep::Now;
        }
        kswapd_state.set_writing_back(false);
        kswapd_state.set_dirty(false);
        kswapd_state.sleep();
        self.phase = Phase::Delayed { order, highest };
        NextStep::AfterDelay
    }

    /// Called after a round that reclaimed nothing: releases the reserves for huge pages. If the
    /// zones are below their watermarks even without these reserves, the round counts as a failure.
    fn after_round_without_progress(&self, order: Order, highest: ZoneKind) {
        let (kswapd_state, memory) = (self.kswapd_state(), self.reclaim.memory);
        if !self.reclaim.is_balanced_unboosted(self.node, order, highest) {
            kswapd_state.set_failures(kswapd_state.failures().saturating_add(1));
        }
        for zone in memory.zones_of(self.node) {
            zone.release_huge_reserve(memory.platform());
        }
    }

    fn wake_up(&mut self, cpu: CpuId, order: Order, highest: ZoneKind) -> NextStep {
        self.phase = Phase::Idle;
        let node = self.reclaim.state.node(self.node);
        if self.reclaim.is_hopeless(self.node) {
            return self.sleep(cpu);
        }
        if self.kswapd_state().is_requested() {
            node.count(NodeStat::KswapdLowWmarkHitQuickly, 1);
            return NextStep::Now;
        }
        if !self.reclaim.is_balanced(self.node, order, highest) {
            node.count(NodeStat::KswapdHighWmarkHitQuickly, 1);
            self.kswapd_state().request(order, highest);
            return NextStep::Now;
        }
        self.sleep(cpu)
    }

    fn sleep(&mut self, cpu: CpuId) -> NextStep {
        self.kswapd_state().sleep();
        // A request that came before this point found background reclaim awake, and did not wake
        // it.
        if self.kswapd_state().is_requested() && !self.reclaim.is_hopeless(self.node) {
            return NextStep::Now;
        }
        self.reclaim.trace(cpu, || VmscanEvent::KswapdSleep { node: self.node });
        NextStep::WhenWoken
    }

    /// Pages that one sweep is to reclaim.
    fn target(&self, highest: ZoneKind) -> u64 {
        let zones = self.reclaim.memory.zones_of(self.node).filter(|zone| zone.serves(highest));
        zones.map(|zone| zone.marks().without_huge_reserve(Watermark::High).max(32)).sum()
    }

    /// Removes the boosts that the round began with. Returns whether there were any.
    fn lower_boosts(&self, boosts: [u64; ZoneKind::COUNT]) -> bool {
        let platform = self.reclaim.memory.platform();
        let mut any = false;
        for zone in self.reclaim.memory.zones_of(self.node) {
            let boost = boosts[zone.kind() as usize];
            if boost > 0 {
                zone.lower_boost(platform, boost);
                any = true;
            }
        }
        any
    }
}
