//! Background reclaim of a node, on its CPUs in turn; and compaction behind it: for who asked for more
//! than single frames, when it rests; where types were mixed, once there is room; and for what zones keep
//! ready for huge pages, also while it works.

use std::cell::Cell;

use framewright::{
    CpuId, CpuToken, NodeId, Order, ZoneKind,
    reclaim::{Kswapd, Reclaim, Rest},
};

use super::Keep;
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
    node: NodeId,
    /// The largest order that was asked for since compaction looked last.
    order: Cell<Order>,
    highest: Cell<ZoneKind>,
}

impl<'k, 'm> Background<'k, 'm> {
    /// That of a node: on its CPUs, or on the machine's first if it has none.
    pub(super) fn new(reclaim: Reclaim<'k, 'm, Simulated>, nodes: &[u8], node: u8) -> Self {
        let near = (0..).zip(nodes).filter(|&(_, &of)| of == node);
        let mut cpus: Vec<CpuId> = near.map(|(cpu, _)| CpuId::new(cpu)).collect();
        if cpus.is_empty() {
            cpus.push(CpuId::new(0));
        }
        let node = NodeId::new(node).unwrap_or_default();
        Self {
            kswapd: Cell::new(reclaim.kswapd(node)),
            cpus,
            turn: Cell::new(0),
            due: Cell::new(u64::MAX),
            node,
            order: Cell::new(Order::ZERO),
            highest: Cell::default(),
        }
    }

    /// Somebody asks for frames of zones up to `highest`.
    pub(super) fn asked_for(&self, order: Order, highest: ZoneKind) {
        self.order.set(self.order.get().max(order));
        self.highest.set(highest);
    }

    /// The CPU whose turn it is.
    pub(super) fn turn(&self) -> CpuId {
        self.cpus[self.turn.get()]
    }

    pub(super) fn wants(&self, cpu: CpuId, now: u64) -> bool {
        self.due.get() <= now && self.turn() == cpu
    }

    /// A step on `cpu`, whose turn it is.
    pub(super) fn step(
        &self,
        keep: &Keep<'k, 'm>,
        cpu: Cpu<'_>,
        token: &mut CpuToken<'_, 'm, Simulated>,
    ) {
        let Some(mut kswapd) = self.kswapd.take() else { return };
        // Whoever wakes it from now on, wakes it for something new.
        self.due.set(u64::MAX);
        let rest = kswapd.step(token);
        let made_room_for = kswapd.take_compaction();
        self.kswapd.set(Some(kswapd));
        let nap = Kswapd::<Simulated>::NAP * 1000 / cpu.model().nanos_per_1000_cycles.max(1);
        let due = match rest {
            Rest::None => cpu.now(),
            Rest::Nap => cpu.now() + nap,
            Rest::Sleep => u64::MAX,
        };
        self.due.set(self.due.get().min(due));
        if let Some((order, highest)) = made_room_for {
            self.compact(keep, cpu, order, highest);
        }
        if !matches!(rest, Rest::None) && self.order.get() > Order::ZERO {
            self.compact(keep, cpu, self.order.replace(Order::ZERO), self.highest.get());
        } else if keep.memory.can_restock(self.node) {
            // Who asked comes when there is room for him.
            self.compact(keep, cpu, Order::ZERO, ZoneKind::Movable);
        }
        self.turn.set((self.turn.get() + 1) % self.cpus.len());
    }

    /// Compacts for who asked, with hints from before forgotten, and for what is kept ready.
    fn compact(&self, keep: &Keep<'k, 'm>, cpu: Cpu<'_>, order: Order, highest: ZoneKind) {
        let wakes = keep.memory.wakes_compaction(cpu.id(), self.node, order, highest);
        keep.compacting(cpu.id(), |compactor| {
            compactor.forget_hints(self.node);
            wakes && compactor.background(self.node, order, highest)
        });
    }
}
