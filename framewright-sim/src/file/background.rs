//! Background reclaim of a node, on its CPUs in turn; and compaction behind it: for who asked for more
//! than single frames, when it rests; where types were mixed, once there is room; and for what zones keep
//! ready for huge pages, also while it works.

use std::cell::Cell;

use framewright::{
    CpuId, CpuToken, NodeId, Order, ZoneKind,
    reclaim::{Kswapd, NextStep, Reclaim},
};

use super::Keep;
use crate::{engine::Cpu, platform::Simulated};

/// Background reclaim of a node. It wanders from one of its CPUs to the next, a step on each, as a
/// scheduler would move it that has as many programs as CPUs besides.
pub(super) struct Background<'k, 'm> {
    /// None while a CPU is at it.
    kswapd: Cell<Option<Kswapd<'k, 'm, Simulated>>>,
    /// A CPU runs a step of it.
    busy: Cell<bool>,
    /// The result of the last step, until compaction has taken it.
    done: Cell<Option<Done>>,
    pub(super) cpus: Vec<CpuId>,
    turn: Cell<usize>,
    /// When there is something to do for it.
    pub(super) due: Cell<u64>,
    node: NodeId,
    /// The largest order that was asked for since compaction looked last.
    order: Cell<Order>,
    highest: Cell<ZoneKind>,
}

/// The result of a step.
#[derive(Clone, Copy)]
struct Done {
    rests: bool,
    made_room_for: Option<(Order, ZoneKind)>,
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

    /// Somebody asks for frames of zones up to `highest`.
    pub(super) fn asked_for(&self, order: Order, highest: ZoneKind) {
        self.order.set(self.order.get().max(order));
        self.highest.set(highest);
    }

    /// The CPU whose turn it is.
    pub(super) fn turn(&self) -> CpuId {
        self.cpus[self.turn.get()]
    }

    /// Whether it is this CPU's turn, and no other step is in progress.
    fn may_step(&self, cpu: CpuId) -> bool {
        !self.busy.get() && self.turn() == cpu
    }

    /// When reclaim has something to do on this CPU.
    pub(super) fn due_on(&self, cpu: CpuId) -> u64 {
        if self.may_step(cpu) { self.due.get() } else { u64::MAX }
    }

    pub(super) fn wants(&self, cpu: CpuId, now: u64) -> bool {
        self.done.get().is_some() && self.may_step(cpu) || self.wants_reclaim(cpu, now)
    }

    /// Whether reclaim, as opposed to compaction, has something to do.
    pub(super) fn wants_reclaim(&self, cpu: CpuId, now: u64) -> bool {
        self.due_on(cpu) <= now
    }

    /// A step on `cpu`, whose turn it is.
    pub(super) fn step(
        &self,
        keep: &Keep<'k, 'm>,
        cpu: Cpu<'_>,
        token: &mut CpuToken<'_, 'm, Simulated>,
    ) {
        if self.wants_reclaim(cpu.id(), cpu.now()) {
            self.reclaim(cpu, |kswapd| kswapd.step(token));
        }
        if let Some(done) = self.done.take() {
            self.compact_after(done, keep, cpu);
        }
        self.pass_on(keep, cpu);
    }

    /// A step of reclaim without compaction on `cpu`, whose turn it is and whose token is in use.
    pub(super) fn reclaim_beside(&self, keep: &Keep<'k, 'm>, cpu: Cpu<'_>) {
        self.reclaim(cpu, |kswapd| kswapd.step_on(cpu.id()));
        self.pass_on(keep, cpu);
    }

    fn reclaim(&self, cpu: Cpu<'_>, step: impl FnOnce(&mut Kswapd<'k, 'm, Simulated>) -> NextStep) {
        let Some(mut kswapd) = self.kswapd.take() else { return };
        self.busy.set(true);
        // Whoever wakes it from now on, wakes it for something new.
        self.due.set(u64::MAX);
        let rest = step(&mut kswapd);
        let made_room_for = kswapd.take_compaction();
        self.kswapd.set(Some(kswapd));
        self.busy.set(false);
        let nap = Kswapd::<Simulated>::DELAY * 1000 / cpu.model().nanos_per_1000_cycles.max(1);
        let due = match rest {
            NextStep::Now => cpu.now(),
            NextStep::AfterDelay => cpu.now() + nap,
            NextStep::WhenWoken => u64::MAX,
        };
        self.due.set(self.due.get().min(due));
        let before = self.done.get().and_then(|done| done.made_room_for);
        let made_room_for = made_room_for.or(before);
        self.done.set(Some(Done { rests: rest != NextStep::Now, made_room_for }));
    }

    /// Passes the next step to the next CPU, and wakes it if it is idle.
    fn pass_on(&self, keep: &Keep<'k, 'm>, cpu: Cpu<'_>) {
        self.turn.set((self.turn.get() + 1) % self.cpus.len());
        keep.idle[self.turn().index()].wake_all(cpu);
    }

    fn compact_after(&self, done: Done, keep: &Keep<'k, 'm>, cpu: Cpu<'_>) {
        if let Some((order, highest)) = done.made_room_for {
            self.compact(keep, cpu, order, highest);
        }
        if done.rests && self.order.get() > Order::ZERO {
            self.compact(keep, cpu, self.order.replace(Order::ZERO), self.highest.get());
        } else if keep.memory.can_restock(self.node) {
            // Who asked comes when there is room for him.
            self.compact(keep, cpu, Order::ZERO, ZoneKind::Movable);
        }
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
