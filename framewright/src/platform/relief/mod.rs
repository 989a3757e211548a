//! Relief: what an embedder can do when memory runs short.
//!
//! The slow path of allocations knows *when* something has to be done, [`Relief`] knows *how*:
//! wake who reclaims in the background, reclaim now, compact now, and in the end judge whether a
//! request that nothing helped shall go on or give up. Every method has a default that does
//! nothing, so an embedder without reclaim writes nothing.
//!
//! All methods are called without any lock of the library, on the CPU that needs memory, while
//! that CPU's token is in use. They may allocate and free: with the tokens of other CPUs, or with
//! [`Memory::alloc_bypassing_lists`](crate::Memory::alloc_bypassing_lists) and
//! [`Memory::free_bypassing_lists`](crate::Memory::free_bypassing_lists). **No recursion**: what they allocate
//! they request with [`Request::inside_relief`], which opens all reserves and never asks for
//! relief in its turn.

mod capture;
mod verdict;

use crate::{
    alloc::Request,
    frame::Order,
    platform::CpuId,
    reclaim::{Pause, Throttle},
    zone::{NodeId, ZoneId, ZoneKind},
};

pub use capture::Captured;
pub(crate) use capture::{CaptureSlot, MOVES_PER_DRAIN};
pub use verdict::{OutOfMemory, Spare, Verdict};

/// A request that is short of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// What is wanted.
    pub request: Request,
    /// The CPU it is wanted on.
    pub cpu: CpuId,
    /// The node it prefers.
    pub node: NodeId,
    /// Whether types are not to be mixed for it: only a block of its own type serves it, or a pageblock that is
    /// free as a whole.
    pub unmixed: bool,
}

impl Need {
    /// Whether a zone of this kind on this node could serve it: freeing elsewhere is in vain.
    #[must_use]
    pub const fn can_use(&self, node: NodeId, kind: ZoneKind) -> bool {
        self.request.allows(node, self.node) && kind as u8 <= self.request.highest() as u8
    }
}

/// How hard compaction is to try.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum CompactPriority {
    /// Without waiting for anything: gives up at the first contention.
    Async,
    /// Waits for locks, but not for pages to be written.
    SyncLight,
    /// Everything that helps: also where it was deferred, or has failed before.
    Sync,
}

impl CompactPriority {
    /// The next harder one.
    #[must_use]
    pub const fn raised(self) -> Option<Self> {
        match self {
            Self::Async => Some(Self::SyncLight),
            Self::SyncLight => Some(Self::Sync),
            Self::Sync => None,
        }
    }
}

/// What a round of compaction came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Compacted {
    /// There is no compaction.
    Unavailable,
    /// Not begun: too little is free to move anything into. Reclaim may change that.
    Skipped,
    /// Not begun: it failed lately, and is given a rest.
    Deferred,
    /// It ran into somebody's lock, or was told to be brief, and stopped.
    Contended,
    /// It went through what there is to look at, and formed no block.
    Complete,
    /// A block of the order formed, which others may have taken since; or it was
    /// [captured](Captured::keep).
    Success,
}

/// Reclaim and compaction as the allocator sees them.
pub trait Relief {
    /// Whether somebody reclaims in the background when woken, and takes down the boost of
    /// watermarks and what is kept ready for huge pages
    /// ([`Memory::lower_boost`](crate::Memory::lower_boost); [`Kswapd`](crate::reclaim::Kswapd) does both by
    /// itself). Asked whenever types were mixed, and when a huge page was missing; while the answer is no,
    /// neither grows. Who stops takes down what is left.
    fn reclaims_in_background(&self) -> bool {
        false
    }

    /// A request for `order` that can use zones up to `highest` found the zones of `node` below
    /// their low watermarks: wake who reclaims there. With order 0 also when a watermark was
    /// boosted. Must not wait: also requests that cannot wait come here.
    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        let _ = (node, order, highest);
    }

    /// Frees about `frames` frames that the request could use, now. Returns how many it freed. Fewer
    /// than the block has are asked for where compaction is to form it; then room for that is
    /// progress, and the answer one at least.
    ///
    /// Where the request [cannot start I/O](Request::may_io) or
    /// [call into file systems](Request::may_fs), nor must this.
    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        let _ = (need, frames);
        0
    }

    /// How many frames of a zone reclaim could still free, at the most. `None` says that nobody
    /// counts them: then trying again is held to be worth while after progress only.
    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        let _ = zone;
        None
    }

    /// Waits until [`Pause::is_over`], but no longer than [`Pause::at_most`]. Called by direct and background
    /// reclaim with no page locked or isolated. The default does not wait. The bounds of reclaim do not
    /// depend on the wait, but a pause that ends before its condition is met is counted
    /// ([`Throttle::expired`]).
    ///
    /// To lose no wake-up, put the CPU or thread on the wait queue that [`Relief::resume`] wakes, *then*
    /// check `is_over` once more, then wait; check again after each wake-up. The condition must be able to
    /// become true meanwhile: writes must complete, and background reclaim must continue. If background
    /// reclaim runs on the CPU that pauses, run it from here:
    /// [`Kswapd::step_on`](crate::reclaim::Kswapd::step_on).
    fn pause(&self, pause: &Pause<'_>) {
        let _ = pause;
    }

    /// Wakes all waiters that [pause](Relief::pause) for this reason on a node, so that they check again.
    /// Called only while there are such waiters. Called on any CPU, from reclaim, from [putting a page
    /// back](crate::reclaim::Lru::put_back) and from the [end of a write](crate::reclaim::Reclaim::written).
    /// Must neither wait nor call the library. The default does nothing.
    fn resume(&self, node: NodeId, why: Throttle) {
        let _ = (node, why);
    }

    /// Moves frames so that a block of the request's order forms in a zone that it can use. Who
    /// sees it form may hand it over through `captured`, before anybody else takes it.
    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        let _ = (need, priority, captured);
        Compacted::Unavailable
    }

    /// Nothing that was tried helped. Frees something by force, ends somebody who holds memory,
    /// and says [`Verdict::Retry`]; or lets the request give up. One request at a time comes here;
    /// others that would wait for it through [`Platform::wait`](super::Platform::wait).
    ///
    /// Whoever is ended and needs memory to end requests it as
    /// [`oom_victim`](Request::oom_victim).
    fn out_of_memory(&self, report: &OutOfMemory) -> Verdict {
        let _ = report;
        Verdict::GiveUp
    }
}

/// No relief: every attempt reports no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRelief;

impl Relief for NoRelief {}
