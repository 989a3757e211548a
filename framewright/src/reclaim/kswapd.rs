//! Background reclaim of a node: what the embedder runs on a thread or a CPU of its own.
//!
//! ```text
//!              woken                       balanced, or hopeless
//!   asleep ───────────► working ───────────────────────────────► napping
//!     ▲                    ▲          (a part of it per step)       │
//!     │                    └─────── woken, or short again ──────────┤
//!     └───────────────────────────── still balanced ────────────────┘
//! ```
//!
//! It is woken when a request finds the zones of the node below *low*, and works until one of them
//! is above *high*; so it has some distance to run before it is needed again. A node on which it
//! has failed for a number of rounds in a row is *hopeless*: waking it would only burn a CPU, until
//! somebody frees something.
//!
//! What zones keep ready for huge pages raises their watermarks. It gets less when nobody has asked for
//! long, which is looked at when a round begins, and goes after a round that found nothing.
//!
//! A round for boosted watermarks makes room where types were mixed. It reclaims as many pages as they were
//! boosted by, without writing any, and looks no deeper than what is easily found: in as many shallow sweeps as
//! that takes, unless one frees nothing. At its end the boost is taken down, and somebody is to put whole
//! pageblocks together there, so that types are mixed no further. Who embeds it asks for that after each step.

use crate::{
    alloc::CpuToken,
    frame::Order,
    observe::{NodeStat, VmscanEvent},
    platform::{CpuId, Platform},
    tlb::BatchSlot,
    zone::{NodeId, Watermark, ZoneKind},
};

use super::{
    Reclaim,
    direct::BATCH_SLOTS,
    retire::{FreeTarget, Retire},
    scan::{Progress, Reclaimer, ScanControl},
    sweep::Sweep,
    wakeup::KswapdState,
};

/// As deep as a round for boosted watermarks goes, unless lists are so short that it begins below: at a 1024th
/// of each list per sweep.
const BOOST_PRIORITY: u32 = 10;

/// What background reclaim does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// Another step, at once.
    Now,
    /// A nap of [`Kswapd::DELAY`] nanoseconds, unless it is woken; then another step.
    AfterDelay,
    /// It sleeps until it is woken; then another step.
    WhenWoken,
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of it per node")]
enum Phase {
    Idle,
    Working(Round),
    Delayed { order: Order, highest: ZoneKind },
}

/// A round on its way.
#[derive(Clone, Copy, Debug)]
struct Round {
    scan: ScanControl,
    /// The boosts when it began, by kind of zone.
    boosts: [u64; ZoneKind::COUNT],
    /// Nothing is short, but more shall be free for a while.
    for_boost: bool,
    /// Pages of the boosts that are not reclaimed yet.
    boost_left: u64,
    progress: Progress,
    sweep: Option<Sweep>,
}

/// Background reclaim of one node, as a state machine: the embedder calls [`Kswapd::step`] for
/// ever, and rests in between as it is told.
pub struct Kswapd<'a, 'm, P: Platform> {
    reclaim: Reclaim<'a, 'm, P>,
    node: NodeId,
    phase: Phase,
    /// There is room to compact for huge pages, in zones up to this kind; nobody was told yet.
    to_compact: Option<ZoneKind>,
}

impl<'a, 'm, P: Platform> Reclaim<'a, 'm, P> {
    /// Background reclaim of a node, asleep; `None` if there is no such node. One per node.
    #[must_use]
    pub fn kswapd(&self, node: NodeId) -> Option<Kswapd<'a, 'm, P>> {
        let kswapd = Kswapd { reclaim: *self, node, phase: Phase::Idle, to_compact: None };
        self.has_node(node).then_some(kswapd)
    }
}

impl<'a, 'm, P: Platform> Kswapd<'a, 'm, P> {
    /// How long a nap is, in nanoseconds.
    pub const DELAY: u64 = 100_000_000;

    /// Pages that one step looks at, or a cluster more.
    pub const STEP: u64 = 256;

    /// The node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Does a bounded part of what is to be done ([`Kswapd::STEP`]), with frames going to the lists
    /// of the token's CPU.
    ///
    /// # Panics
    ///
    /// The token is of another memory.
    pub fn step(&mut self, token: &mut CpuToken<'_, 'm, P>) -> NextStep {
        let is_ours = core::ptr::eq(token.memory(), self.reclaim.memory);
        assert!(is_ours, "the token is of another memory");
        self.step_with(token.cpu(), FreeTarget::Token(token))
    }

    /// As [`Kswapd::step`], on a CPU whose token is in use by a request that
    /// [pauses](crate::platform::Relief::pause) there. Frames go to the zones.
    pub fn step_on(&mut self, cpu: CpuId) -> NextStep {
        self.step_with(cpu, FreeTarget::Zones(self.reclaim.memory, cpu))
    }

    fn step_with(&mut self, cpu: CpuId, taker: FreeTarget<'_, '_, 'm, P>) -> NextStep {
        let rest = match self.phase {
            Phase::Idle => self.begin(cpu),
            Phase::Working(round) => self.work(round, cpu, taker),
            Phase::Delayed { order, highest } => self.wake_up(cpu, order, highest),
        };
        self.reclaim.resume_for_reserve(self.node);
        rest
    }

    /// What the last step made room for, to be asked after each: blocks of this order are to be formed in zones
    /// up to this kind ([`Compactor::background`](crate::compact::Compactor::background)). Said once; it is so
    /// after a round for boosted watermarks.
    pub fn take_compaction(&mut self) -> Option<(Order, ZoneKind)> {
        Some((Order::PAGEBLOCK, self.to_compact.take()?))
    }

    fn words(&self) -> &KswapdState {
        &self.reclaim.state.node(self.node).kswapd
    }

    fn begin(&mut self, cpu: CpuId) -> NextStep {
        self.words().begin();
        let Some((order, highest)) = self.words().take() else {
            return self.sleep(cpu);
        };
        let reclaim = &self.reclaim;
        for zone in reclaim.memory.zones_of(self.node) {
            zone.age_stock(reclaim.memory.platform());
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

    /// Goes on with a round: a part of a sweep, or the end.
    fn work(&mut self, mut round: Round, cpu: CpuId, taker: FreeTarget<'_, '_, 'm, P>) -> NextStep {
        round.scan.cpu = cpu;
        if round.sweep.is_none() && !self.needs_sweep(&mut round) {
            return self.end(&round);
        }
        let mut slots = [BatchSlot::default(); BATCH_SLOTS];
        let flusher = self.reclaim.memory.flusher_by(cpu, self.reclaim.shootdown);
        let room = flusher.batch_capacity(BATCH_SLOTS);
        let mut retire = Retire::new(flusher.batch(&mut slots), room, taker);
        self.reclaim.tick(round.scan.cpu);
        retire.drain_flushed();
        self.sweep(&mut round, &mut retire);
        retire.finish();
        if round.scan.priority <= 1 {
            // Nothing else helps. What is deferred is not free, but easily had.
            retire.drain_deferred();
        }
        drop(retire);
        self.phase = Phase::Working(round);
        NextStep::Now
    }

    /// Whether there is a sweep to make, and which.
    fn needs_sweep(&self, round: &mut Round) -> bool {
        let ScanControl { order, highest, .. } = round.scan;
        if round.for_boost && !self.reclaim.is_balanced_unboosted(self.node, order, highest) {
            // Really short of memory: with all means.
            round.for_boost = false;
            round.scan.priority = round.scan.first;
        }
        if !round.for_boost && self.reclaim.is_balanced(self.node, order, highest) {
            return false;
        }
        round.scan.priority >= 1
    }

    /// A part of a sweep.
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

    /// After a whole sweep: how deep the next one looks.
    fn adjust_priority(&self, round: &mut Round, sweep: &Sweep) {
        let Round { scan, boost_left, .. } = round;
        if scan.order > Order::ZERO && round.progress.reclaimed >= 2 * scan.order.frames() {
            // Whoever wants more than that has to move pages about.
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

    /// Ends a round: goes on with another, or takes a nap.
    fn end(&mut self, round: &Round) -> NextStep {
        let ScanControl { order, highest, .. } = round.scan;
        if self.lower_boosts(round.boosts) {
            self.to_compact = Some(highest);
        }
        let words = self.words();
        if round.progress.reclaimed == 0 && !self.reclaim.is_balanced(self.node, order, highest) {
            self.after_round_without_progress(order, highest);
        }
        if !self.reclaim.is_balanced(self.node, order, highest)
            && !self.reclaim.is_hopeless(self.node)
        {
            words.request(order, highest);
            self.phase = Phase::Idle;
            return NextStep::Now;
        }
        words.set_writing_back(false);
        words.set_dirty(false);
        words.sleep();
        self.phase = Phase::Delayed { order, highest };
        NextStep::AfterDelay
    }

    /// Nothing was reclaimed: then nothing is kept ready for huge pages any more. If what zones keep in any
    /// case is not there either, that is one failure more.
    fn after_round_without_progress(&self, order: Order, highest: ZoneKind) {
        let (words, memory) = (self.words(), self.reclaim.memory);
        if !self.reclaim.is_balanced_unboosted(self.node, order, highest) {
            words.set_failures(words.failures().saturating_add(1));
        }
        for zone in memory.zones_of(self.node) {
            zone.give_up_stock(memory.platform());
        }
    }

    fn wake_up(&mut self, cpu: CpuId, order: Order, highest: ZoneKind) -> NextStep {
        self.phase = Phase::Idle;
        let node = self.reclaim.state.node(self.node);
        if self.reclaim.is_hopeless(self.node) {
            return self.sleep(cpu);
        }
        if self.words().is_requested() {
            node.count(NodeStat::KswapdLowWmarkHitQuickly, 1);
            return NextStep::Now;
        }
        if !self.reclaim.is_balanced(self.node, order, highest) {
            node.count(NodeStat::KswapdHighWmarkHitQuickly, 1);
            self.words().request(order, highest);
            return NextStep::Now;
        }
        self.sleep(cpu)
    }

    fn sleep(&mut self, cpu: CpuId) -> NextStep {
        self.words().sleep();
        // Who came while it looked awake did not wake it.
        if self.words().is_requested() && !self.reclaim.is_hopeless(self.node) {
            return NextStep::Now;
        }
        self.reclaim.trace(cpu, || VmscanEvent::KswapdSleep { node: self.node });
        NextStep::WhenWoken
    }

    /// Pages that one sweep aims for.
    fn target(&self, highest: ZoneKind) -> u64 {
        let zones = self.reclaim.memory.zones_of(self.node).filter(|zone| zone.serves(highest));
        zones.map(|zone| zone.marks().past_stock(Watermark::High).max(32)).sum()
    }

    /// Takes down the boosts that a round began with; whether there were any.
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
