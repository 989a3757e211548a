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
//! | `bug`      | what can be put in, and by which symptoms it is known                   |
//! | `unmap`, `switch`, `rest`, `reclaim`, `munmap_race`, `take` | stores against page-table changes |
//! | `migrate`  | pages that move, and what may happen to them at each step               |
//! | `parked`   | what must not happen to pages that wait for a flush                     |
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
mod hunt;
mod library;
mod migrate;
mod munmap_race;
mod parked;
mod reclaim;
mod rest;
mod stage;
mod stand_in;
mod switch;
mod take;
mod unmap;
mod world;

pub use bug::{Bug, NoSuchBug};
pub use campaign::{Campaign, Row};
pub use hunt::{Bag, Find, Hunt, Kind, NoSuchKind};
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

/// Rare outcomes in scenarios of the library.
const FORCE: &[(Site, u32)] = &[(Site::EnterLists, 16), (Site::Refill, 8)];

/// All scenarios.
pub static SCENARIOS: [Scenario; 24] = [
    Scenario {
        name: "unmap",
        about: "threads use pages while one unmaps them and another process wants frames",
        cpus: 3,
        bugs: &[Bug::FreeBeforeFlush, Bug::EarlyMask, Bug::ForgottenTarget],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: unmap::run,
    },
    Scenario {
        name: "switch",
        about: "CPUs run another process and come back to pages that are gone",
        cpus: 3,
        bugs: &[Bug::EarlyLook],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: switch::run,
    },
    Scenario {
        name: "rest",
        about: "CPUs rest, are spared interrupts, and come back to pages that are gone",
        cpus: 3,
        bugs: &[Bug::LazyStaysBehind],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: rest::run,
    },
    Scenario {
        name: "reclaim",
        about: "pages are written out and freed while threads store to them",
        cpus: 3,
        bugs: &[Bug::WriteOutBeforeFlush],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: reclaim::run,
    },
    Scenario {
        name: "migrate",
        about: "the library compacts memory while threads store to the pages that move",
        cpus: 3,
        bugs: &[Bug::CopyBeforeFlush],
        affordable_bound: 1,
        force: &[],
        tally: None,
        run: migrate::run,
    },
    Scenario {
        name: "migrate-refused",
        about: "the owner of pages that the library moves refuses half-way",
        cpus: 3,
        bugs: &[Bug::RefusedHalfWay],
        affordable_bound: 1,
        force: &[],
        tally: Some(migrate::REFUSED),
        run: migrate::refused,
    },
    Scenario {
        name: "migrate-pinned",
        about: "somebody pins pages that the library moves",
        cpus: 3,
        bugs: &[Bug::PinIgnored],
        affordable_bound: 1,
        force: &[],
        tally: Some(migrate::PINNED),
        run: migrate::pinned,
    },
    Scenario {
        name: "migrate-write-fails",
        about: "writing pages fails that the library moves",
        cpus: 3,
        bugs: &[Bug::FailedStaysClaimed, Bug::DirtyLeftBehind],
        affordable_bound: 1,
        force: &[],
        tally: Some(migrate::FAILED),
        run: migrate::write_fails,
    },
    Scenario {
        name: "migrate-unmap",
        about: "a thread unmaps pages that the library moves",
        cpus: 3,
        bugs: &[Bug::FreedByBoth],
        affordable_bound: 1,
        force: &[],
        tally: Some(migrate::UNMAPPED),
        run: migrate::unmap,
    },
    Scenario {
        name: "migrate-beside",
        about: "frames are freed beside those that the library moves pages to",
        cpus: 3,
        bugs: &[Bug::TargetFreed],
        affordable_bound: 1,
        force: &[],
        tally: Some(migrate::BESIDE_TARGET),
        run: migrate::beside,
    },
    Scenario {
        name: "munmap-race",
        about: "a thread unmaps what reclaim has unmapped and not flushed yet",
        cpus: 3,
        bugs: &[Bug::SkippedFlush],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: munmap_race::run,
    },
    Scenario {
        name: "parked-write",
        about: "a process stores to pages of a file that another reads and reclaim parks",
        cpus: 3,
        bugs: &[
            Bug::UnsettledWrite,
            Bug::ParkedHandedOut,
            Bug::FreeBeforeFlush,
            Bug::WriteOutBeforeFlush,
        ],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: parked::write,
    },
    Scenario {
        name: "parked-truncate",
        about: "a file is truncated that a process reads and reclaim parks",
        cpus: 3,
        bugs: &[Bug::UnsettledTruncate],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: parked::truncate,
    },
    Scenario {
        name: "parked-reuse",
        about: "a thread uses addresses anew at which another reads what reclaim parks",
        cpus: 3,
        bugs: &[Bug::UnsettledReuse],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: parked::reuse,
    },
    Scenario {
        name: "parked-meet",
        about: "two CPUs reclaim at once and ask the same third one to flush",
        cpus: 3,
        bugs: &[Bug::WriteOutBeforeFlush],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: parked::meet,
    },
    Scenario {
        name: "parked-switch",
        about: "CPUs switch between processes, and catch up with what reclaim parks",
        cpus: 3,
        bugs: &[Bug::LateEpoch],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: parked::switch,
    },
    Scenario {
        name: "take",
        about: "three CPUs take frames off one stack",
        cpus: 3,
        bugs: &[Bug::UnlockedTake],
        affordable_bound: 3,
        force: &[],
        tally: None,
        run: take::run,
    },
    Scenario {
        name: "drain",
        about: "the lists of CPUs are drained from outside while their owners use them",
        cpus: 3,
        bugs: &[Bug::MissingBarrier],
        affordable_bound: 1,
        force: FORCE,
        tally: None,
        run: library::drain,
    },
    Scenario {
        name: "life",
        about: "processes map, use, share and unmap pages, and exit, on the library's lists",
        cpus: 3,
        bugs: &[Bug::FreeBeforeFlush],
        affordable_bound: 1,
        force: FORCE,
        tally: None,
        run: library::life,
    },
    Scenario {
        name: "hotplug",
        about: "a CPU and a pageblock come and go while others allocate",
        cpus: 3,
        bugs: &[],
        affordable_bound: 1,
        force: FORCE,
        tally: None,
        run: library::hotplug,
    },
    Scenario {
        name: "isolate",
        about: "pageblocks are withheld while others allocate from them",
        cpus: 3,
        bugs: &[],
        affordable_bound: 1,
        force: FORCE,
        tally: None,
        run: library::isolate,
    },
    Scenario {
        name: "contiguous",
        about: "runs of frames are taken out of pageblocks that others allocate from",
        cpus: 3,
        bugs: &[],
        affordable_bound: 1,
        force: FORCE,
        tally: None,
        run: library::contiguous,
    },
    Scenario {
        name: "depot",
        about: "pieces of blocks go from CPU to CPU while pageblocks are withheld",
        cpus: 3,
        bugs: &[],
        affordable_bound: 1,
        force: FORCE,
        tally: None,
        run: library::depot,
    },
    Scenario {
        name: "reserve",
        about: "all want the last frames above the reserve, and one may dip into it",
        cpus: 3,
        bugs: &[],
        affordable_bound: 1,
        force: FORCE,
        tally: None,
        run: library::reserve,
    },
];

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
