//! Hunts in programs of the caller's own, with bugs of its own.

use std::fmt;

use super::{
    Kind,
    hunt::{STRIDE, Source},
};
use crate::engine::{Machine, Misfit, Options, Schedule};

/// A hunt in a program that the caller defines: runs it under one schedule after the other until it fails.
///
/// The program is a closure. It creates all of its state, runs one closure per CPU ([`Machine::run`]), and returns an
/// error if the state is wrong. A CPU that finds a mistake during the run ends it with
/// [`Cpu::fail`](crate::engine::Cpu::fail). Another CPU may run only at a [`step`](crate::engine::Cpu::step), at a lock
/// ([`Mutex`](crate::engine::Mutex)), or at a call of the library: the program calls `step` before each access to data
/// that other CPUs access without a lock. Such data can be in a [`Cell`](std::cell::Cell), because all CPUs share one
/// thread. A bug of the caller's own is a value that the closure captures.
///
/// # Example
///
/// ```
/// use framewright_sim::{engine::{Machine, Program}, scenario::{Kind, ProgramHunt}};
/// use std::cell::Cell;
///
/// let hunt = ProgramHunt { cpus: 2, kind: Kind::Random, seed: 0, schedules: 1000 };
/// let result = hunt.run(|machine: &Machine| {
///     let count = Cell::new(0);
///     let add = || -> Program<'_> {
///         Box::new(|cpu| {
///             let seen = count.get();
///             cpu.step(); // the other CPU may add here, and its addition is lost
///             count.set(seen + 1);
///         })
///     };
///     machine.run(vec![add(), add()]).map_err(|failure| failure.to_string())?;
///     if count.get() == 2 { Ok(()) } else { Err(format!("{} of 2 additions", count.get())) }
/// });
/// let find = result.found.expect("the race is found");
/// assert_eq!(find.what, "1 of 2 additions");
/// println!("again: Kind::Replay, as text {}", find.schedule);
/// ```
#[derive(Clone, Debug)]
pub struct ProgramHunt {
    /// The number of CPUs of the machine, 1 to 512.
    pub cpus: u16,
    /// The choice of schedules.
    pub kind: Kind,
    /// The seed of the first schedule; each further schedule has the next seed.
    pub seed: u64,
    /// Limit of schedules.
    pub schedules: u64,
}

/// A run that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramFind {
    /// The number of the schedule, from 1.
    pub at: u64,
    /// The error that the program returned.
    pub what: String,
    /// The schedule, for a hunt that repeats this run. Its text can be parsed as a [`Kind`].
    pub schedule: Kind,
}

impl fmt::Display for ProgramFind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schedule {}: {}; again with {}", self.at, self.what, self.schedule)
    }
}

/// The result of a hunt in a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramResult {
    /// Schedules tried.
    pub tried: u64,
    /// Whether all schedules were tried. Random schedules never are.
    pub exhausted: bool,
    /// The first run that failed; `None` if none did.
    pub found: Option<ProgramFind>,
    /// The first difference of a [`Kind::Replay`] from its recording.
    pub misfit: Option<Misfit>,
    /// Steps of the longest run.
    pub steps: u64,
}

impl ProgramHunt {
    /// Runs the hunt.
    ///
    /// # Panics
    ///
    /// If the number of CPUs is 0 or above 512, or if `program` runs more programs than CPUs.
    #[must_use]
    pub fn run(&self, program: impl Fn(&Machine) -> Result<(), String>) -> ProgramResult {
        self.run_with_progress(program, &|_| ())
    }

    /// As [`ProgramHunt::run`]. `progress` gets a number of schedules at regular intervals.
    ///
    /// # Panics
    ///
    /// As [`ProgramHunt::run`].
    #[must_use]
    pub fn run_with_progress(
        &self,
        program: impl Fn(&Machine) -> Result<(), String>,
        progress: &dyn Fn(u64),
    ) -> ProgramResult {
        let options = Options { store_buffers: true, late_interrupts: true, ..Options::default() };
        let machine = Machine::new(self.cpus, options);
        let mut source = Source::of(&self.kind, &machine, &|machine| drop(program(machine)));
        let mut result = ProgramResult::default();
        while result.tried < self.schedules && result.found.is_none() {
            let Some(schedule) = source.next(self.seed.wrapping_add(result.tried)) else {
                result.exhausted = true;
                break;
            };
            machine.restart(schedule);
            let ended = program(&machine);
            result.tried += 1;
            result.misfit = machine.misfit();
            result.steps = result.steps.max(machine.steps());
            result.found = ended.err().map(|what| ProgramFind {
                at: result.tried,
                what,
                schedule: Kind::Replay(machine.choices()),
            });
            if result.tried.is_multiple_of(STRIDE) {
                progress(STRIDE);
            }
        }
        progress(result.tried % STRIDE);
        result
    }
}

impl Source {
    /// The schedules of `kind`. `run` runs the program once; it serves to measure the number of steps of a run.
    pub(super) fn of(kind: &Kind, machine: &Machine, run: &dyn Fn(&Machine)) -> Self {
        match kind {
            Kind::Random => Self::Random,
            Kind::Pct { depth } => Self::Pct { depth: *depth, steps: usual_steps(machine, run) },
            Kind::Exhaustive { bound } => Self::Exhaustive(crate::engine::Exhaustive::new(*bound)),
            Kind::Replay(choices) => Self::Replay(Some(choices.clone())),
        }
    }
}

/// Runs of a program that measure its number of steps.
const SAMPLE: u64 = 16;

/// The number of steps of a run: the greatest of a few runs, always of the same seeds.
fn usual_steps(machine: &Machine, run: &dyn Fn(&Machine)) -> u64 {
    let steps = (0..SAMPLE).map(|seed| {
        machine.restart(Schedule::Random(seed));
        run(machine);
        machine.steps()
    });
    steps.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Program;
    use std::cell::Cell;

    /// Two CPUs add to a number. With the race, an addition can be lost.
    fn adders(machine: &Machine, race: bool) -> Result<(), String> {
        let count = Cell::new(0);
        let add = || -> Program<'_> {
            Box::new(|cpu| {
                cpu.step();
                let seen = count.get();
                if race {
                    cpu.step();
                }
                count.set(seen + 1);
            })
        };
        machine.run(vec![add(), add()]).map_err(|failure| failure.to_string())?;
        if count.get() == 2 { Ok(()) } else { Err("lost".to_owned()) }
    }

    fn hunt(kind: Kind) -> ProgramHunt {
        ProgramHunt { cpus: 2, kind, seed: 3, schedules: 500 }
    }

    #[test]
    fn each_kind_of_schedules_finds_the_race_and_repeats_it() {
        for kind in ["random", "pct:3", "exhaustive:1"] {
            let result = hunt(kind.parse().unwrap()).run(|machine| adders(machine, true));
            let find = result.found.unwrap_or_else(|| panic!("{kind} finds nothing"));
            assert_eq!((find.what.as_str(), find.at), ("lost", result.tried));
            let text = find.schedule.to_string();
            let again = hunt(text.parse().unwrap()).run(|machine| adders(machine, true));
            assert_eq!(again.found.map(|find| (find.at, find.what)), Some((1, "lost".to_owned())));
            assert_eq!(again.misfit, None, "{text}");
        }
    }

    #[test]
    fn without_the_race_all_schedules_are_clean() {
        let told = Cell::new(0);
        let tell = |tried| told.set(told.get() + tried);
        let clean = hunt(Kind::Random).run_with_progress(|machine| adders(machine, false), &tell);
        assert_eq!((clean.tried, told.get(), clean.found), (500, 500, None));
        let all = hunt(Kind::Exhaustive { bound: 2 }).run(|machine| adders(machine, false));
        assert!(all.exhausted && all.found.is_none() && all.tried > 2);
    }

    #[test]
    fn a_failure_of_the_machine_is_found() {
        let result = hunt(Kind::Random).run(|machine| {
            let program: Program<'_> = Box::new(|cpu| cpu.fail("wrong"));
            machine.run(vec![program]).map_err(|failure| failure.to_string())
        });
        assert!(result.found.unwrap().what.contains("wrong"));
    }
}
