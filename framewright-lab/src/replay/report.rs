//! The result of a replay: plain data, for tables, JSON and plots.

use framewright::observe::{CpuStats, DrainReason};
use serde::Serialize;
use std::collections::BTreeMap;

use super::holds::OwnLock;
use super::kernel::{FreeReport, KernelActivity};
use super::lock_waits::KernelLock;
use crate::samples::{FreeMemory, Sample};

/// The complete result of a replay. Counts exclude the setup of the initial state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// The recording's name in messages.
    pub file: String,
    /// Events in the recording, of every kind.
    pub events: u64,
    /// Events that the replay does not use, by name.
    pub others: BTreeMap<String, u64>,
    /// Duration in seconds of the recorded machine.
    pub seconds: f64,
    /// The machine of the replay.
    pub machine: MachineReport,
    /// The replayed operations.
    pub logical: Logical,
    /// Frames in use at the end, compared with the number computed from the recording.
    pub balance: Balance,
    /// The activity of the library, over all CPUs.
    pub total: Activity,
    /// The activity of the kernel, over all CPUs.
    pub kernel_total: KernelActivity,
    /// The activity of the library and of the kernel, for each CPU.
    pub cpus: Vec<CpuReport>,
    /// Free memory at the start and at the end, over all zones.
    pub free: FreeReport,
    /// The zones.
    pub zones: Vec<ZoneReport>,
    /// Whether the recording was cut: the kernel's tables from the end are then of a later time.
    pub ends_early: bool,
    /// The replay's memory over time.
    pub samples: Vec<Sample>,
    /// Requests that were served from a pageblock of another type, in the order of time.
    pub fallbacks: Vec<Fallback>,
}

/// A request that was served from a pageblock of another type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fallback {
    /// Seconds of recorded time since the first event.
    pub seconds: f64,
    /// The CPU.
    pub cpu: u16,
    /// Whether the recorded kernel served the request; otherwise the library.
    pub by_kernel: bool,
    /// Order of the request.
    pub order: u8,
    /// Its migratetype, in the kernel's numbering.
    pub migratetype: u8,
    /// Order and type of the block found, if known.
    pub found: Option<(u8, u8)>,
    /// Whether the pageblock changed its type; otherwise it has pages of two types.
    pub claimed: bool,
}

/// The result of a replay on `list-buddy`, the classic design of kernels. Counts exclude the setup
/// of the initial state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListBuddyReport {
    /// The replayed operations.
    pub logical: Logical,
    /// Frames in use at the end, compared with the number computed from the recording.
    pub balance: Balance,
    /// The activity of the allocator, over all CPUs.
    pub total: Activity,
    /// Free memory at the start and at the end, without migratetypes.
    pub free: [FreeMemory; 2],
    /// Frames on CPU lists and in depots at the start.
    pub held_at_start: u64,
    /// Its memory over time.
    pub samples: Vec<Sample>,
}

/// The machine of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineReport {
    /// Frames managed.
    pub frames: u64,
    /// CPUs.
    pub cpus: u16,
    /// Bytes of the allocator's metadata.
    pub metadata_bytes: u64,
    /// Whether a snapshot described it; otherwise it was sized from the recording.
    pub from_snapshot: bool,
    /// Frames in use at the start of the recording.
    pub in_use_at_start: u64,
    /// Frames on CPU lists and in depots at the start of the recording.
    pub held_at_start: u64,
}

/// One zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneReport {
    /// Its node.
    pub node: u8,
    /// Its kind.
    pub zone: &'static str,
    /// Frames managed.
    pub managed: u64,
    /// Watermarks *min*, *low* and *high*.
    pub watermarks: [u64; 3],
    /// Frames on its CPU lists.
    pub held: HeldReport,
    /// Its free memory.
    pub free: FreeReport,
    /// The use of its lock by the recorded kernel.
    pub kernel_lock: KernelLock,
    /// The use of its lock by the replay.
    pub lock: OwnLock,
}

/// Frames on the CPU lists of a zone, at the start and the end of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeldReport {
    /// Frames on the replay's lists at the start.
    pub start: u64,
    /// Frames on the replay's lists at the end.
    pub end: u64,
    /// Frames on the kernel's lists at the start, if there is a snapshot.
    pub kernel_start: Option<u64>,
    /// Frames on the kernel's lists at the end, if there is a snapshot of the end.
    pub kernel_end: Option<u64>,
}

/// The replayed operations, and exceptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Logical {
    /// Recorded allocations.
    pub allocs: u64,
    /// Frames of these.
    pub alloc_frames: u64,
    /// Recorded frees.
    pub frees: u64,
    /// Frames of these.
    pub free_frames: u64,
    /// Frees, whole or in part, without a recorded allocation: a *stand-in* was freed, a block that
    /// was in use from the start.
    pub stand_in_frees: u64,
    /// Frames of stand-ins that were freed.
    pub stand_in_frames: u64,
    /// Frees without an allocation or a stand-in, whole or in part.
    pub unmatched_frees: u64,
    /// Frames of these.
    pub unmatched_frames: u64,
    /// Frees of a part of a block.
    pub partial_frees: u64,
    /// Allocations of frames that were still allocated: the replay first frees them, because their
    /// free was not recorded.
    pub reallocations: u64,
    /// Frames freed that way.
    pub freed_unseen_frames: u64,
    /// Allocations that the library refused.
    pub refused_allocs: u64,
    /// Frames of these.
    pub refused_frames: u64,
}

/// Frames in use at the end: the replay's, and the number computed from the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Balance {
    /// Frames in use at the start + allocated - freed - freed without a recorded free.
    pub recorded: i64,
    /// Frames in use in the replay's memory.
    pub replayed: i64,
    /// The difference, in percent of the recorded.
    pub difference_percent: f64,
}

impl Balance {
    pub(super) fn new(start: u64, replayed: u64, logical: &Logical) -> Self {
        let freed = logical.free_frames + logical.freed_unseen_frames;
        let recorded = start as i64 + logical.alloc_frames as i64 - freed as i64;
        let replayed = replayed as i64;
        let difference_percent =
            100.0 * (replayed - recorded) as f64 / recorded.unsigned_abs().max(1) as f64;
        Self { recorded, replayed, difference_percent }
    }
}

/// The activity of one CPU in the replay and in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuReport {
    /// Its number.
    pub cpu: u16,
    /// The activity of the library.
    pub ours: Activity,
    /// The activity of the kernel.
    pub kernel: KernelActivity,
}

/// The activity of the library, or of `list-buddy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// Frames allocated.
    pub alloc_frames: u64,
    /// Frames freed.
    pub free_frames: u64,
    /// Requests served from the CPU's lists without the zone.
    pub list_hits: u64,
    /// Requests for which the lists had to be refilled.
    pub list_misses: u64,
    /// Refills.
    pub refills: u64,
    /// Frames of refills.
    pub refilled_frames: u64,
    /// Drains by reason.
    pub drains: BTreeMap<&'static str, u64>,
    /// Frames that drains moved to the zone.
    pub drained_frames: u64,
    /// Blocks allocated from the zone directly.
    pub zone_allocs: u64,
    /// Blocks freed to the zone directly.
    pub zone_frees: u64,
    /// Acquisitions of the zone lock.
    pub zone_lock_acquisitions: u64,
    /// Frames moved under the zone lock.
    pub zone_lock_frames: u64,
    /// Pageblocks claimed for another migratetype.
    pub claims: u64,
    /// Number of times that frames were stolen from a pageblock of another migratetype.
    pub steals: u64,
    /// Requests that entered the slow path.
    pub slow_paths: u64,
}

impl Activity {
    /// The difference of two readings of the counters.
    pub(super) fn between(before: &CpuStats, after: &CpuStats) -> Self {
        let drains = DrainReason::ALL.into_iter().map(|reason| {
            let of = reason as usize;
            (reason.name(), after.drains[of] - before.drains[of])
        });
        Self {
            alloc_frames: after.pgalloc - before.pgalloc,
            free_frames: after.pgfree - before.pgfree,
            list_hits: after.list_hits - before.list_hits,
            list_misses: after.list_misses - before.list_misses,
            refills: after.refills - before.refills,
            refilled_frames: after.refilled_frames - before.refilled_frames,
            drains: drains.collect(),
            drained_frames: after.drained_frames - before.drained_frames,
            zone_allocs: after.zone_allocs - before.zone_allocs,
            zone_frees: after.zone_frees - before.zone_frees,
            zone_lock_acquisitions: after.zone_lock_acquisitions - before.zone_lock_acquisitions,
            zone_lock_frames: after.zone_lock_frames - before.zone_lock_frames,
            claims: after.claims - before.claims,
            steals: after.steals - before.steals,
            slow_paths: after.slow_paths - before.slow_paths,
        }
    }

    /// Drains for any reason.
    #[must_use]
    pub fn all_drains(&self) -> u64 {
        self.drains.values().sum()
    }

    /// Frames moved per acquisition of the zone lock.
    #[must_use]
    pub fn frames_per_acquisition(&self) -> f64 {
        self.zone_lock_frames as f64 / self.zone_lock_acquisitions.max(1) as f64
    }

    /// Requests that the per-CPU lists served, in percent of all requests of their orders.
    #[must_use]
    pub fn hit_percent(&self) -> f64 {
        100.0 * self.list_hits as f64 / (self.list_hits + self.list_misses).max(1) as f64
    }
}
