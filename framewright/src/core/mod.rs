//! The state that allocation, TLB flushes, reclaim and compaction share: zones, zonelists, CPUs with their lists,
//! settings, and the machine.
//!
//! [`Memory`](crate::Memory) has a [`MemoryCore`] beside the states of the layers above this one. Those layers
//! get a reference to it, and to their own state, and know nothing of each other's.
//!
//! | module | job |
//! |---|---|
//! | `claim` | the ownership of a CPU's lists |
//! | `cpus` | claiming, on- and offline, how long lists may grow |
//! | `drain` | returning what is on the lists of CPUs, from any CPU |
//! | `zones` | finding zones: by request, by frame, by node; watermarks |
//! | `isolation` | keeping a stretch of a zone from allocation for a while |
//! | `hotplug` | memory that is added and removed |
//! | `oom_lock` | one request at a time asks for a verdict |
//! | `slow_path`, `kept` | what the slow path of allocation asks of reclaim and compaction |

mod claim;
mod cpus;
mod drain;
mod hotplug;
mod isolation;
mod kept;
mod oom_lock;
mod slow_path;
mod zones;

use crate::{
    pcp::{CpuPages, DrainLog},
    platform::{OwnerLock, Platform, SpinLock},
    sync::AtomicU32,
    tuning::Tuning,
    types::{Block, MemoryTag, Pfn},
    zone::{Zone, Zonelists},
};

pub(crate) use claim::Claim;
pub use cpus::CpuError;
pub(crate) use cpus::CpuState;
use hotplug::HotplugLock;
pub(crate) use kept::KeptFrames;
pub(crate) use oom_lock::OomLock;
pub(crate) use slow_path::SlowPathState;
pub(crate) use zones::LocalZone;

/// The part of a memory that does not depend on reclaim, compaction or TLB flushes.
pub(crate) struct MemoryCore<'m, P: Platform> {
    platform: P,
    zones: &'m [Zone<'m, P>],
    zonelists: Zonelists<'m>,
    /// The lists of every CPU for every zone: all CPUs for the first zone, then the next.
    lists: &'m [CpuPages<'m, P>],
    /// For the same lists, what was drained and is not traced yet. Empty without [`Platform::TRACING`].
    drain_logs: &'m [SpinLock<P, DrainLog<'m>>],
    cpus: &'m [CpuState],
    /// First frame of the lowest zone.
    start: Pfn,
    tuning: Tuning,
    owner_lock: OwnerLock,
    tag: MemoryTag<'m>,
    /// Counts the times that memory came or went.
    generation: AtomicU32,
    oom_lock: OomLock,
    hotplug_lock: HotplugLock,
}

/// The arrays of a memory's core, in the buffer for metadata.
pub(crate) struct CoreArrays<'m, P: Platform> {
    pub(crate) zones: &'m [Zone<'m, P>],
    pub(crate) zonelists: Zonelists<'m>,
    /// The lists of every CPU for every zone: all CPUs for the first zone, then the next.
    pub(crate) lists: &'m [CpuPages<'m, P>],
    /// Their drain logs, or nothing without [`Platform::TRACING`].
    pub(crate) drain_logs: &'m [SpinLock<P, DrainLog<'m>>],
    pub(crate) cpus: &'m [CpuState],
}

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// A core whose zones have no watermarks and whose lists are closed: [`MemoryCore::set_watermarks`] and
    /// [`MemoryCore::size_new_lists`] end that.
    pub(crate) fn new(
        platform: P,
        arrays: &CoreArrays<'m, P>,
        tuning: Tuning,
        owner_lock: OwnerLock,
        tag: MemoryTag<'m>,
    ) -> Self {
        let &CoreArrays { zones, zonelists, lists, drain_logs, cpus } = arrays;
        Self {
            platform,
            zones,
            zonelists,
            lists,
            drain_logs,
            cpus,
            start: zones.iter().map(Zone::base).min().unwrap_or_default(),
            tuning,
            owner_lock,
            tag,
            generation: AtomicU32::new(0),
            oom_lock: OomLock::new(),
            hotplug_lock: HotplugLock::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn platform(&self) -> &P {
        &self.platform
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// How owners of per-CPU lists exclude drainers here.
    pub(crate) fn owner_lock(&self) -> OwnerLock {
        self.owner_lock
    }

    /// Whether a block belongs to this memory.
    pub(crate) fn owns(&self, block: &Block<'m>) -> bool {
        block.belongs_to(self.tag)
    }

    #[inline(always)]
    pub(crate) fn tag(&self) -> MemoryTag<'m> {
        self.tag
    }

    pub(crate) fn oom_lock(&self) -> &OomLock {
        &self.oom_lock
    }
}
