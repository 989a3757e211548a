//! What the kernel does when memory runs short: the library's [`Relief`], which forwards to its reclaim.

use framewright::{
    NodeId, Order, ZoneId, ZoneKind,
    platform::{Need, Relief},
    reclaim::Reclaim,
};

use crate::{file, kthread, memory, platform::Machine, shootdown::Hardware};

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel;

/// Reclaim of this machine's memory, once there is one.
pub(crate) fn reclaim() -> Option<Reclaim<'static, 'static, Machine>> {
    Reclaim::new(memory::get()?, &file::Owner, &Hardware)
}

impl Relief for Kernel {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        if reclaim().is_some_and(|reclaim| reclaim.wake(node, order, highest)) {
            kthread::wake_kswapd(node);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        reclaim().map_or(0, |reclaim| reclaim.direct(need, frames))
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        reclaim().map(|reclaim| reclaim.reclaimable(zone))
    }
}
