//! Relief: reclaim and compaction as hooks of the embedder, which the allocator calls when memory runs short.
//!
//! The slow path of allocations decides *when* a hook is called, and the embedder's [`Relief`]
//! decides *how* memory is freed. There are hooks to wake background reclaim, to reclaim, to
//! compact, and as a last resort to decide whether an unserved request tries again or fails. Every
//! method has a default that does nothing, so an embedder without reclaim defines none of them.
//!
//! All methods are called without any lock of the library. The slow path calls them on the CPU that
//! needs memory, while that CPU's token is in use; `wake`, `pause` and `resume` have other callers, too.
//! The methods may allocate and free: with the tokens of other CPUs, or with
//! [`Memory::alloc_bypassing_lists`](crate::Memory::alloc_bypassing_lists) and
//! [`Memory::free_bypassing_lists`](crate::Memory::free_bypassing_lists). **No recursion**: the methods must
//! allocate with [`Request::inside_relief`](crate::Request::inside_relief). Such a request may use all reserves, and
//! does not call these methods again.

mod capture;
mod need;
mod pause;
mod slot;
mod verdict;

use crate::types::{NodeId, Order, ZoneId, ZoneKind};

pub use capture::Captured;
pub(crate) use capture::{CaptureSlot, MOVES_PER_DRAIN};
pub use need::{CompactPriority, Compacted, Need};
pub use pause::{Pause, Throttle};
pub use slot::ReliefSlot;
pub use verdict::{NoKillReason, OutOfMemory, Verdict};

/// Reclaim and compaction as the allocator sees them.
pub trait Relief {
    /// Whether there is background reclaim, which lowers the boost of watermarks and the huge-page
    /// reserve ([`Memory::lower_boost`](crate::Memory::lower_boost);
    /// [`Kswapd`](crate::reclaim::Kswapd) calls it). Called after a fallback that mixes
    /// migratetypes in a pageblock, when a request found no huge page, and by direct reclaim. While
    /// this method returns `false`, neither the boost nor the reserve grows, and direct reclaim does
    /// not pause for [`Throttle::Reserve`]. When an embedder ends its background reclaim for good, it
    /// must first remove the rest of both.
    fn reclaims_in_background(&self) -> bool {
        false
    }

    /// Wakes background reclaim of `node`: a request for `order` that can use zones up to `highest`
    /// found its zones below their low watermarks. With `alloc.defrag_mode`, `order` is at least that
    /// of a pageblock. Also called, with order 0, when a watermark was boosted, or before a pause for
    /// the reserve. Must not wait, because requests that cannot wait call this method, too.
    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        let _ = (node, order, highest);
    }

    /// Frees about `frames` frames that the request could use, before it returns. Returns the
    /// number of freed frames; 0 means no progress.
    ///
    /// If compaction is to form the block, `frames` may be less than the size of the block:
    /// compaction only needs free frames to move pages to. If there are enough of them already,
    /// free nothing and return 1.
    ///
    /// Must not [start I/O](crate::Request::may_io) or [call into file systems](crate::Request::may_fs) if the request
    /// cannot.
    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        let _ = (need, frames);
        0
    }

    /// The maximum number of frames of a zone that reclaim could still free. `None` if the number is unknown: then a
    /// request tries again only after progress.
    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        let _ = zone;
        None
    }

    /// Waits until [`Pause::is_over`], but no longer than [`Pause::at_most`]. Called by direct and
    /// background reclaim with no page locked or isolated. The default does not wait. Reclaim ends
    /// after the same number of rounds whether the pause waits or not, but a pause that ends before
    /// its condition is met is counted ([`Throttle::expired`]).
    ///
    /// To lose no wake-up, put the CPU or thread on the wait queue that [`Relief::resume`] wakes, *then*
    /// check `is_over` once more, then wait; check again after each wake-up. The condition must be able to
    /// become true meanwhile: writes must complete, and background reclaim must continue. If background
    /// reclaim runs on the CPU that pauses, run it from here:
    /// [`Kswapd::step_on`](crate::reclaim::Kswapd::step_on).
    fn pause(&self, pause: &Pause<'_>) {
        let _ = pause;
    }

    /// Wakes all waiters that [pause](Relief::pause) for this reason on a node. They check their condition again.
    /// Called only while there are such waiters. Called on any CPU, from reclaim, from
    /// [putting a page back](crate::reclaim::Lru::put_back) and from the
    /// [end of a write](crate::reclaim::Reclaim::written). Must neither wait nor call the library. The default does
    /// nothing.
    fn resume(&self, node: NodeId, why: Throttle) {
        let _ = (node, why);
    }

    /// Moves pages to form a block of the request's order in a zone that the request can use. The formed block may be
    /// handed over through `captured`, before another request takes it.
    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        let _ = (need, priority, captured);
        Compacted::Unavailable
    }

    /// Called when reclaim and compaction did not help. Frees memory by force, for instance by killing a
    /// task, and returns [`Verdict::Retry`]; or lets the request fail. One request at a time makes this
    /// call; others wait for its end through [`Platform::wait`](super::Platform::wait).
    ///
    /// A killed task that needs memory to exit requests it as [`oom_victim`](crate::Request::oom_victim).
    fn out_of_memory(&self, report: &OutOfMemory) -> Verdict {
        let _ = report;
        Verdict::GiveUp
    }
}

/// No relief: every call reports no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRelief;

impl Relief for NoRelief {}
