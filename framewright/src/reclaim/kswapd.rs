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

use crate::{
    alloc::CpuToken,
    frame::Order,
    observe::{NodeStat, VmscanEvent},
    platform::{CpuId, Platform},
    sync::{AtomicBool, AtomicU32, Ordering},
    tlb::BatchSlot,
    zone::{Access, NodeId, Rights, Watermark, ZoneKind},
};

use super::{
    Reclaim,
    direct::BATCH_SLOTS,
    retire::{Retire, Taker},
    scan::{By, FIRST_PRIORITY, Progress, Scan},
    sweep::Sweep,
};

/// What the waker tells the sleeper, and what it knows of its node.
pub(crate) struct KswapdWords {
    /// The highest order wanted, plus 1; 0: nothing.
    order: AtomicU32,
    /// The highest zone wanted.
    highest: AtomicU32,
    /// Whether it works at the moment.
    awake: AtomicBool,
    /// Rounds without any progress.
    failures: AtomicU32,
    /// All pages of a pass were under write-back.
    writing_back: AtomicBool,
    /// All pages of a pass were dirty, and nobody wrote them.
    dirty: AtomicBool,
}

impl KswapdWords {
    pub(crate) fn new() -> Self {
        Self {
            order: AtomicU32::new(0),
            highest: AtomicU32::new(0),
            awake: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            writing_back: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
        }
    }

    /// Adds a wish to what is wanted.
    fn want(&self, order: Order, highest: ZoneKind) {
        self.highest.fetch_max(highest as u32, Ordering::AcqRel);
        self.order.fetch_max(u32::from(order.get()) + 1, Ordering::AcqRel);
    }

    /// Takes what is wanted.
    fn take(&self) -> Option<(Order, ZoneKind)> {
        let order = self.order.swap(0, Ordering::AcqRel).checked_sub(1)?;
        let highest = self.highest.swap(0, Ordering::AcqRel) as usize;
        let order = Order::new(order as u8).unwrap_or_default();
        Some((order, ZoneKind::ALL[highest.min(ZoneKind::COUNT - 1)]))
    }

    fn is_wanted(&self) -> bool {
        self.order.load(Ordering::Acquire) != 0
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn set_failures(&self, failures: u32) {
        self.failures.store(failures, Ordering::Relaxed);
    }

    pub(super) fn is_writing_back(&self) -> bool {
        self.writing_back.load(Ordering::Relaxed)
    }

    pub(super) fn set_writing_back(&self, is: bool) {
        self.writing_back.store(is, Ordering::Relaxed);
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed)
    }

    pub(super) fn set_dirty(&self, is: bool) {
        self.dirty.store(is, Ordering::Relaxed);
    }
}

/// What background reclaim does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Another step, at once.
    None,
    /// A nap of [`Kswapd::NAP`] nanoseconds, unless it is woken; then another step.
    Nap,
    /// It sleeps until it is woken; then another step.
    Sleep,
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of it per node")]
enum Phase {
    Idle,
    Working(Round),
    Napping { order: Order, highest: ZoneKind },
}

/// A round on its way.
#[derive(Clone, Copy, Debug)]
struct Round {
    scan: Scan,
    /// The boosts when it began, by kind of zone.
    boosts: [u64; ZoneKind::COUNT],
    /// Nothing is short, but more shall be free for a while.
    for_boost: bool,
    progress: Progress,
    sweep: Option<Sweep>,
}

/// Background reclaim of one node, as a state machine: the embedder calls [`Kswapd::step`] for
/// ever, and rests in between as it is told.
pub struct Kswapd<'a, 'm, P: Platform> {
    reclaim: Reclaim<'a, 'm, P>,
    node: NodeId,
    phase: Phase,
}

impl<'a, 'm, P: Platform> Reclaim<'a, 'm, P> {
    /// Background reclaim of a node, asleep; `None` if there is no such node. One per node.
    #[must_use]
    pub fn kswapd(&self, node: NodeId) -> Option<Kswapd<'a, 'm, P>> {
        self.has_node(node).then_some(Kswapd { reclaim: *self, node, phase: Phase::Idle })
    }

    /// A request for `order` that can use zones up to `highest` found the node short of memory:
    /// remembers that. Says whether background reclaim has to be woken for it; it need not if it
    /// works, if enough is free after all, or if it is hopeless.
    pub fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        if !self.has_node(node) {
            return false;
        }
        let words = &self.state.node(node).kswapd;
        words.want(order, highest);
        if words.awake.load(Ordering::Acquire) || self.is_hopeless(node) {
            return false;
        }
        if self.is_balanced(node, order, highest) && !self.is_boosted(node, highest) {
            return false;
        }
        self.trace(CpuId::default(), || VmscanEvent::WakeupKswapd { node, highest, order });
        true
    }

    /// Whether background reclaim has given up on a node.
    #[must_use]
    pub fn is_hopeless(&self, node: NodeId) -> bool {
        self.has_node(node)
            && self.state.node(node).kswapd.failures() >= self.memory.tuning().reclaim.hopeless
    }

    /// Whether a zone of the node up to `highest` has enough free, for the order; or there is none.
    fn is_balanced(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        self.passes_high(node, order, Access::above(Watermark::High, highest))
    }

    /// The same without regard to boosts.
    fn is_balanced_unboosted(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        let access =
            Access { rights: Rights::PAST_BOOST, ..Access::above(Watermark::High, highest) };
        self.passes_high(node, order, access)
    }

    fn passes_high(&self, node: NodeId, order: Order, access: Access) -> bool {
        let mut zones = self.memory.zones_of(node).filter(|zone| zone.serves(access.highest));
        let mut any = false;
        zones.any(|zone| {
            any = true;
            // What lower zones keep back is for allocations, not for this.
            zone.may_take(order, Access { highest: zone.kind(), ..access })
        }) || !any
    }

    fn is_boosted(&self, node: NodeId, highest: ZoneKind) -> bool {
        self.boosts(node, highest).into_iter().any(|boost| boost > 0)
    }

    /// The boosts of the zones of a node, by kind.
    fn boosts(&self, node: NodeId, highest: ZoneKind) -> [u64; ZoneKind::COUNT] {
        let mut boosts = [0; ZoneKind::COUNT];
        for zone in self.memory.zones_of(node).filter(|zone| zone.serves(highest)) {
            boosts[zone.kind() as usize] = zone.marks().boost();
        }
        boosts
    }
}

impl<'a, 'm, P: Platform> Kswapd<'a, 'm, P> {
    /// How long a nap is, in nanoseconds.
    pub const NAP: u64 = 100_000_000;

    /// Pages that one step looks at, or a cluster more.
    pub const STEP: u64 = 256;

    /// The node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Does a bounded part of what is to be done ([`Kswapd::STEP`]), with frames going to the lists
    /// of the token's CPU.
    pub fn step(&mut self, token: &mut CpuToken<'_, 'm, P>) -> Rest {
        match self.phase {
            Phase::Idle => self.begin(token.cpu()),
            Phase::Working(round) => self.work(round, token),
            Phase::Napping { order, highest } => self.wake_up(token.cpu(), order, highest),
        }
    }

    fn words(&self) -> &KswapdWords {
        &self.reclaim.state.node(self.node).kswapd
    }

    fn begin(&mut self, cpu: CpuId) -> Rest {
        self.words().awake.store(true, Ordering::Release);
        let Some((order, highest)) = self.words().take() else {
            return self.sleep(cpu);
        };
        let reclaim = &self.reclaim;
        reclaim.trace(cpu, || VmscanEvent::KswapdWake { node: self.node, order });
        reclaim.state.node(self.node).count(NodeStat::Pageoutrun, 1);
        let boosts = reclaim.boosts(self.node, highest);
        let scan = Scan {
            by: By::Kswapd,
            cpu,
            node: self.node,
            highest,
            order,
            priority: FIRST_PRIORITY,
            target: self.target(highest),
            may_write: false,
            may_swap: false,
            force_deactivate: false,
        };
        let for_boost = boosts.iter().any(|&boost| boost > 0);
        let progress = Progress::default();
        self.phase = Phase::Working(Round { scan, boosts, for_boost, progress, sweep: None });
        Rest::None
    }

    /// Goes on with a round: a part of a sweep, or the end.
    fn work(&mut self, mut round: Round, token: &mut CpuToken<'_, 'm, P>) -> Rest {
        round.scan.cpu = token.cpu();
        if round.sweep.is_none() && !self.has_to_sweep(&mut round) {
            return self.end(&round);
        }
        let mut slots = [BatchSlot::default(); BATCH_SLOTS];
        let flusher = self.reclaim.memory.flusher(token.cpu(), self.reclaim.shootdown);
        let room = BATCH_SLOTS.min(self.reclaim.memory.tuning().tlb.batch as usize);
        let mut retire = Retire::new(flusher.batch(&mut slots), room, Taker::Token(token));
        self.reclaim.catch_up(round.scan.cpu);
        retire.unpark();
        self.sweep(&mut round, &mut retire);
        retire.finish();
        if round.scan.priority < FIRST_PRIORITY - 2 {
            // It gets hard. What is parked is not free, but easily had.
            retire.unpark_all();
        }
        drop(retire);
        self.phase = Phase::Working(round);
        Rest::None
    }

    /// Whether there is a sweep to make, and which.
    fn has_to_sweep(&self, round: &mut Round) -> bool {
        let Scan { order, highest, .. } = round.scan;
        if round.for_boost && !self.reclaim.is_balanced_unboosted(self.node, order, highest) {
            // Really short of memory: with all means.
            round.for_boost = false;
            round.scan.priority = FIRST_PRIORITY;
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
            if self.reclaim.go_on_sweeping(&round.scan, &mut sweep, &mut round.progress, retire) {
                self.judge(round, &sweep);
                return;
            }
        }
        round.sweep = Some(sweep);
    }

    /// After a whole sweep: how deep the next one looks.
    fn judge(&self, round: &mut Round, sweep: &Sweep) {
        const BOOST_PRIORITY: u32 = 10;
        let scan = &mut round.scan;
        if scan.order > Order::ZERO && round.progress.reclaimed >= 2 * scan.order.frames() {
            // Whoever wants more than that has to move pages about.
            scan.order = Order::ZERO;
        }
        let too_deep = round.for_boost && (sweep.reclaimed == 0 || scan.priority <= BOOST_PRIORITY);
        if too_deep {
            scan.priority = 0;
        } else if sweep.scanned < scan.target || sweep.reclaimed == 0 {
            scan.priority -= 1;
        }
    }

    /// Ends a round: goes on with another, or takes a nap.
    fn end(&mut self, round: &Round) -> Rest {
        let Scan { order, highest, .. } = round.scan;
        let words = self.words();
        let balanced = self.reclaim.is_balanced_unboosted(self.node, order, highest);
        if round.progress.reclaimed == 0 && !balanced {
            words.set_failures(words.failures().saturating_add(1));
        }
        self.lower_boosts(round.boosts);
        if !self.reclaim.is_balanced(self.node, order, highest)
            && !self.reclaim.is_hopeless(self.node)
        {
            words.want(order, highest);
            self.phase = Phase::Idle;
            return Rest::None;
        }
        words.set_writing_back(false);
        words.set_dirty(false);
        words.awake.store(false, Ordering::Release);
        self.phase = Phase::Napping { order, highest };
        Rest::Nap
    }

    fn wake_up(&mut self, cpu: CpuId, order: Order, highest: ZoneKind) -> Rest {
        self.phase = Phase::Idle;
        let node = self.reclaim.state.node(self.node);
        if self.reclaim.is_hopeless(self.node) {
            return self.sleep(cpu);
        }
        if self.words().is_wanted() {
            node.count(NodeStat::KswapdLowWmarkHitQuickly, 1);
            return Rest::None;
        }
        if !self.reclaim.is_balanced(self.node, order, highest) {
            node.count(NodeStat::KswapdHighWmarkHitQuickly, 1);
            self.words().want(order, highest);
            return Rest::None;
        }
        self.sleep(cpu)
    }

    fn sleep(&mut self, cpu: CpuId) -> Rest {
        self.words().awake.store(false, Ordering::SeqCst);
        // Who came while it looked awake did not wake it.
        if self.words().is_wanted() && !self.reclaim.is_hopeless(self.node) {
            return Rest::None;
        }
        self.reclaim.trace(cpu, || VmscanEvent::KswapdSleep { node: self.node });
        Rest::Sleep
    }

    /// Pages that one sweep aims for.
    fn target(&self, highest: ZoneKind) -> u64 {
        let zones = self.reclaim.memory.zones_of(self.node).filter(|zone| zone.serves(highest));
        zones.map(|zone| zone.marks().get(Watermark::High).max(32)).sum()
    }

    fn lower_boosts(&self, boosts: [u64; ZoneKind::COUNT]) {
        let platform = self.reclaim.memory.platform();
        for zone in self.reclaim.memory.zones_of(self.node) {
            let boost = boosts[zone.kind() as usize];
            if boost > 0 {
                zone.lower_boost(platform, boost);
            }
        }
    }
}
