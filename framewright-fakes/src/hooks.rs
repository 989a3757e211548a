//! The hooks of [`FakePlatform`](crate::FakePlatform).

use std::sync::OnceLock;

use framewright::{
    CpuId, Order, Pfn,
    observe::{Corruption, Event},
    platform::{Access, BarrierTarget, Cost, Line, Miss, Section, Site, Wait},
};

use crate::FakePlatform;

/// A call of a method of [`Probe`](framewright::platform::Probe).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeCall {
    /// [`Probe::cost`](framewright::platform::Probe::cost): the kind of work, and the number of its
    /// units.
    Cost(Cost, u32),
    /// [`Probe::touch`](framewright::platform::Probe::touch).
    Touch(Line, Access, Miss),
    /// [`Probe::enter`](framewright::platform::Probe::enter).
    Enter(Section),
    /// [`Probe::leave`](framewright::platform::Probe::leave).
    Leave(Section),
    /// [`Probe::point`](framewright::platform::Probe::point).
    Point(Site),
}

type Slot<F> = OnceLock<Box<F>>;
type TraceHook = dyn Fn(CpuId, &Event) + Send + Sync;

/// One slot for each hook.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) wait: Slot<dyn Fn(Wait, u32) + Send + Sync>,
    pub(crate) barrier: Slot<dyn Fn(BarrierTarget) + Send + Sync>,
    pub(crate) irq_restore: Slot<dyn Fn() + Send + Sync>,
    pub(crate) clear: Slot<dyn Fn(Pfn, Order) + Send + Sync>,
    pub(crate) corruption: Slot<dyn Fn(&Corruption) + Send + Sync>,
    pub(crate) trace: Slot<TraceHook>,
    pub(crate) probe: Slot<dyn Fn(ProbeCall) + Send + Sync>,
    pub(crate) force: Slot<dyn Fn(Site) -> bool + Send + Sync>,
}

/// Fills a slot.
///
/// # Panics
///
/// If it is full.
pub(crate) fn set<T>(slot: &OnceLock<T>, value: T) {
    assert!(slot.set(value).is_ok(), "the hook is set already");
}

impl<const TRACED: bool, const PROBED: bool> FakePlatform<TRACED, PROBED> {
    /// `hook` runs at each call of [`Platform::wait`](framewright::Platform::wait). The hook acts for the other CPUs
    /// during the wait. A hook that changes nothing makes the wake-up spurious.
    pub fn on_wait(&self, hook: impl Fn(Wait, u32) + Send + Sync + 'static) {
        set(&self.hooks.wait, Box::new(hook));
    }

    /// `hook` runs after each restore of interrupts, for example right after the library has released a
    /// lock.
    pub fn on_irq_restore(&self, hook: impl Fn() + Send + Sync + 'static) {
        set(&self.hooks.irq_restore, Box::new(hook));
    }

    /// `hook` runs before each block is cleared.
    pub fn on_clear(&self, hook: impl Fn(Pfn, Order) + Send + Sync + 'static) {
        set(&self.hooks.clear, Box::new(hook));
    }

    /// `hook` receives each report of corruption. With it, no report panics, and none is stored.
    pub fn on_corruption(&self, hook: impl Fn(&Corruption) + Send + Sync + 'static) {
        set(&self.hooks.corruption, Box::new(hook));
    }

    /// `hook` runs as [`Platform::remote_barrier`](framewright::Platform::remote_barrier). With the
    /// hook, several threads may use per-CPU lists with `OwnerLock::Biased`.
    ///
    /// # Safety
    ///
    /// The hook fulfils the contract of [`Platform`](framewright::Platform) for remote barriers.
    pub unsafe fn on_barrier(&self, hook: impl Fn(BarrierTarget) + Send + Sync + 'static) {
        set(&self.hooks.barrier, Box::new(hook));
    }
}

impl<const PROBED: bool> FakePlatform<true, PROBED> {
    /// `hook` receives each trace event.
    pub fn on_trace(&self, hook: impl Fn(CpuId, &Event) + Send + Sync + 'static) {
        set(&self.hooks.trace, Box::new(hook));
    }
}

impl<const TRACED: bool> FakePlatform<TRACED, true> {
    /// `hook` receives each call of [`Probe`](framewright::platform::Probe), also under locks of the library.
    pub fn on_probe(&self, hook: impl Fn(ProbeCall) + Send + Sync + 'static) {
        set(&self.hooks.probe, Box::new(hook));
    }

    /// `hook` runs as [`Probe::force`](framewright::platform::Probe::force).
    pub fn on_force(&self, hook: impl Fn(Site) -> bool + Send + Sync + 'static) {
        set(&self.hooks.force, Box::new(hook));
    }
}
