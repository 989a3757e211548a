//! Background reclaim of a node, which runs on its CPUs in turn, and compaction after it.
//!
//! Compaction runs in three cases: for requests of higher orders, when reclaim goes to sleep; after
//! a fallback between migratetypes, when reclaim has freed as much as the watermark boost; and for
//! the huge-page reserve, also between steps of reclaim.

use std::cell::Cell;

use framewright::{
    CpuId, CpuToken, NodeId, Order, ZoneKind,
    reclaim::{Kswapd, NextStep, Reclaim},
};

use super::{KernelState, KswapdSteps, StepDone};
use crate::{
    engine::{Activity, Cpu},
    platform::Simulated,
};

/// Background reclaim of a node. Each step runs on the next CPU of the node, as a scheduler
/// distributes a kernel thread if every CPU has a program.
pub(super) struct Background<'k, 'm> {
    pub(super) steps: KswapdSteps<'k, 'm, Simulated>,
    pub(super) cpus: Vec<CpuId>,
    turn: Cell<usize>,
    node: NodeId,
}

impl<'k, 'm> Background<'k, 'm> {
    /// Background reclaim of a node, on the CPUs of the node, or on CPU 0 if the node has none.
    pub(super) fn new(reclaim: Reclaim<'k, 'm, Simulated>, nodes: &[u8], node: u8) -> Self {
        let near = (0..).zip(nodes).filter(|&(_, &of)| of == node);
        let mut cpus: Vec<CpuId> = near.map(|(cpu, _)| CpuId::new(cpu)).collect();
        if cpus.is_empty() {
            cpus.push(CpuId::new(0));
        }
        let node = NodeId::new(node).unwrap_or_default();
        let steps = KswapdSteps::new(reclaim.kswapd(node));
        Self { steps, cpus, turn: Cell::new(0), node }
    }

    /// The CPU that runs the next step.
    pub(super) fn turn(&self) -> CpuId {
        self.cpus[self.turn.get()]
    }

    /// The time of the next step of reclaim on this CPU; `u64::MAX` if there is none.
    pub(super) fn due_on(&self, cpu: CpuId) -> u64 {
        if self.turn() == cpu { self.steps.due() } else { u64::MAX }
    }

    pub(super) fn wants(&self, cpu: CpuId, now: u64) -> bool {
        self.steps.has_result() && self.turn() == cpu || self.wants_reclaim(cpu, now)
    }

    /// Whether a step of reclaim is due on this CPU, as opposed to compaction.
    pub(super) fn wants_reclaim(&self, cpu: CpuId, now: u64) -> bool {
        self.due_on(cpu) <= now
    }

    /// Runs a step on `cpu`, which is the next CPU.
    pub(super) fn step(
        &self,
        kernel: &KernelState<'k, 'm>,
        cpu: Cpu<'_>,
        token: &mut CpuToken<'_, 'm, Simulated>,
    ) {
        self.reclaim(cpu, |kswapd| kswapd.step(token));
        if let Some(done) = self.steps.take_result() {
            self.compact_after(done, kernel, cpu);
        }
        self.pass_on(kernel, cpu);
    }

    /// Runs a step of reclaim without compaction on `cpu`, which is the next CPU and whose token is
    /// in use.
    pub(super) fn reclaim_beside(&self, kernel: &KernelState<'k, 'm>, cpu: Cpu<'_>) {
        self.reclaim(cpu, |kswapd| kswapd.step_on(cpu.id()));
        self.pass_on(kernel, cpu);
    }

    /// Runs a step of reclaim, if one is due.
    fn reclaim(&self, cpu: Cpu<'_>, step: impl FnOnce(&mut Kswapd<'k, 'm, Simulated>) -> NextStep) {
        let delay = cpu.model().cycles_of_nanos(Kswapd::<Simulated>::DELAY);
        let step = |kswapd: &mut _| cpu.during(Activity::BackgroundReclaim, || step(kswapd));
        self.steps.step(|| cpu.now(), delay, step);
    }

    /// Passes the next step to the next CPU, and wakes it if it is idle.
    fn pass_on(&self, kernel: &KernelState<'k, 'm>, cpu: Cpu<'_>) {
        self.turn.set((self.turn.get() + 1) % self.cpus.len());
        kernel.idle[self.turn().index()].wake_all(cpu);
    }

    fn compact_after(&self, done: StepDone, kernel: &KernelState<'k, 'm>, cpu: Cpu<'_>) {
        if let Some((order, highest)) = done.compaction {
            self.compact(kernel, cpu, order, highest);
        }
        let (order, highest) =
            if done.sleeps { self.steps.take_request() } else { Default::default() };
        if order > Order::ZERO {
            self.compact(kernel, cpu, order, highest);
        } else if kernel.memory.can_fill_huge_reserve(self.node) {
            // This compaction serves only the huge-page reserve. A recorded request is compacted
            // when kswapd goes to sleep.
            self.compact(kernel, cpu, Order::ZERO, ZoneKind::Movable);
        }
    }

    /// Compacts for a request, without skip hints of earlier passes, and for the huge-page reserve.
    fn compact(&self, kernel: &KernelState<'k, 'm>, cpu: Cpu<'_>, order: Order, highest: ZoneKind) {
        let wakes = kernel.memory.wakes_compaction(cpu.id(), self.node, order, highest);
        cpu.during(Activity::BackgroundCompaction, || {
            kernel.compacting(cpu.id(), |compactor| {
                compactor.reset_skip_hints(self.node);
                wakes && compactor.background(self.node, order, highest)
            })
        });
    }
}
