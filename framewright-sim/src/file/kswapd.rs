//! Background reclaim of a node in steps: when the next step is due, and the compaction that should
//! follow.

use std::cell::Cell;

use framewright::{
    Order, Platform, ZoneKind,
    reclaim::{Kswapd, NextStep},
};

/// Background reclaim of a node. Its steps run on any CPU, one at a time. Times are in the units of
/// the caller's clock.
pub struct KswapdSteps<'k, 'm, P: Platform> {
    /// `None` while a CPU runs a step.
    kswapd: Cell<Option<Kswapd<'k, 'm, P>>>,
    is_running: Cell<bool>,
    due: Cell<u64>,
    done: Cell<Option<StepDone>>,
    /// The largest order requested since the last compaction, and the highest zone of the last request.
    requested: Cell<(Order, ZoneKind)>,
}

/// The result of steps, until compaction has taken it.
#[derive(Clone, Copy, Debug)]
pub struct StepDone {
    /// Whether background reclaim sleeps now, for a time or until a wake-up.
    pub sleeps: bool,
    /// The order of blocks, and the highest zone, for which enough memory is free to compact.
    pub compaction: Option<(Order, ZoneKind)>,
}

impl<'k, 'm, P: Platform> KswapdSteps<'k, 'm, P> {
    /// No step is due.
    #[must_use]
    pub fn new(kswapd: Option<Kswapd<'k, 'm, P>>) -> Self {
        Self {
            kswapd: Cell::new(kswapd),
            is_running: Cell::new(false),
            due: Cell::new(u64::MAX),
            done: Cell::new(None),
            requested: Cell::default(),
        }
    }

    /// Records a request for a block of this order in zones up to `highest`.
    pub fn record_request(&self, order: Order, highest: ZoneKind) {
        self.requested.set((self.requested.get().0.max(order), highest));
    }

    /// Takes the largest order that was requested, and the highest zone of the last request.
    pub fn take_request(&self) -> (Order, ZoneKind) {
        let (_, highest) = self.requested.get();
        (self.requested.replace((Order::ZERO, highest)).0, highest)
    }

    /// Makes a step due at `now`.
    pub fn wake(&self, now: u64) {
        self.due.set(now);
    }

    /// The time of the next step; `u64::MAX` if there is none, or while a CPU runs one.
    #[must_use]
    pub fn due(&self) -> u64 {
        if self.is_running.get() { u64::MAX } else { self.due.get() }
    }

    /// Whether a result waits for compaction, and no CPU runs a step.
    #[must_use]
    pub fn has_result(&self) -> bool {
        self.done.get().is_some() && !self.is_running.get()
    }

    /// Takes the result of the steps so far.
    #[must_use]
    pub fn take_result(&self) -> Option<StepDone> {
        self.done.take()
    }

    /// Runs a step if one is due. `delay` is [`Kswapd::DELAY`] in units of the clock `now`. Returns
    /// whether it ran.
    pub fn step(
        &self,
        now: impl Fn() -> u64,
        delay: u64,
        step: impl FnOnce(&mut Kswapd<'k, 'm, P>) -> NextStep,
    ) -> bool {
        if self.due() > now() {
            return false;
        }
        let Some(mut kswapd) = self.kswapd.take() else { return false };
        self.is_running.set(true);
        // A wake-up from now on is for a new request.
        self.due.set(u64::MAX);
        let next = step(&mut kswapd);
        let before = self.done.get().and_then(|done| done.compaction);
        let compaction = kswapd.take_compaction().or(before);
        self.kswapd.set(Some(kswapd));
        self.is_running.set(false);
        let due = match next {
            NextStep::Now => now(),
            NextStep::AfterDelay => now() + delay,
            NextStep::WhenWoken => u64::MAX,
        };
        self.due.set(self.due.get().min(due));
        self.done.set(Some(StepDone { sleeps: next != NextStep::Now, compaction }));
        true
    }
}
