//! The recorded kernel's activity, counted from its events.

use framewright::MigrateType;
use serde::Serialize;
use std::ops::AddAssign;

use super::survey::has_lists;
use crate::{
    samples::{Blocks, FreeMemory, fold},
    trace::{Event, snapshot::Zone},
};

/// The activity of a CPU of the recorded kernel, as far as its events show it. The unit is blocks,
/// except where frames are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelActivity {
    /// `mm_page_alloc`.
    pub allocs: u64,
    /// Frames of these.
    pub alloc_frames: u64,
    /// `mm_page_alloc` with a null page.
    pub failed_allocs: u64,
    /// `mm_page_free`.
    pub frees: u64,
    /// Frames of these.
    pub free_frames: u64,
    /// Frees of orders without per-CPU lists: each takes the zone lock.
    pub direct_frees: u64,
    /// Frames of these.
    pub direct_free_frames: u64,
    /// `mm_page_free_batched`: frees on the batched path.
    pub batched_frees: u64,
    /// `mm_page_alloc_zone_locked` on behalf of a CPU's list.
    pub zone_locked_refill: u64,
    /// `mm_page_alloc_zone_locked` on behalf of a request.
    pub zone_locked_direct: u64,
    /// Frames of both.
    pub zone_locked_frames: u64,
    /// Runs of `mm_page_alloc_zone_locked` and `mm_page_alloc_extfrag` on this CPU: each is at least one
    /// acquisition of the zone lock, because the allocation that caused it follows.
    pub refill_runs: u64,
    /// `mm_page_pcpu_drain`.
    pub pcpu_drain: u64,
    /// Frames of these.
    pub pcpu_drain_frames: u64,
    /// Runs of `mm_page_pcpu_drain` on this CPU: each is at least one acquisition.
    pub drain_runs: u64,
    /// `mm_page_alloc_extfrag` with a change of the pageblock's type.
    pub extfrag_claims: u64,
    /// `mm_page_alloc_extfrag` without a change of the type.
    pub extfrag_steals: u64,
}

impl KernelActivity {
    /// Whether there are events of CPU lists and zones. Without them, refills, drains, acquisitions and fallbacks are unknown.
    #[must_use]
    pub fn shows_lists(&self) -> bool {
        let zone_locked = self.zone_locked_refill + self.zone_locked_direct;
        zone_locked + self.pcpu_drain + self.extfrag_claims + self.extfrag_steals > 0
    }

    /// Acquisitions of the zone lock that the events show. There may have been more: two drains
    /// without an event between them look like one.
    #[must_use]
    pub fn zone_lock_acquisitions_seen(&self) -> u64 {
        self.refill_runs + self.drain_runs + self.direct_frees
    }

    /// Frames moved per acquisition that the events show.
    #[must_use]
    pub fn frames_per_acquisition(&self) -> f64 {
        let frames = self.zone_locked_frames + self.pcpu_drain_frames + self.direct_free_frames;
        frames as f64 / self.zone_lock_acquisitions_seen().max(1) as f64
    }
}

impl AddAssign<&KernelActivity> for KernelActivity {
    fn add_assign(&mut self, other: &KernelActivity) {
        self.allocs += other.allocs;
        self.alloc_frames += other.alloc_frames;
        self.failed_allocs += other.failed_allocs;
        self.frees += other.frees;
        self.free_frames += other.free_frames;
        self.direct_frees += other.direct_frees;
        self.direct_free_frames += other.direct_free_frames;
        self.batched_frees += other.batched_frees;
        self.zone_locked_refill += other.zone_locked_refill;
        self.zone_locked_direct += other.zone_locked_direct;
        self.zone_locked_frames += other.zone_locked_frames;
        self.refill_runs += other.refill_runs;
        self.pcpu_drain += other.pcpu_drain;
        self.pcpu_drain_frames += other.pcpu_drain_frames;
        self.drain_runs += other.drain_runs;
        self.extfrag_claims += other.extfrag_claims;
        self.extfrag_steals += other.extfrag_steals;
    }
}

/// Counts the events of one CPU.
#[derive(Clone, Copy, Default)]
pub(super) struct KernelCounter {
    activity: KernelActivity,
    run: Run,
}

/// The run that the CPU is in.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Run {
    #[default]
    None,
    Refill,
    Drain,
}

impl KernelCounter {
    /// The counts.
    pub(super) fn activity(&self) -> &KernelActivity {
        &self.activity
    }

    /// Counts an event of this CPU.
    pub(super) fn add(&mut self, event: &Event) {
        let activity = &mut self.activity;
        let mut run = Run::None;
        match *event {
            Event::Alloc { order, .. } => {
                activity.allocs += 1;
                activity.alloc_frames += 1 << order;
            }
            Event::AllocFailed { .. } => activity.failed_allocs += 1,
            Event::Free { order, .. } => {
                activity.frees += 1;
                activity.free_frames += 1 << order;
                if !has_lists(order) {
                    activity.direct_frees += 1;
                    activity.direct_free_frames += 1 << order;
                }
            }
            Event::FreeBatched { .. } => activity.batched_frees += 1,
            Event::ZoneLocked { order, percpu_refill, .. } => {
                run = Run::Refill;
                activity.refill_runs += u64::from(self.run != run);
                activity.zone_locked_frames += 1 << order;
                if percpu_refill {
                    activity.zone_locked_refill += 1;
                } else {
                    activity.zone_locked_direct += 1;
                }
            }
            Event::PcpuDrain { order, .. } => {
                run = Run::Drain;
                activity.drain_runs += u64::from(self.run != run);
                activity.pcpu_drain += 1;
                activity.pcpu_drain_frames += 1 << order;
            }
            Event::ExtFrag { change_ownership, .. } => {
                // The kernel emits this event under the zone lock, during a refill. So it proves a
                // refill even without other events.
                run = Run::Refill;
                activity.refill_runs += u64::from(self.run != run);
                if change_ownership {
                    activity.extfrag_claims += 1;
                } else {
                    activity.extfrag_steals += 1;
                }
            }
            Event::ContentionBegin { .. }
            | Event::ContentionEnd { .. }
            | Event::ZoneWait { .. }
            | Event::Other => {}
        }
        self.run = run;
    }
}

/// Free memory of one zone, or of all, at the start and the end of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeReport {
    /// Free memory of the replay at the start.
    pub start: FreeMemory,
    /// Free memory of the replay at the end.
    pub end: FreeMemory,
    /// Free memory of the kernel at the start, if there is a snapshot with buddyinfo.
    pub kernel_start: Option<FreeMemory>,
    /// Free memory of the kernel at the end, if there is such a snapshot of the end.
    pub kernel_end: Option<FreeMemory>,
}

impl FreeMemory {
    /// Free memory of the kernel in one zone; `None` if the snapshot has no buddyinfo of it.
    pub(super) fn of_zone(zone: &Zone) -> Option<Self> {
        let of = |name: &str| zone.types.iter().find(|lists| lists.name == name);
        let by_type = MigrateType::REQUESTABLE.map(|migratetype| {
            let name = migratetype.name();
            (name, of(name).map_or(Blocks::default(), |lists| fold(&lists.free_blocks)))
        });
        (!zone.free_blocks.is_empty())
            .then(|| Self { blocks: fold(&zone.free_blocks), by_type: by_type.into() })
    }
}

impl FreeReport {
    /// Adds the free memory of another zone. The sum for the kernel is known only if every zone is.
    pub(super) fn add(&mut self, other: &Self) {
        self.start.add(&other.start);
        self.end.add(&other.end);
        for (sum, more) in [
            (&mut self.kernel_start, &other.kernel_start),
            (&mut self.kernel_end, &other.kernel_end),
        ] {
            match (sum.as_mut(), more) {
                (Some(sum), Some(more)) => sum.add(more),
                _ => *sum = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_acquisition() {
        let refill = Event::ZoneLocked { pfn: 1, order: 1, migratetype: 1, percpu_refill: true };
        let drain = Event::PcpuDrain { pfn: 1, order: 0, migratetype: 1 };
        let free = Event::Free { pfn: 1, order: 0 };
        let mut counter = KernelCounter::default();
        for event in [refill, refill, free, refill, drain, drain, free, free, drain] {
            counter.add(&event);
        }
        let activity = *counter.activity();
        assert_eq!((activity.refill_runs, activity.drain_runs), (2, 2));
        assert_eq!((activity.zone_locked_refill, activity.pcpu_drain), (3, 3));
        assert_eq!(activity.zone_lock_acquisitions_seen(), 4);
        assert!((activity.frames_per_acquisition() - 9.0 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn orders_without_lists_take_the_lock_each_time() {
        let mut counter = KernelCounter::default();
        for order in [0, 3, 4, 8, 9, 10] {
            counter.add(&Event::Free { pfn: 0, order });
        }
        let activity = counter.activity();
        assert_eq!((activity.direct_frees, activity.direct_free_frames), (3, 16 + 256 + 1024));
        assert_eq!(activity.zone_lock_acquisitions_seen(), 3);
    }
}
