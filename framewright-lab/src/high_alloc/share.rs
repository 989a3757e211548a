//! How far a run is, for whoever waits for it.
//!
//! A run is as far as pages were handled of those that it handles in all: faulted in, copied, or
//! written. That is what it takes time for, where nobody waits for real.

use framewright::frame::PAGEBLOCK_FRAMES;
use std::cell::Cell;

use super::{
    Flags,
    builder::{FAULT_NS, TREE_PAGES},
    pass::EVERY_NS,
};

/// A builder for so many frames, and one more: 400 MiB each.
const BUILDER_FRAMES: u64 = 400 << 8;
/// A second, in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;
/// How long builders build before anybody asks for huge pages.
pub(super) const WARM_UP_NS: u64 = 30 * SECOND;
/// How long they build after each pass.
pub(super) const REST_NS: [u64; 2] = [5 * SECOND, 25 * SECOND];

/// How many build on so much memory.
pub(super) const fn builders_for(frames: u64) -> u64 {
    frames / BUILDER_FRAMES + 1
}

/// How many huge pages a pass asks for: 95 % of memory.
pub(super) const fn requests_for(frames: u64) -> u64 {
    frames / PAGEBLOCK_FRAMES as u64 * 95 / 100
}

/// What is asked for, and by what pace.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) flags: Flags,
    pub(super) quick: bool,
    pub(super) watched: bool,
    /// CPUs that builders have.
    pub(super) builders: u16,
    /// The kernel's own work has no CPU of its own.
    pub(super) shares: bool,
    pub(super) seed: u64,
}

impl Load {
    /// How long it takes what usually takes so many nanoseconds.
    pub(super) const fn shortened(&self, nanos: u64) -> u64 {
        if self.quick { nanos / 5 } else { nanos }
    }
}

/// Parts of a run that are told of.
pub(super) const PARTS: u64 = 1000;

/// What a run consists of, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// Builders copy their trees.
    Copy,
    /// They build, and nobody asks for huge pages yet.
    WarmUp,
    /// They build, and the first pass asks; and a rest.
    First,
    /// The same again.
    Second,
    /// Files are deleted, and the cache is flushed.
    CleanUp,
    /// The last pass asks.
    Idle,
    /// All is over.
    End,
}

const STAGES: usize = Stage::End as usize;

/// What each stage takes, in pages that are handled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan([u64; STAGES]);

impl Plan {
    /// That of a run with so much memory. Where time is `real`, an idle pass takes as long as another.
    pub(super) fn new(load: &Load, frames: u64, real: bool) -> Self {
        /// Huge pages of the last pass are marked and cleared, which is less than to write them.
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

    /// Pages until a stage is so far.
    fn until(&self, stage: Stage, done: u64, total: u64) -> u64 {
        let (before, rest) = self.0.split_at(stage as usize);
        let part = rest.first().map_or(0, |&pages| pages * done.min(total) / total.max(1));
        before.iter().sum::<u64>() + part
    }
}

/// What of a run is done.
pub(super) struct Share<'s> {
    /// Hears of parts that were done besides.
    tell: &'s (dyn Fn(u64) + Sync),
    plan: Plan,
    told: Cell<u64>,
}

impl<'s> Share<'s> {
    /// Of a run of which nothing is done.
    pub(super) fn new(tell: &'s (dyn Fn(u64) + Sync), plan: Plan) -> Self {
        Self { tell, plan, told: Cell::new(0) }
    }

    /// All stages before this one are done, and of this `done` of `total`.
    pub(super) fn reach(&self, stage: Stage, done: u64, total: u64) {
        let all = self.plan.until(Stage::End, 0, 1).max(1);
        let now = self.plan.until(stage, done, total) * PARTS / all;
        let more = now.saturating_sub(self.told.get());
        if more > 0 {
            self.told.set(now);
            (self.tell)(more);
        }
    }

    /// All of it is done.
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
    fn parts_add_up_and_none_is_told_twice() {
        let told = Mutex::new(Vec::new());
        let tell = |parts| told.lock().unwrap().push(parts);
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
        assert_eq!(*told.lock().unwrap(), [62, 63, 437, 63, 375]);
        assert_eq!(told.lock().unwrap().iter().sum::<u64>(), PARTS);
    }

    /// How many parts are told of when each stage ends.
    fn told_at_ends(pages: [u64; STAGES]) -> [u64; STAGES] {
        const NEXT: [Stage; STAGES] =
            [Stage::WarmUp, Stage::First, Stage::Second, Stage::CleanUp, Stage::Idle, Stage::End];
        let told = AtomicU64::new(0);
        let tell = |parts| _ = told.fetch_add(parts, Relaxed);
        let share = Share::new(&tell, Plan(pages));
        NEXT.map(|next| {
            share.reach(next, 0, 1);
            told.load(Relaxed)
        })
    }

    /// Stages are planned by the pages that they handle, of which not all take equally long: what is told
    /// differs by so much from what a clock would tell, 50 thousandths at the most.
    #[test]
    fn what_is_told_is_near_what_a_clock_would_tell() {
        // 16 GiB, three builders at a time, `--quick`: hundredths of a processor's seconds, measured.
        const TOOK: [u64; STAGES] = [68, 24, 542, 410, 283, 21];
        let planned = Plan::new(&load(true), 16 << 18, false).0;
        assert_eq!(told_at_ends(planned), [79, 90, 453, 824, 989, 1000]);
        assert_eq!(told_at_ends(TOOK), [50, 68, 470, 774, 984, 1000]);
    }

    #[test]
    fn where_time_is_real_nobody_skips_the_idle_pass() {
        const FRAMES: u64 = 1 << 18;
        let idle = |real| Plan::new(&load(false), FRAMES, real).0[Stage::Idle as usize];
        // As long as another pass, in the faults of three builders; else it is marking pages.
        assert_eq!(idle(true), requests_for(FRAMES) * EVERY_NS / FAULT_NS * 3);
        assert_eq!(idle(false), FRAMES / 16);
    }
}
