//! Small programs for finding concurrency bugs.
//!
//! # Theory of operation
//!
//! A [`Scenario`] is a program of a few CPUs and some dozens of steps, in which certain steps may
//! come in any order. It is run under many schedules. Without a bug it must be clean under all of
//! them: this is the *control*. With a seeded [`Bug`] a check must fail: this shows that the checks
//! detect the bug, and how many schedules that takes. Only the known symptoms of a bug count; any
//! other symptom is a bug of its own.
//!
//! Each run creates all its state. A run therefore depends on the schedule alone.
//!
//! | module     | job                                                                    |
//! |------------|------------------------------------------------------------------------|
//! | `table`    | all scenarios                                                          |
//! | `bug`      | the bugs, and their symptoms                                           |
//! | `unmap`, `switch`, `lazy`, `reclaim`, `munmap_race` | accesses that race with page-table changes |
//! | `take`     | allocation from a stack of frames                                      |
//! | `migrate`  | migration, with events at each step                                    |
//! | `deferred`   | operations on pages that wait for a flush                            |
//! | `library`  | the library's allocator with threads, drains, hotplug, isolation, low memory |
//! | `stand_in` | small versions of the parts around the allocator                       |
//! | `world`, `environment` | the environment of scenarios, and the checks at the end          |
//! | `hunt`     | runs of one scenario with one bug, under one schedule after the other  |
//! | `campaign` | many hunts, on all processors                                          |
//! | `program`  | hunts in programs of the caller's own                                  |
//!
//! The embedder's parts (page tables, files, a disk) and reclaim are small stand-ins (`stand_in`).
//! They collect their unmapped pages in the library's flush batches. Compaction is the library's
//! own.

mod bug;
mod campaign;
mod deferred;
mod environment;
mod hunt;
mod lazy;
mod library;
mod migrate;
mod munmap_race;
mod program;
mod reclaim;
mod stand_in;
mod switch;
mod table;
mod take;
mod unmap;
mod world;

pub use bug::{Bug, NoSuchBug};
pub use campaign::{Campaign, Row};
pub use hunt::{Find, Hunt, HuntResult, Kind, NoSuchKind};
pub use program::{ProgramFind, ProgramHunt, ProgramResult};
pub use table::SCENARIOS;
pub use world::Verdict;

use framewright::platform::Site;

use crate::engine::Machine;

/// A program for finding bugs.
#[derive(Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The number of CPUs.
    pub cpus: u16,
    /// The bugs that can be seeded.
    pub bugs: &'static [Bug],
    /// The greatest bound of preemptions with which an exhaustive search ends within minutes.
    pub affordable_bound: u32,
    /// Rare outcomes to force: at this site, in one of this many passes.
    pub force: &'static [(Site, u32)],
    /// The event that is counted in its runs.
    pub tally: Option<Tally>,
    run: fn(&Machine, Option<Bug>) -> Verdict,
}

/// An event of a scenario, counted by the points at which it happens.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// A description in one line.
    pub what: &'static str,
    /// The points.
    pub points: &'static [Point],
}

/// A point at which the event of a scenario may happen.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Its name.
    pub name: &'static str,
    /// The reason why no run reaches it; `None` if runs do.
    pub never: Option<&'static str>,
}

impl Scenario {
    /// The scenario of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The points at which the event is counted.
    #[must_use]
    pub fn points(&self) -> &'static [Point] {
        self.tally.map_or(&[], |tally| tally.points)
    }

    /// Runs the scenario once, on a machine that was made or restarted for this run.
    #[must_use]
    pub fn run(&self, machine: &Machine, bug: Option<Bug>) -> Verdict {
        (self.run)(machine, bug)
    }
}

#[cfg(test)]
mod tests;
