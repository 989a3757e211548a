//! [`FakeRelief`]: relief made of closures.

use framewright::{
    NodeId, Order, ZoneId, ZoneKind,
    platform::{
        Captured, CompactPriority, Compacted, Need, NoRelief, OutOfMemory, Pause, Relief, Throttle,
        Verdict,
    },
};

type Hook<F> = Option<Box<F>>;
type ReclaimHook = dyn Fn(&Need, u64) -> u64 + Send + Sync;
type CompactHook = dyn Fn(&Need, CompactPriority, Captured<'_>) -> Compacted + Send + Sync;

/// Relief whose methods are closures. A method without a closure reports no progress, as
/// [`NoRelief`] does.
///
/// ```
/// use framewright_fakes::{FakePlatform, FakeRelief};
///
/// let platform = FakePlatform::default();
/// platform.set_relief(FakeRelief::new().in_background(|| true).on_reclaim(|_, frames| frames / 2));
/// ```
#[derive(Default)]
pub struct FakeRelief {
    in_background: Hook<dyn Fn() -> bool + Send + Sync>,
    wake: Hook<dyn Fn(NodeId, Order, ZoneKind) + Send + Sync>,
    reclaim: Hook<ReclaimHook>,
    reclaimable: Hook<dyn Fn(ZoneId) -> Option<u64> + Send + Sync>,
    pause: Hook<dyn Fn(&Pause<'_>) + Send + Sync>,
    resume: Hook<dyn Fn(NodeId, Throttle) + Send + Sync>,
    compact: Hook<CompactHook>,
    out_of_memory: Hook<dyn Fn(&OutOfMemory) -> Verdict + Send + Sync>,
}

macro_rules! hooks {
    ($($(#[$doc:meta])* $name:ident: $field:ident, ($($arg:ty),*) $(-> $answer:ty)?;)*) => {
        impl FakeRelief {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, hook: impl Fn($($arg),*) $(-> $answer)? + Send + Sync + 'static) -> Self {
                    self.$field = Some(Box::new(hook));
                    self
                }
            )*
        }
    };
}

hooks! {
    /// The answer of [`Relief::reclaims_in_background`].
    in_background: in_background, () -> bool;
    /// Runs as [`Relief::wake`].
    on_wake: wake, (NodeId, Order, ZoneKind);
    /// Runs as [`Relief::reclaim`].
    on_reclaim: reclaim, (&Need, u64) -> u64;
    /// Runs as [`Relief::reclaimable`].
    on_reclaimable: reclaimable, (ZoneId) -> Option<u64>;
    /// Runs as [`Relief::pause`]. A hook that returns before the pause is over makes the wake-up spurious.
    on_pause: pause, (&Pause<'_>);
    /// Runs as [`Relief::resume`].
    on_resume: resume, (NodeId, Throttle);
    /// Runs as [`Relief::compact`].
    on_compact: compact, (&Need, CompactPriority, Captured<'_>) -> Compacted;
    /// Runs as [`Relief::out_of_memory`].
    on_out_of_memory: out_of_memory, (&OutOfMemory) -> Verdict;
}

impl FakeRelief {
    /// Relief without hooks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Relief for FakeRelief {
    fn reclaims_in_background(&self) -> bool {
        self.in_background.as_ref().map_or_else(|| NoRelief.reclaims_in_background(), |hook| hook())
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        if let Some(hook) = &self.wake {
            hook(node, order, highest);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        let hook = self.reclaim.as_ref();
        hook.map_or_else(|| NoRelief.reclaim(need, frames), |hook| hook(need, frames))
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        let hook = self.reclaimable.as_ref();
        hook.map_or_else(|| NoRelief.reclaimable(zone), |hook| hook(zone))
    }

    fn pause(&self, pause: &Pause<'_>) {
        if let Some(hook) = &self.pause {
            hook(pause);
        }
    }

    fn resume(&self, node: NodeId, why: Throttle) {
        if let Some(hook) = &self.resume {
            hook(node, why);
        }
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        match &self.compact {
            Some(hook) => hook(need, priority, captured),
            None => NoRelief.compact(need, priority, captured),
        }
    }

    fn out_of_memory(&self, report: &OutOfMemory) -> Verdict {
        let hook = self.out_of_memory.as_ref();
        hook.map_or_else(|| NoRelief.out_of_memory(report), |hook| hook(report))
    }
}
