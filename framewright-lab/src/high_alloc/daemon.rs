//! What the kernel does by itself: background reclaim, background compaction after it, writing back.
//!
//! A thread does it that has no CPU of its own on simulated machines. It has that of who asks for huge pages while
//! he rests, which is most of the time; while he asks it takes turns with builders on the last CPU of theirs, as
//! running kernels' threads do: what was asked of it may be done before the request is at its end. When builders
//! have ended, it waits until the request has.

use framewright::{
    Order,
    reclaim::{Kswapd, Rest},
};

use super::{
    kernel::{Kernel, Token, Woken},
    world::{OnCpu, World},
};

/// Dirty pages that wait to become more.
const FEW_DIRTY: u64 = 2_048;
/// How often somebody looks whether memory is fragmented, and how long not after that was in vain.
const LOOKS_NS: u64 = 500_000_000;
const RESTS_NS: u64 = 32_000_000_000;

/// See the module.
pub(super) struct Daemon<'k, 'm, W: World> {
    kswapd: Kswapd<'k, 'm, W::Platform>,
    looks_at: u64,
}

impl<'k, 'm, W: World> Daemon<'k, 'm, W> {
    pub(super) fn new(kswapd: Kswapd<'k, 'm, W::Platform>) -> Self {
        Self { kswapd, looks_at: 0 }
    }

    /// Does what there is to do until `time`.
    pub(super) fn work_until(
        &mut self,
        time: u64,
        cpu: W::Cpu,
        kernel: &Kernel<'_, 'm, W>,
        token: &mut Token<'_, 'm, W>,
    ) {
        while cpu.now() < time {
            if self.step(cpu, kernel, token) {
                continue;
            }
            let written = kernel.state.files.writes.borrow().front().map(|write| write.ends);
            let due = [written, kernel.state.swap.next()].into_iter().flatten();
            let due = due.chain([kernel.woken.get().due, self.looks_at, time]).min();
            kernel.world.wait_for_work(cpu, due.unwrap_or(time));
        }
    }

    /// Does a bit of what there is to do; whether there was anything.
    pub(super) fn step(
        &mut self,
        cpu: W::Cpu,
        kernel: &Kernel<'_, 'm, W>,
        token: &mut Token<'_, 'm, W>,
    ) -> bool {
        kernel.hear_of_writes(cpu);
        kernel.hear_of_swapped(cpu);
        let files = &kernel.state.files;
        let writes = files.dirty_pages.get() > FEW_DIRTY || files.writers_wanted.get();
        if writes && !kernel.write_back(cpu) {
            files.writers_wanted.set(false);
        }
        if kernel.woken.get().due <= cpu.now() {
            self.reclaim(cpu, kernel, token);
        } else if self.looks_at <= cpu.now() {
            self.look(cpu, kernel);
        } else {
            return writes;
        }
        true
    }

    /// A step of background reclaim; compaction where it made room, and, when there is no more to do, for who
    /// asked.
    fn reclaim(&mut self, cpu: W::Cpu, kernel: &Kernel<'_, 'm, W>, token: &mut Token<'_, 'm, W>) {
        // Whoever wakes it from now on, wakes it for something new.
        kernel.woken.set(Woken { due: u64::MAX, ..kernel.woken.get() });
        let rest = kernel.world.outside(|| self.kswapd.step(token));
        kernel.shrink_objects();
        let due = match rest {
            Rest::None => cpu.now(),
            Rest::Nap => cpu.now() + kernel.ticks(Kswapd::<W::Platform>::NAP),
            Rest::Sleep => u64::MAX,
        };
        let woken = kernel.woken.get();
        kernel.woken.set(Woken { due: woken.due.min(due), ..woken });
        let node = self.kswapd.node();
        if let Some((order, highest)) = self.kswapd.take_compaction()
            && kernel.memory.wakes_compaction(cpu.id(), node, order, highest)
        {
            kernel.world.outside(|| {
                kernel.compacting(cpu.id(), |compactor| compactor.background(node, order, highest));
            });
        }
        if !matches!(rest, Rest::None) {
            self.compact(cpu, kernel);
        }
    }

    /// For who asked, with hints from before forgotten.
    fn compact(&self, cpu: W::Cpu, kernel: &Kernel<'_, 'm, W>) {
        let Woken { order, highest, .. } = kernel.woken.get();
        kernel.woken.set(Woken { order: Order::ZERO, ..kernel.woken.get() });
        let node = kernel.node(cpu.id());
        kernel.world.outside(|| {
            let wakes = order > Order::ZERO
                && kernel.memory.wakes_compaction(cpu.id(), node, order, highest);
            kernel.compacting(cpu.id(), |compactor| {
                compactor.forget_hints(node);
                if wakes {
                    compactor.background(node, order, highest);
                }
            });
        });
    }

    /// Compacts before anybody asks, if memory is fragmented.
    fn look(&mut self, cpu: W::Cpu, kernel: &Kernel<'_, 'm, W>) {
        let node = kernel.node(cpu.id());
        let look = || kernel.compacting(cpu.id(), |compactor| compactor.proactive(node));
        let better = kernel.world.outside(look);
        let pause = if better == Some(0) { RESTS_NS } else { LOOKS_NS };
        self.looks_at = cpu.now() + kernel.ticks(pause);
    }
}
