//! The kernel's background work: background reclaim, compaction after it, write-back.
//!
//! On simulated machines, a thread without a CPU of its own does this work. Between two requests
//! for huge pages, which is most of the time, it runs on the CPU of the requests. During a request
//! it shares the last CPU of the builders, as a scheduler would arrange: background work that a
//! request has woken may finish before the request does. After the builders have ended, the work
//! waits for the end of the request.
//!
//! The CPU that runs the background work may itself pause in reclaim. Every CPU that pauses
//! therefore does the work that ends pauses: background reclaim, and the completion of writes.

use framewright::{
    Order,
    reclaim::{Kswapd, NextStep, Pause},
};
use framewright_sim::{engine::Activity, file::StepDone};

use super::{
    kernel::{CpuContext, Kernel},
    world::{OnCpu, World},
};

/// Write-back starts above this number of dirty pages.
const DIRTY_BACKGROUND: u64 = 2_048;
/// Interval of the checks for proactive compaction, in nanoseconds.
const CHECK_NS: u64 = 500_000_000;
/// The delay after a proactive compaction that improved nothing, in nanoseconds.
const DEFER_NS: u64 = 32_000_000_000;

/// The state of the background work.
#[derive(Default)]
pub(super) struct Daemon {
    next_check: u64,
}

impl Daemon {
    /// Does background work until `time`.
    pub(super) fn work_until<W: World>(&mut self, time: u64, on: &mut CpuContext<'_, '_, '_, W>) {
        let (kernel, cpu) = (on.kernel, on.cpu);
        while cpu.now() < time {
            if self.step(on) {
                continue;
            }
            let due = kernel.next_event().min(self.next_check).min(time);
            kernel.world.wait_for_work(cpu, due);
        }
    }

    /// Does one step of background work. Returns whether there was any.
    pub(super) fn step<W: World>(&mut self, on: &mut CpuContext<'_, '_, '_, W>) -> bool {
        let CpuContext { kernel, cpu, ref mut token } = *on;
        kernel.complete_writes(cpu);
        kernel.complete_swap_writes(cpu);
        let files = &kernel.state.files;
        let writes = files.dirty_pages.get() > DIRTY_BACKGROUND || files.writers_wanted.get();
        if writes && !kernel.write_back(cpu) {
            files.writers_wanted.set(false);
        }
        if kernel.hints_expire.take() {
            let node = kernel.node(cpu.id());
            let reset =
                || kernel.compacting(cpu.id(), |compactor| compactor.reset_skip_hints(node));
            kernel.world.without_lock(reset);
        }
        let reclaimed = kernel.step_kswapd(cpu, |kswapd| kswapd.step(token));
        if reclaimed {
            kernel.shrink_objects();
        }
        if self.compact_after_reclaim(cpu, kernel) || reclaimed {
            return true;
        }
        if self.next_check <= cpu.now() {
            self.compact_proactively(cpu, kernel);
        } else {
            return writes;
        }
        true
    }

    /// Compacts after background reclaim has freed memory for it, and, if background reclaim
    /// sleeps, for the requests that woke it. Returns whether there was work.
    fn compact_after_reclaim<W: World>(&self, cpu: W::Cpu, kernel: &Kernel<'_, '_, W>) -> bool {
        let Some(StepDone { sleeps, compaction }) = kernel.kswapd.take_result() else {
            return false;
        };
        let node = kernel.node(cpu.id());
        if let Some((order, highest)) = compaction
            && kernel.memory.wakes_compaction(cpu.id(), node, order, highest)
        {
            compact_in_background(kernel, || {
                kernel.compacting(cpu.id(), |compactor| compactor.background(node, order, highest));
            });
        }
        if sleeps {
            self.compact(cpu, kernel);
        }
        sleeps || compaction.is_some()
    }

    /// Compacts for requests that woke background compaction, with skip hints reset.
    fn compact<W: World>(&self, cpu: W::Cpu, kernel: &Kernel<'_, '_, W>) {
        let (order, highest) = kernel.kswapd.take_request();
        let node = kernel.node(cpu.id());
        compact_in_background(kernel, || {
            let wakes = order > Order::ZERO
                && kernel.memory.wakes_compaction(cpu.id(), node, order, highest);
            kernel.compacting(cpu.id(), |compactor| {
                compactor.reset_skip_hints(node);
                if wakes {
                    compactor.background(node, order, highest);
                }
            });
        });
    }

    /// Proactive compaction, if memory is fragmented.
    fn compact_proactively<W: World>(&mut self, cpu: W::Cpu, kernel: &Kernel<'_, '_, W>) {
        let node = kernel.node(cpu.id());
        let proactive = || kernel.compacting(cpu.id(), |compactor| compactor.proactive(node));
        let better = compact_in_background(kernel, proactive);
        let pause = if better == Some(0) { DEFER_NS } else { CHECK_NS };
        self.next_check = cpu.now() + kernel.ticks(pause);
    }
}

/// Runs a compaction without the kernel's lock.
fn compact_in_background<W: World, R>(
    kernel: &Kernel<'_, '_, W>,
    compact: impl FnOnce() -> R,
) -> R {
    let compact = || kernel.world.without_lock(compact);
    kernel.world.during(Activity::BackgroundCompaction, compact)
}

impl<'m, W: World> Kernel<'_, 'm, W> {
    /// Waits until a pause is over, or until its time limit. Called with the kernel's lock held.
    pub(super) fn wait_for(&self, pause: &Pause<'_>) {
        let cpu = self.current();
        let end = cpu.now() + self.ticks(pause.at_most());
        while !pause.is_over() && cpu.now() < end {
            self.complete_writes(cpu);
            self.complete_swap_writes(cpu);
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
        [written, self.state.swap.next()].into_iter().flatten().fold(self.kswapd.due(), u64::min)
    }

    /// Runs a step of background reclaim, if one is due and no other CPU runs one. Returns whether
    /// it ran.
    pub(super) fn step_kswapd(
        &self,
        cpu: W::Cpu,
        step: impl FnOnce(&mut Kswapd<'_, 'm, W::Platform>) -> NextStep,
    ) -> bool {
        let delay = self.ticks(Kswapd::<W::Platform>::DELAY);
        let step = |kswapd: &mut _| {
            let step = || self.world.without_lock(|| step(kswapd));
            self.world.during(Activity::BackgroundReclaim, step)
        };
        let stepped = self.kswapd.step(|| cpu.now(), delay, step);
        if stepped {
            // Another CPU may run the next step.
            self.world.wake_worker(cpu);
            self.world.wake_paused(cpu);
        }
        stepped
    }
}
