//! Small programs to hunt bugs with.
//!
//! # Theory of operation
//!
//! A [`Scenario`] is a program of a few CPUs and some dozens of steps, made so that certain steps
//! may come in any order. It is run under many schedules. As it is, it must stay clean under all
//! of them: that is the *control*. With a [`Bug`] put in it must not: that shows that the checks
//! can fail, and how many schedules it takes until they do. Only the symptoms that a bug is known
//! by count; anything else is a bug of its own.
//!
//! Everything is made anew for each run, so that a schedule alone decides what happens.
//!
//! | module     | job                                                                    |
//! |------------|------------------------------------------------------------------------|
//! | `table`    | all of them                                                            |
//! | `bug`      | what can be put in, and by which symptoms it is known                   |
//! | `unmap`, `switch`, `rest`, `reclaim`, `munmap_race`, `take` | stores against page-table changes |
//! | `migrate`  | pages that move, and what may happen to them at each step               |
//! | `deferred`   | what must not happen to pages that wait for a flush                     |
//! | `library`  | the library's allocator under threads, drains, hotplug, isolation, want |
//! | `stand_in` | small versions of what is around it                                    |
//! | `world`, `stage` | where scenarios happen, and how they end                         |
//! | `hunt`     | one scenario, one bug, one schedule after the other                     |
//! | `campaign` | many hunts, on all processors                                          |
//!
//! What an embedder owns, page tables, files, a disk, is there as small stand-ins (`stand_in`), and
//! so is reclaim; what it unmaps it collects in the library's flush batches. What moves pages is the
//! library's own.

mod bug;
mod campaign;
mod deferred;
mod hunt;
mod library;
mod migrate;
mod munmap_race;
mod reclaim;
mod rest;
mod stage;
mod stand_in;
mod switch;
mod table;
mod take;
mod unmap;
mod world;

pub use bug::{Bug, NoSuchBug};
pub use campaign::{Campaign, Row};
pub use hunt::{Bag, Find, Hunt, Kind, NoSuchKind};
pub use table::SCENARIOS;
pub use world::Verdict;

use framewright::platform::Site;

use crate::engine::Machine;

/// A program to hunt bugs with.
#[derive(Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What happens, in one line.
    pub about: &'static str,
    /// CPUs that it takes.
    pub cpus: u16,
    /// Bugs that it can have.
    pub bugs: &'static [Bug],
    /// How often schedules may leave the ordinary course so that all of them can be tried within
    /// minutes.
    pub affordable_bound: u32,
    /// Rare outcomes that are forced now and then, and once in how many times.
    pub force: &'static [(Site, u32)],
    /// What is counted in its runs.
    pub tally: Option<Tally>,
    run: fn(&Machine, Option<Bug>) -> Verdict,
}

/// What happens in a scenario, as it is counted by the moments at which it does.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// What happens, in one line.
    pub what: &'static str,
    /// The moments.
    pub points: &'static [Point],
}

/// A moment at which something may happen in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Its name.
    pub name: &'static str,
    /// Why no run comes to it, if so.
    pub never: Option<&'static str>,
}

impl Scenario {
    /// The scenario of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The moments at which it is counted how often something happens.
    #[must_use]
    pub fn points(&self) -> &'static [Point] {
        self.tally.map_or(&[], |tally| tally.points)
    }

    /// Runs it once, on a machine that was made or restarted for this run.
    #[must_use]
    pub fn run(&self, machine: &Machine, bug: Option<Bug>) -> Verdict {
        (self.run)(machine, bug)
    }
}

#[cfg(test)]
mod tests;
