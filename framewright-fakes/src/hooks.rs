//! The hooks of [`FakePlatform`](crate::FakePlatform).

use std::sync::OnceLock;

use framewright::{
    CpuId, Order, Pfn,
    observe::{Corruption, Event},
    platform::{Access, BarrierTarget, Cost, Line, Miss, Section, Site, Wait},
};

/// A call of a method of [`Probe`](framewright::platform::Probe).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeCall {
    /// [`Probe::cost`](framewright::platform::Probe::cost): the work, and how many units of it.
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

/// One slot for each hook.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) wait: Slot<dyn Fn(Wait, u32) + Send + Sync>,
    pub(crate) barrier: Slot<dyn Fn(BarrierTarget) + Send + Sync>,
    pub(crate) irq_restore: Slot<dyn Fn() + Send + Sync>,
    pub(crate) clear: Slot<dyn Fn(Pfn, Order) + Send + Sync>,
    pub(crate) corruption: Slot<dyn Fn(&Corruption) + Send + Sync>,
    pub(crate) trace: Slot<dyn Fn(CpuId, &Event) + Send + Sync>,
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
