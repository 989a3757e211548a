//! Pauses of reclaim: a CPU whose program waits, and what the kernel does on it meanwhile.
//!
//! A running kernel has threads for background reclaim and for writing back, and interrupts for writes
//! that have ended; all of these go on while a program waits. So the CPU of such a program does what
//! it would do if it were idle, but for compaction, which takes long: that waits until the
//! program does not.

use framewright::{
    NodeId,
    reclaim::{Pause, Throttle},
};

use super::Keep;
use crate::engine::Cpu;

impl Keep<'_, '_> {
    /// Waits until a pause is over, and no longer than it may take.
    pub(super) fn wait_for(&self, pause: &Pause<'_>) {
        let cpu = self.current();
        let may_expire = matches!(pause.why(), Throttle::NoProgress | Throttle::Congested);
        if may_expire && cpu.ignores_clocks() {
            // Perhaps nothing but time would end it.
            return;
        }
        let at = cpu.id().index();
        let most = pause.at_most() * 1000 / cpu.model().nanos_per_1000_cycles.max(1);
        let end = cpu.now() + most;
        // Background reclaim that goes on here may pause, too.
        let outer = self.paused[at].replace(Some((pause.node(), pause.why())));
        // Between this look and the wait no other CPU goes first.
        while !pause.is_over() && cpu.now() < end {
            if !self.tend_beside(cpu) {
                cpu.wait_on_until(&self.idle[at], end.min(self.next_event(cpu)));
            }
        }
        self.paused[at].set(outer);
    }

    /// Has CPUs look again whose programs pause for this reason.
    pub(super) fn wake_paused(&self, node: NodeId, why: Throttle) {
        let cpu = self.current();
        for (paused, idle) in self.paused.iter().zip(&self.idle) {
            if paused.get() == Some((node, why)) {
                idle.wake_all(cpu);
            }
        }
    }

    /// When something happens by itself that a CPU has to do with.
    pub(super) fn next_event(&self, cpu: Cpu<'_>) -> u64 {
        let background = self.background_of(cpu.id());
        let due = background.map_or(u64::MAX, |background| background.due_on(cpu.id()));
        due.min(self.cache.next_write_ends().unwrap_or(u64::MAX))
    }

    /// Does what the kernel has to do on a CPU whose token is in use, a little of it; whether there was
    /// anything.
    fn tend_beside(&self, cpu: Cpu<'_>) -> bool {
        let heard = self.hear_of_writes(cpu);
        let background = self.background_of(cpu.id());
        if let Some(background) = background.filter(|it| it.wants_reclaim(cpu.id(), cpu.now())) {
            background.reclaim_beside(self, cpu);
            return true;
        }
        self.wants_writer(cpu.id()) && self.write_back(cpu) || heard
    }
}
