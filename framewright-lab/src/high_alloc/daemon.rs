//! What the kernel does by itself, on the CPU that asks for huge pages, between two requests:
//! background reclaim, background compaction after it, writing back.

use framewright::{
    Order,
    reclaim::{Kswapd, Rest},
};
use framewright_sim::{engine::Cpu, platform::Simulated};

use super::kernel::{Kernel, Token, Woken};

/// Dirty pages that wait to become more.
const FEW_DIRTY: u64 = 2_048;
/// How often somebody looks whether memory is fragmented, and how long not after that was in vain.
const LOOKS_NS: u64 = 500_000_000;
const RESTS_NS: u64 = 32_000_000_000;

/// See the module.
pub(super) struct Daemon<'k, 'm> {
    kswapd: Kswapd<'k, 'm, Simulated>,
    looks_at: u64,
}

impl<'k, 'm> Daemon<'k, 'm> {
    pub(super) fn new(kswapd: Kswapd<'k, 'm, Simulated>) -> Self {
        Self { kswapd, looks_at: 0 }
    }

    /// Does what there is to do until `time`.
    pub(super) fn work_until(
        &mut self,
        time: u64,
        cpu: Cpu<'_>,
        kernel: &Kernel<'_, 'm>,
        token: &mut Token<'_, 'm>,
    ) {
        while cpu.now() < time {
            kernel.hear_of_writes(cpu);
            let files = &kernel.state.files;
            let writes = files.dirty_pages.get() > FEW_DIRTY || files.writers_wanted.get();
            if writes && !kernel.write_back(cpu) {
                files.writers_wanted.set(false);
            }
            if kernel.woken.get().due <= cpu.now() {
                self.reclaim(cpu, kernel, token);
            } else if self.looks_at <= cpu.now() {
                self.look(cpu, kernel);
            } else if !writes {
                let written = files.writes.borrow().front().map_or(u64::MAX, |write| write.ends);
                let due = kernel.woken.get().due.min(self.looks_at).min(written).min(time);
                cpu.wait_on_until(&kernel.idle, due);
            }
        }
    }

    /// A step of background reclaim; when there is no more to do, compaction for who asked.
    fn reclaim(&mut self, cpu: Cpu<'_>, kernel: &Kernel<'_, 'm>, token: &mut Token<'_, 'm>) {
        // Whoever wakes it from now on, wakes it for something new.
        kernel.woken.set(Woken { due: u64::MAX, ..kernel.woken.get() });
        let before = kernel.reclaimed_in_background();
        let rest = self.kswapd.step(token);
        let freed = kernel.reclaimed_in_background() - before;
        if freed > 0 {
            kernel.shrink_objects(freed);
        }
        let due = match rest {
            Rest::None => cpu.now(),
            Rest::Nap => cpu.now() + kernel.cycles(Kswapd::<Simulated>::NAP),
            Rest::Sleep => u64::MAX,
        };
        let woken = kernel.woken.get();
        kernel.woken.set(Woken { due: woken.due.min(due), ..woken });
        if matches!(rest, Rest::Sleep) {
            self.compact(cpu, kernel);
        }
    }

    fn compact(&self, cpu: Cpu<'_>, kernel: &Kernel<'_, 'm>) {
        let Woken { order, highest, .. } = kernel.woken.get();
        kernel.woken.set(Woken { order: Order::ZERO, ..kernel.woken.get() });
        let node = kernel.node(cpu.id());
        kernel.compacting(cpu.id(), |compactor| {
            compactor.forget_hints(node);
            if order > Order::ZERO {
                compactor.background(node, order, highest);
            }
        });
    }

    /// Compacts before anybody asks, if memory is fragmented.
    fn look(&mut self, cpu: Cpu<'_>, kernel: &Kernel<'_, 'm>) {
        let node = kernel.node(cpu.id());
        let better = kernel.compacting(cpu.id(), |compactor| compactor.proactive(node));
        let pause = if better == Some(0) { RESTS_NS } else { LOOKS_NS };
        self.looks_at = cpu.now() + kernel.cycles(pause);
    }
}
