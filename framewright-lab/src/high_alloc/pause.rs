//! Pauses of reclaim, and background reclaim that goes on meanwhile.
//!
//! Who does the kernel's own work has no CPU of his own on simulated machines: it may be his CPU that
//! pauses. So everybody who pauses does of it what others may wait for: reclaim in the background,
//! and hearing of writes that have ended.

use framewright::reclaim::{Kswapd, Pause, Rest};

use super::{
    kernel::{Done, Kernel, Woken},
    world::{OnCpu, World},
};

impl<'m, W: World> Kernel<'_, 'm, W> {
    /// Waits until a pause is over, and no longer than it may take. Inside.
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

    /// When something happens by itself that somebody has to do with.
    pub(super) fn next_event(&self) -> u64 {
        let written = self.state.files.writes.borrow().front().map(|write| write.ends);
        let kswapd = self.kswapd.take();
        let due = kswapd.is_some().then(|| self.woken.get().due);
        self.kswapd.set(kswapd);
        [written, self.state.swap.next(), due].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// A step of background reclaim, if it has something to do and nobody is at it. Whether that was so.
    pub(super) fn step_kswapd(
        &self,
        cpu: W::Cpu,
        step: impl FnOnce(&mut Kswapd<'_, 'm, W::Platform>) -> Rest,
    ) -> bool {
        if self.woken.get().due > cpu.now() {
            return false;
        }
        let Some(mut kswapd) = self.kswapd.take() else { return false };
        // Whoever wakes it from now on, wakes it for something new.
        self.woken.set(Woken { due: u64::MAX, ..self.woken.get() });
        let rest = self.world.outside(|| step(&mut kswapd));
        let made_room_for = kswapd.take_compaction().or(self.done.get().made_room_for);
        self.kswapd.set(Some(kswapd));
        let due = match rest {
            Rest::None => cpu.now(),
            Rest::Nap => cpu.now() + self.ticks(Kswapd::<W::Platform>::NAP),
            Rest::Sleep => u64::MAX,
        };
        let woken = self.woken.get();
        self.woken.set(Woken { due: woken.due.min(due), ..woken });
        self.done.set(Done { rests: rest != Rest::None, made_room_for });
        // Who goes on with it may be somebody else.
        self.world.wake_worker(cpu);
        self.world.wake_paused(cpu);
        true
    }
}
