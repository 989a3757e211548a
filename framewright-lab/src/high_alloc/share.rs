//! How far a run is, for whoever waits for it.
//!
//! A run is as far as pages were handled of those that it handles in all: faulted in, copied, or
//! written. That is what it takes time for, where nobody waits for real.

use std::cell::Cell;

use super::{
    builder::{FAULT_NS, TREE_PAGES},
    pass::EVERY_NS,
    play::{Course, REST_NS, WARM_UP_NS, builders_for, requests_for},
};

/// Parts of a run that are told of.
pub(super) const PARTS: u64 = 1000;

/// What a course consists of, in order.
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
    /// That of a course with so much memory. Where time is `real`, an idle pass takes as long as another.
    pub(super) fn new(course: &Course, frames: u64, real: bool) -> Self {
        /// Huge pages of the last pass are marked and cleared, which is less than to write them.
        const MARKED: u64 = 16;
        let builders = builders_for(frames);
        let at_once = builders.min(course.builders.into());
        let faults = |nanos| course.shortened(nanos) / FAULT_NS * at_once;
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
    use std::sync::Mutex;

    fn course(quick: bool) -> Course {
        Course { flags: Flags::Default, quick, watched: false, builders: 3, seed: 1 }
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

    #[test]
    fn the_plan_is_in_proportion_to_what_stages_took() {
        // 16 GiB, three builders at a time, `--quick`: hundredths of a processor's seconds, measured.
        let took = [68u64, 24, 542, 410, 283, 21];
        let plan = Plan::new(&course(true), 16 << 18, false).0;
        let share = |of: &[u64; STAGES], at: usize| 100 * of[at] / of.iter().sum::<u64>();
        for at in 0..STAGES {
            let (planned, took) = (share(&plan, at), share(&took, at));
            assert!(planned.abs_diff(took) <= 10, "{at}: {planned} and {took} %");
        }
    }

    #[test]
    fn where_time_is_real_nobody_skips_the_idle_pass() {
        let plan = |real| Plan::new(&course(false), 1 << 18, real).0;
        let [.., first, _, _, idle] = plan(true);
        assert!(idle > first * 9 / 10);
        assert!(plan(false)[5] < idle / 100);
    }
}
