//! Pauses of reclaim, and the kernel's work on a CPU whose program pauses.
//!
//! A real kernel has threads for background reclaim and write-back, and completion interrupts for
//! writes. All of these continue while a program waits. The CPU of a waiting program therefore does
//! the work of an idle CPU. Only compaction takes too long: it waits until the program continues.

use framewright::{
    NodeId,
    reclaim::{Pause, Throttle},
};

use super::KernelState;
use crate::engine::Cpu;

impl KernelState<'_, '_> {
    /// Waits until a pause is over, or until its time limit.
    pub(super) fn wait_for(&self, pause: &Pause<'_>) {
        let cpu = self.current();
        let may_expire = matches!(pause.why(), Throttle::NoProgress | Throttle::Congested);
        if may_expire && cpu.ignores_clocks() {
            // Only the time limit could end the pause, and no time passes in a schedule that
            // ignores clocks.
            return;
        }
        let at = cpu.id().index();
        let most = cpu.model().cycles_of_nanos(pause.at_most());
        let end = cpu.now() + most;
        // Background reclaim that runs on this CPU meanwhile may pause, too.
        let outer = self.paused[at].replace(Some((pause.node(), pause.why())));
        // No other CPU runs between this check and the wait, so no wake-up is lost.
        while !pause.is_over() && cpu.now() < end {
            if !self.do_kernel_work_without_token(cpu) {
                cpu.wait_on_until(&self.idle[at], end.min(self.next_event(cpu)));
            }
        }
        self.paused[at].set(outer);
    }

    /// Wakes the CPUs whose programs pause for this reason on this node.
    pub(super) fn wake_paused(&self, node: NodeId, why: Throttle) {
        let cpu = self.current();
        for (paused, idle) in self.paused.iter().zip(&self.idle) {
            if paused.get() == Some((node, why)) {
                idle.wake_all(cpu);
            }
        }
    }

    /// The time of the next event that a CPU must handle: background reclaim is due, or a write
    /// ends.
    pub(super) fn next_event(&self, cpu: Cpu<'_>) -> u64 {
        let background = self.background_of(cpu.id());
        let due = background.map_or(u64::MAX, |background| background.due_on(cpu.id()));
        due.min(self.cache.next_write_ends().unwrap_or(u64::MAX))
    }

    /// Does a bounded part of the kernel's work on a CPU whose token the program has. Returns
    /// whether there was any work.
    fn do_kernel_work_without_token(&self, cpu: Cpu<'_>) -> bool {
        let reported = self.report_writes(cpu);
        let background = self.background_of(cpu.id());
        if let Some(background) = background.filter(|it| it.wants_reclaim(cpu.id(), cpu.now())) {
            background.reclaim_beside(self, cpu);
            return true;
        }
        self.wants_writer(cpu.id()) && self.write_back(cpu) || reported
    }
}
