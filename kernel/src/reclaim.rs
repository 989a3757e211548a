//! Relief when memory runs short: the library's [`Relief`], which calls its reclaim and its compaction.

use framewright::{
    NodeId, Order, ZoneId, ZoneKind,
    platform::{Captured, CompactPriority, Compacted, Need, Relief},
    reclaim::{Pause, Reclaim, Throttle},
};

use crate::{
    clock::Clock,
    compaction, file, kthread, memory,
    platform::Machine,
    shootdown::Hardware,
    wait::{self, Event},
};

/// The kernel's [`Relief`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel;

/// Reclaim of this machine's memory, after the memory was created.
pub(crate) fn reclaim() -> Option<Reclaim<'static, 'static, Machine>> {
    // SAFETY: there is only one memory, and the frames of files come from it; `Hardware` flushes
    // all translations to them.
    #[allow(unsafe_code)]
    unsafe {
        Reclaim::new(memory::get()?, &file::Owner, &Hardware)
    }
}

impl Relief for Kernel {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        compaction::want(node, order);
        if reclaim().is_some_and(|reclaim| reclaim.wake(node, order, highest)) {
            kthread::wake_kswapd(node);
        } else if order > Order::ZERO {
            // Enough frames are free, but not in one block.
            kthread::wake_kcompactd(node);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        reclaim().map_or(0, |reclaim| reclaim.direct(need, frames))
    }

    fn pause(&self, pause: &Pause<'_>) {
        let end = Clock::now() + pause.at_most();
        // Only kswapd pauses for writeback, and a kernel thread must not run other threads.
        let is_kswapd = pause.why() == Throttle::WriteBack;
        wait::until(Event::RESUMED, || {
            if !is_kswapd && kthread::run_kswapd() {
                // kswapd may have more work, or a pause of its own: check again before halting.
                wait::stay_awake();
            }
            pause.is_over() || Clock::now() >= end
        });
    }

    fn resume(&self, _: NodeId, _: Throttle) {
        wait::wake(Event::RESUMED);
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        compaction::for_request(need, priority, captured)
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        reclaim().map(|reclaim| reclaim.reclaimable(zone))
    }
}
