//! The state that allocation, TLB flushes, reclaim and compaction share: zones, zonelists, CPUs with their lists,
//! settings, and the machine.
//!
//! A [`Memory`](crate::Memory) consists of a [`MemoryCore`] and the states of the layers above it.
//! Each of those layers gets a reference to the core and to its own state. The core does not refer
//! to them.
//!
//! | module | job |
//! |---|---|
//! | `claim` | the ownership of a CPU's lists |
//! | `cpu_state`, `cpus` | claims, online and offline, the sizes of lists |
//! | `drain` | draining the lists of CPUs, from any CPU |
//! | `zones` | finding zones by request, frame or node; watermarks |
//! | `isolation` | isolating a range of pageblocks |
//! | `hotplug` | adding and removing memory |
//! | `try_lock` | the lock of hotplug, and that of requests that ask the embedder for a verdict |
//! | `slow_path`, `kept` | the slow path's interface to reclaim and compaction |

mod claim;
mod cpu_state;
mod cpus;
mod drain;
mod hotplug;
mod isolation;
mod kept;
mod slow_path;
mod try_lock;
mod zones;

use crate::{
    pcp::{CpuPages, DrainLog},
    platform::{OwnerLock, Platform, SpinLock},
    sync::AtomicU32,
    tuning::{Hardening, Tuning},
    types::{Block, MemoryTag, Pfn},
    zone::{Zone, Zonelists},
};

pub(crate) use claim::Claim;
pub use cpu_state::CpuError;
pub(crate) use cpu_state::CpuState;
pub(crate) use kept::KeptFrames;
pub(crate) use slow_path::SlowPathState;
pub(crate) use try_lock::TryLock;
pub(crate) use zones::{Candidates, LocalZone};

/// The part of a memory that does not depend on reclaim, compaction or TLB flushes.
pub(crate) struct MemoryCore<'m, P: Platform> {
    platform: P,
    zones: &'m [Zone<'m, P>],
    zonelists: Zonelists<'m>,
    /// The lists of every CPU for every zone: all CPUs for the first zone, then the next.
    lists: &'m [CpuPages<'m, P>],
    /// For each of these lists, the drained blocks whose events are not traced yet. Empty without
    /// [`Platform::TRACING`].
    drain_logs: &'m [SpinLock<P, DrainLog<'m>>],
    cpus: &'m [CpuState],
    /// First frame of the lowest zone.
    start: Pfn,
    tuning: Tuning,
    owner_lock: OwnerLock,
    tag: MemoryTag<'m>,
    /// The number of times that memory was added or removed.
    generation: AtomicU32,
    /// The holder may ask the embedder for a verdict. Other requests assume that the verdict frees
    /// memory, and wait.
    oom_lock: TryLock,
    /// Held while memory or CPUs are added or removed.
    hotplug_lock: TryLock,
}

/// The arrays of a memory's core, in the metadata buffer.
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
    /// A core without watermarks and with closed lists. The caller then calls
    /// [`MemoryCore::set_watermarks`] and [`MemoryCore::size_new_lists`].
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
            oom_lock: TryLock::new(),
            hotplug_lock: TryLock::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn platform(&self) -> &P {
        &self.platform
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Whether a free by frame number is checked before the block reaches a list.
    #[inline(always)]
    pub(crate) fn checks_raw_frees(&self) -> bool {
        self.tuning.hardening != Hardening::Off
    }

    /// The method by which owners of per-CPU lists exclude drainers in this memory.
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

    pub(crate) fn oom_lock(&self) -> &TryLock {
        &self.oom_lock
    }
}
