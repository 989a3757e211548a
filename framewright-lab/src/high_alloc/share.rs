//! The progress of a run.
//!
//! Progress is the number of handled pages (faulted in, copied, or written), as a share of all
//! pages that the run handles. The work on these pages takes most of the time of a run, unless the
//! run also waits in real time.

use framewright::frame::PAGEBLOCK_FRAMES;
use std::cell::Cell;

use super::{
    Flags,
    builder::{FAULT_NS, TREE_PAGES},
    pass::EVERY_NS,
};

/// One builder for this number of frames (400 MiB), and one more.
const BUILDER_FRAMES: u64 = 400 << 8;
/// A second, in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Time that builders compile before the first request.
pub(super) const WARM_UP_NS: u64 = 30 * SECOND;
/// Time that they compile after each pass.
pub(super) const REST_NS: [u64; 2] = [5 * SECOND, 25 * SECOND];

/// Number of builders for this memory.
pub(super) const fn builders_for(frames: u64) -> u64 {
    frames / BUILDER_FRAMES + 1
}

/// Number of huge pages that a pass requests: 95 % of memory.
pub(super) const fn requests_for(frames: u64) -> u64 {
    frames / PAGEBLOCK_FRAMES as u64 * 95 / 100
}

/// The requests of a run, and their rate.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) flags: Flags,
    pub(super) quick: bool,
    pub(super) watched: bool,
    /// CPUs of the builders.
    pub(super) builders: u16,
    /// Whether the background work has no CPU of its own.
    pub(super) shares: bool,
    pub(super) seed: u64,
}

impl Load {
    /// The time of a piece of work with this load; `nanos` is its usual time.
    pub(super) const fn shortened(&self, nanos: u64) -> u64 {
        if self.quick { nanos / 5 } else { nanos }
    }
}

/// Number of parts in which progress is reported.
pub(super) const PARTS: u64 = 1000;

/// The stages of a run, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// Builders copy their trees.
    Copy,
    /// They compile, without requests for huge pages.
    WarmUp,
    /// They compile during the first pass and for some seconds after it.
    First,
    /// They compile during the second pass and for some seconds after it.
    Second,
    /// Files are deleted, and the cache is flushed.
    CleanUp,
    /// The last pass requests huge pages.
    Idle,
    /// The run has ended.
    End,
}

const STAGES: usize = Stage::End as usize;

/// The pages that each stage handles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan([u64; STAGES]);

impl Plan {
    /// The plan of a run with this memory. In `real` time, the idle pass takes as long as the
    /// others.
    pub(super) fn new(load: &Load, frames: u64, real: bool) -> Self {
        /// In the last pass, the frames of huge pages are marked and cleared. For this number of
        /// frames, that is as much work as one page write.
        const MARKED: u64 = 16;
        let builders = builders_for(frames);
        let at_once = builders.min(load.builders.into());
        let faults = |nanos| load.shortened(nanos) / FAULT_NS * at_once;
        let pass = requests_for(frames) * EVERY_NS;
        let [first, second] = REST_NS;
        let idle = if real { faults(pass) } else { frames / MARKED };
        Self([
            builders * TREE_PAGES,
            faults(WARM_UP_NS),
            faults(pass + first),
            faults(pass + second),
            frames,
            idle,
        ])
    }

    /// Handled pages when a stage has finished `done` of `total`.
    fn until(&self, stage: Stage, done: u64, total: u64) -> u64 {
        let (before, rest) = self.0.split_at(stage as usize);
        let part = rest.first().map_or(0, |&pages| pages * done.min(total) / total.max(1));
        before.iter().sum::<u64>() + part
    }
}

/// The finished share of a run.
pub(super) struct Share<'s> {
    /// Called with the number of newly finished parts.
    tell: &'s (dyn Fn(u64) + Sync),
    plan: Plan,
    reported: Cell<u64>,
}

impl<'s> Share<'s> {
    /// A run at its start.
    pub(super) fn new(tell: &'s (dyn Fn(u64) + Sync), plan: Plan) -> Self {
        Self { tell, plan, reported: Cell::new(0) }
    }

    /// Reports that all stages before this one are finished, and `done` of `total` of this one.
    pub(super) fn reach(&self, stage: Stage, done: u64, total: u64) {
        let all = self.plan.until(Stage::End, 0, 1).max(1);
        let now = self.plan.until(stage, done, total) * PARTS / all;
        let more = now.saturating_sub(self.reported.get());
        if more > 0 {
            self.reported.set(now);
            (self.tell)(more);
        }
    }

    /// The run is finished.
    pub(super) fn end(&self) {
        self.reach(Stage::End, 0, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::high_alloc::Flags;
    use std::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    };

    fn load(quick: bool) -> Load {
        Load { flags: Flags::Default, quick, watched: false, builders: 3, shares: true, seed: 1 }
    }

    #[test]
    fn parts_add_up_and_none_is_reported_twice() {
        let reported = Mutex::new(Vec::new());
        let tell = |parts| reported.lock().unwrap().push(parts);
        let share = Share::new(&tell, Plan([4, 0, 8, 8, 10, 2]));
        let reached = [
            (Stage::Copy, 1, 2),
            (Stage::Copy, 1, 2),
            (Stage::WarmUp, 0, 2),
            (Stage::Copy, 1, 2),
            (Stage::Second, 3, 4),
            (Stage::Second, 9, 4),
        ];
        for (stage, done, total) in reached {
            share.reach(stage, done, total);
        }
        share.end();
        assert_eq!(*reported.lock().unwrap(), [62, 63, 437, 63, 375]);
        assert_eq!(reported.lock().unwrap().iter().sum::<u64>(), PARTS);
    }

    /// Reported parts at the end of each stage.
    fn reported_at_ends(pages: [u64; STAGES]) -> [u64; STAGES] {
        const NEXT: [Stage; STAGES] =
            [Stage::WarmUp, Stage::First, Stage::Second, Stage::CleanUp, Stage::Idle, Stage::End];
        let reported = AtomicU64::new(0);
        let tell = |parts| _ = reported.fetch_add(parts, Relaxed);
        let share = Share::new(&tell, Plan(pages));
        NEXT.map(|next| {
            share.reach(next, 0, 1);
            reported.load(Relaxed)
        })
    }

    /// Progress counts pages, which take different times: it may differ from the share of time by
    /// at most 50 thousandths.
    #[test]
    fn reported_progress_is_near_the_share_of_time() {
        // 16 GiB, three builders at a time, `--quick`: hundredths of a second of CPU time,
        // measured.
        const TOOK: [u64; STAGES] = [68, 24, 542, 410, 283, 21];
        let planned = Plan::new(&load(true), 16 << 18, false).0;
        assert_eq!(reported_at_ends(planned), [79, 90, 453, 824, 989, 1000]);
        assert_eq!(reported_at_ends(TOOK), [50, 68, 470, 774, 984, 1000]);
    }

    #[test]
    fn in_real_time_the_idle_pass_takes_as_long_as_others() {
        const FRAMES: u64 = 1 << 18;
        let idle = |real| Plan::new(&load(false), FRAMES, real).0[Stage::Idle as usize];
        // The time of another pass, in faults of three builders; otherwise only marking pages.
        assert_eq!(idle(true), requests_for(FRAMES) * EVERY_NS / FAULT_NS * 3);
        assert_eq!(idle(false), FRAMES / 16);
    }
}
