//! Background reclaim of a node, which runs on its CPUs in turn, and compaction after it.
//!
//! Compaction runs for requests of higher orders when reclaim goes to sleep; for pageblocks of
//! mixed types, once reclaim has freed enough; and for the huge-page reserve, also between steps.

use std::cell::Cell;

use framewright::{
    CpuId, CpuToken, NodeId, Order, ZoneKind,
    reclaim::{Kswapd, NextStep, Reclaim},
};

use super::KernelState;
use crate::{engine::Cpu, platform::Simulated};

/// Background reclaim of a node. Each step runs on the next CPU of the node: a scheduler
/// distributes a kernel thread like that if every CPU has a program.
pub(super) struct Background<'k, 'm> {
    /// `None` while a CPU runs a step.
    kswapd: Cell<Option<Kswapd<'k, 'm, Simulated>>>,
    /// Whether a CPU runs a step.
    busy: Cell<bool>,
    /// The result of the last step, until compaction has taken it.
    done: Cell<Option<Done>>,
    pub(super) cpus: Vec<CpuId>,
    turn: Cell<usize>,
    /// The time of the next step, in cycles.
    pub(super) due: Cell<u64>,
    node: NodeId,
    /// The largest order requested since the last compaction.
    order: Cell<Order>,
    highest: Cell<ZoneKind>,
}

/// The result of a step.
#[derive(Clone, Copy)]
struct Done {
    rests: bool,
    compaction: Option<(Order, ZoneKind)>,
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
        Self {
            kswapd: Cell::new(reclaim.kswapd(node)),
            busy: Cell::new(false),
            done: Cell::new(None),
            cpus,
            turn: Cell::new(0),
            due: Cell::new(u64::MAX),
            node,
            order: Cell::new(Order::ZERO),
            highest: Cell::default(),
        }
    }

    /// Records a request for frames of zones up to `highest`.
    pub(super) fn record_request(&self, order: Order, highest: ZoneKind) {
        self.order.set(self.order.get().max(order));
        self.highest.set(highest);
    }

    /// The CPU that runs the next step.
    pub(super) fn turn(&self) -> CpuId {
        self.cpus[self.turn.get()]
    }

    /// Whether this CPU runs the next step, and no step is in progress.
    fn may_step(&self, cpu: CpuId) -> bool {
        !self.busy.get() && self.turn() == cpu
    }

    /// The time of the next step of reclaim on this CPU; `u64::MAX` if there is none.
    pub(super) fn due_on(&self, cpu: CpuId) -> u64 {
        if self.may_step(cpu) { self.due.get() } else { u64::MAX }
    }

    pub(super) fn wants(&self, cpu: CpuId, now: u64) -> bool {
        self.done.get().is_some() && self.may_step(cpu) || self.wants_reclaim(cpu, now)
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
        if self.wants_reclaim(cpu.id(), cpu.now()) {
            self.reclaim(cpu, |kswapd| kswapd.step(token));
        }
        if let Some(done) = self.done.take() {
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

    fn reclaim(&self, cpu: Cpu<'_>, step: impl FnOnce(&mut Kswapd<'k, 'm, Simulated>) -> NextStep) {
        let Some(mut kswapd) = self.kswapd.take() else { return };
        self.busy.set(true);
        // From now on, wake-ups are for new requests.
        self.due.set(u64::MAX);
        let rest = step(&mut kswapd);
        let compaction = kswapd.take_compaction();
        self.kswapd.set(Some(kswapd));
        self.busy.set(false);
        let delay = Kswapd::<Simulated>::DELAY * 1000 / cpu.model().nanos_per_1000_cycles.max(1);
        let due = match rest {
            NextStep::Now => cpu.now(),
            NextStep::AfterDelay => cpu.now() + delay,
            NextStep::WhenWoken => u64::MAX,
        };
        self.due.set(self.due.get().min(due));
        let before = self.done.get().and_then(|done| done.compaction);
        let compaction = compaction.or(before);
        self.done.set(Some(Done { rests: rest != NextStep::Now, compaction }));
    }

    /// Passes the next step to the next CPU, and wakes it if it is idle.
    fn pass_on(&self, kernel: &KernelState<'k, 'm>, cpu: Cpu<'_>) {
        self.turn.set((self.turn.get() + 1) % self.cpus.len());
        kernel.idle[self.turn().index()].wake_all(cpu);
    }

    fn compact_after(&self, done: Done, kernel: &KernelState<'k, 'm>, cpu: Cpu<'_>) {
        if let Some((order, highest)) = done.compaction {
            self.compact(kernel, cpu, order, highest);
        }
        if done.rests && self.order.get() > Order::ZERO {
            self.compact(kernel, cpu, self.order.replace(Order::ZERO), self.highest.get());
        } else if kernel.memory.can_fill_huge_reserve(self.node) {
            // The request that needed the order compacts once enough frames are free.
            self.compact(kernel, cpu, Order::ZERO, ZoneKind::Movable);
        }
    }

    /// Compacts for a request, without skip hints of earlier passes, and for the huge-page reserve.
    fn compact(&self, kernel: &KernelState<'k, 'm>, cpu: Cpu<'_>, order: Order, highest: ZoneKind) {
        let wakes = kernel.memory.wakes_compaction(cpu.id(), self.node, order, highest);
        kernel.compacting(cpu.id(), |compactor| {
            compactor.reset_skip_hints(self.node);
            wakes && compactor.background(self.node, order, highest)
        });
    }
}
