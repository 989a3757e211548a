//! Pauses of reclaim, and background reclaim that continues meanwhile.
//!
//! The kernel's own work has no CPU to itself on simulated machines: the CPU that runs it may pause. So every
//! CPU that pauses does the part of this work that pauses may wait for: background reclaim, and handling the
//! ends of writes.

use framewright::reclaim::{Kswapd, NextStep, Pause};

use super::{
    kernel::{Done, Kernel, Woken},
    world::{OnCpu, World},
};

impl<'m, W: World> Kernel<'_, 'm, W> {
    /// Waits until a pause is over, or until its time limit. Called with the kernel's lock held.
    pub(super) fn wait_for(&self, pause: &Pause<'_>) {
        let cpu = self.current();
        let end = cpu.now() + self.ticks(pause.at_most());
        while !pause.is_over() && cpu.now() < end {
            self.hear_of_writes(cpu);
            self.hear_of_swapped(cpu);
            if self.step_kswapd(cpu, |kswapd| kswapd.step_on(cpu.id())) || pause.is_over() {
                continue;
            }
            self.world.wait_paused(cpu, self.next_event().min(end));
        }
    }

    /// The time of the next event that a CPU must handle: a write ends, or background reclaim is
    /// due.
    pub(super) fn next_event(&self) -> u64 {
        let written = self.state.files.writes.borrow().front().map(|write| write.ends);
        let kswapd = self.kswapd.take();
        let due = kswapd.is_some().then(|| self.woken.get().due);
        self.kswapd.set(kswapd);
        [written, self.state.swap.next(), due].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Runs a step of background reclaim, if one is due and no other CPU runs one. Returns whether it ran.
    pub(super) fn step_kswapd(
        &self,
        cpu: W::Cpu,
        step: impl FnOnce(&mut Kswapd<'_, 'm, W::Platform>) -> NextStep,
    ) -> bool {
        if self.woken.get().due > cpu.now() {
            return false;
        }
        let Some(mut kswapd) = self.kswapd.take() else { return false };
        // A wake-up from now on is for new work, and must not be overwritten.
        self.woken.set(Woken { due: u64::MAX, ..self.woken.get() });
        let rest = self.world.outside(|| step(&mut kswapd));
        let made_room_for = kswapd.take_compaction().or(self.done.get().made_room_for);
        self.kswapd.set(Some(kswapd));
        let due = match rest {
            NextStep::Now => cpu.now(),
            NextStep::AfterDelay => cpu.now() + self.ticks(Kswapd::<W::Platform>::DELAY),
            NextStep::WhenWoken => u64::MAX,
        };
        let woken = self.woken.get();
        self.woken.set(Woken { due: woken.due.min(due), ..woken });
        self.done.set(Done { rests: rest != NextStep::Now, made_room_for });
        // Another CPU may run the next step.
        self.world.wake_worker(cpu);
        self.world.wake_paused(cpu);
        true
    }
}
