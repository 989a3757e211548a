//! Background reclaim of a node, on its CPUs in turn.

use std::cell::Cell;

use framewright::{
    CpuId, CpuToken, NodeId,
    reclaim::{Kswapd, Reclaim, Rest},
};

use crate::{engine::Cpu, platform::Simulated};

/// Background reclaim of a node. It wanders from one of its CPUs to the next, a step on each, as a
/// scheduler would move it that has as many programs as CPUs besides.
pub(super) struct Background<'k, 'm> {
    /// None while a CPU is at it.
    kswapd: Cell<Option<Kswapd<'k, 'm, Simulated>>>,
    pub(super) cpus: Vec<CpuId>,
    turn: Cell<usize>,
    /// When there is something to do for it.
    pub(super) due: Cell<u64>,
}

impl<'k, 'm> Background<'k, 'm> {
    /// That of a node: on its CPUs, or on the machine's first if it has none.
    pub(super) fn new(reclaim: Reclaim<'k, 'm, Simulated>, nodes: &[u8], node: u8) -> Self {
        let near = (0..).zip(nodes).filter(|&(_, &of)| of == node);
        let mut cpus: Vec<CpuId> = near.map(|(cpu, _)| CpuId::new(cpu)).collect();
        if cpus.is_empty() {
            cpus.push(CpuId::new(0));
        }
        let kswapd = NodeId::new(node).and_then(|node| reclaim.kswapd(node));
        Self { kswapd: Cell::new(kswapd), cpus, turn: Cell::new(0), due: Cell::new(u64::MAX) }
    }

    /// The CPU whose turn it is.
    pub(super) fn turn(&self) -> CpuId {
        self.cpus[self.turn.get()]
    }

    pub(super) fn wants(&self, cpu: CpuId, now: u64) -> bool {
        self.due.get() <= now && self.turn() == cpu
    }

    /// A step on `cpu`, whose turn it is.
    pub(super) fn step(&self, cpu: Cpu<'_>, token: &mut CpuToken<'_, 'm, Simulated>) {
        let Some(mut kswapd) = self.kswapd.take() else { return };
        // Whoever wakes it from now on, wakes it for something new.
        self.due.set(u64::MAX);
        let rest = kswapd.step(token);
        self.kswapd.set(Some(kswapd));
        let nap = Kswapd::<Simulated>::NAP * 1000 / cpu.model().nanos_per_1000_cycles.max(1);
        let due = match rest {
            Rest::None => cpu.now(),
            Rest::Nap => cpu.now() + nap,
            Rest::Sleep => u64::MAX,
        };
        self.due.set(self.due.get().min(due));
        self.turn.set((self.turn.get() + 1) % self.cpus.len());
    }
}
