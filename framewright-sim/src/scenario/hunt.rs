//! A hunt: runs one scenario, with one bug or none, under different schedules until a symptom is
//! found.

use std::{fmt, str::FromStr};

use super::{Bug, Scenario, Verdict};
use crate::engine::{Exhaustive, Machine, Misfit, Options, Schedule};
use thiserror::Error;

/// Schedules between two reports of progress.
pub(super) const STRIDE: u64 = 256;

/// A choice of schedules. As text: `random`, `pct:DEPTH`, `exhaustive:BOUND`, `replay:CHOICES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Each CPU that can run is next with equal probability.
    Random,
    /// By priorities that change a few times.
    Pct {
        /// The number of events whose order matters.
        depth: u32,
    },
    /// All schedules that choose an option other than the ordinary one at most `bound` times.
    Exhaustive {
        /// The greatest number of such choices.
        bound: u32,
    },
    /// A recorded schedule.
    Replay(Vec<u16>),
}

impl Kind {
    /// Whether the schedules depend on a seed.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        matches!(self, Self::Random | Self::Pct { .. })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.pad("random"),
            Self::Pct { depth } => f.pad(&format!("pct:{depth}")),
            Self::Exhaustive { bound } => f.pad(&format!("exhaustive:{bound}")),
            Self::Replay(choices) => f.pad(&Schedule::Replay(choices.clone()).to_string()),
        }
    }
}

/// Text that is not a choice of schedules.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "'{0}' is not a kind of schedules; valid: random, pct:DEPTH (1 to 64), exhaustive:BOUND \
     (0 to 9), or replay:PLACE=CHOICE,... with each place once, as a hunt prints it"
)]
pub struct NoSuchKind(String);

impl FromStr for Kind {
    type Err = NoSuchKind;

    fn from_str(text: &str) -> Result<Self, NoSuchKind> {
        let wrong = || NoSuchKind(text.to_owned());
        let number = |text: &str, range: std::ops::RangeInclusive<u32>| {
            text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
        };
        match text.split_once(':') {
            None if text == "random" => Ok(Self::Random),
            Some(("pct", depth)) => Ok(Self::Pct { depth: number(depth, 1..=64)? }),
            Some(("exhaustive", bound)) => Ok(Self::Exhaustive { bound: number(bound, 0..=9)? }),
            Some(("replay", _)) => match text.parse() {
                Ok(Schedule::Replay(choices)) => Ok(Self::Replay(choices)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// The parameters of a hunt.
///
/// # Example
///
/// ```
/// use framewright_sim::scenario::{Bug, Hunt, Kind, Scenario};
///
/// let hunt = Hunt {
///     scenario: Scenario::named("munmap-race").expect("it exists"),
///     bug: Some(Bug::SkippedFlush),
///     kind: Kind::Pct { depth: 4 },
///     seed: 0,
///     schedules: 10_000,
/// };
/// let find = hunt.run(&|_| ()).found.expect("the seeded bug is found");
/// println!("schedule {}; again: framewright hunt {}", find.at, find.repeat);
/// ```
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The seeded bug; `None` for a control.
    pub bug: Option<Bug>,
    /// The choice of schedules.
    pub kind: Kind,
    /// The seed of the first schedule; each further schedule has the next seed.
    pub seed: u64,
    /// Limit of schedules.
    pub schedules: u64,
}

/// A run with a symptom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Find {
    /// The number of the schedule, from 1.
    pub at: u64,
    /// The result of the run.
    pub verdict: Verdict,
    /// The options of `framewright hunt` that repeat the run.
    pub repeat: String,
    /// Its decisions: [`Scenario::repeat`] repeats the run.
    pub choices: Vec<u16>,
}

/// The result of a hunt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HuntResult {
    /// Schedules tried.
    pub tried: u64,
    /// Whether all schedules were tried.
    pub exhausted: bool,
    /// The first run with an expected symptom; in a control, with any symptom.
    pub found: Option<Find>,
    /// Runs with an unexpected symptom.
    pub unexpected_count: u64,
    /// The first of these runs.
    pub unexpected: Option<Find>,
    /// The difference of a replay from its recording.
    pub misfit: Option<Misfit>,
    /// Steps of the longest run.
    pub steps: u64,
    /// The number of times that runs reached each point of the scenario.
    pub reached: Vec<u64>,
}

impl Hunt {
    /// Runs the hunt. `progress` gets the number of schedules at regular intervals.
    #[must_use]
    pub fn run(&self, progress: &dyn Fn(u64)) -> HuntResult {
        let machine = self.scenario.machine();
        let mut source = Source::of(&self.kind, &machine, &|machine| {
            let _ = self.scenario.run(machine, self.bug);
        });
        let mut result =
            HuntResult { reached: vec![0; self.scenario.points().len()], ..HuntResult::default() };
        while result.tried < self.schedules && result.found.is_none() {
            let Some(schedule) = source.next(self.seed.wrapping_add(result.tried)) else {
                result.exhausted = true;
                break;
            };
            machine.restart(schedule);
            let verdict = self.scenario.run(&machine, self.bug);
            result.tried += 1;
            result.misfit = machine.misfit();
            result.steps = result.steps.max(machine.steps());
            let reached = machine.reached();
            result.reached.iter_mut().zip(reached).for_each(|(sum, times)| *sum += times);
            if verdict != Verdict::Clean {
                self.judge(&machine, verdict, &mut result);
            }
            if result.tried.is_multiple_of(STRIDE) {
                progress(STRIDE);
            }
        }
        progress(self.schedules - result.tried / STRIDE * STRIDE);
        result
    }

    fn judge(&self, machine: &Machine, verdict: Verdict, result: &mut HuntResult) {
        let expected = match (&verdict, self.bug) {
            (Verdict::Seen { symptom, .. }, Some(bug)) => bug.symptoms().contains(symptom),
            _ => self.bug.is_none(),
        };
        let find = || Find {
            at: result.tried,
            verdict,
            repeat: self.repeat(machine, result.tried),
            choices: machine.choices(),
        };
        if expected {
            result.found = Some(find());
        } else {
            result.unexpected_count += 1;
            if result.unexpected.is_none() {
                result.unexpected = Some(find());
            }
        }
    }

    /// The options that repeat schedule `at`, which the machine has just run.
    fn repeat(&self, machine: &Machine, at: u64) -> String {
        let bug = self.bug.map_or(String::new(), |bug| format!(" --bug {bug}"));
        let name = self.scenario.name;
        if self.kind.is_seeded() {
            let (kind, seed) = (&self.kind, self.seed.wrapping_add(at - 1));
            format!("{name}{bug} --schedule {kind} --seed {seed} --schedules 1")
        } else {
            let replay = Schedule::Replay(machine.choices());
            format!("{name}{bug} --schedule {replay}")
        }
    }
}

/// The source of schedules.
pub(super) enum Source {
    Random,
    Pct { depth: u32, steps: u64 },
    Exhaustive(Exhaustive),
    Replay(Option<Vec<u16>>),
}

impl Source {
    pub(super) fn next(&mut self, seed: u64) -> Option<Schedule> {
        match self {
            Self::Random => Some(Schedule::Random(seed)),
            Self::Pct { depth, steps } => {
                Some(Schedule::Pct { seed, depth: *depth, steps: *steps })
            }
            Self::Exhaustive(search) => search.next(),
            Self::Replay(choices) => choices.take().map(Schedule::Replay),
        }
    }
}

impl Scenario {
    /// Repeats the run of a [`Find`]. `prepare` gets the machine before the run, to set its observer for example.
    #[must_use]
    pub fn repeat(
        &self,
        bug: Option<Bug>,
        choices: &[u16],
        prepare: impl FnOnce(&Machine),
    ) -> Verdict {
        let machine = self.machine();
        machine.restart(Schedule::Replay(choices.to_vec()));
        prepare(&machine);
        self.run(&machine, bug)
    }

    /// A machine for the scenario, with delayed stores and interrupts.
    fn machine(&self) -> Machine {
        let options = Options {
            store_buffers: true,
            late_interrupts: true,
            force: self.force.to_vec(),
            ..Options::default()
        };
        Machine::new(self.cpus, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_parsed_from_their_text() {
        for text in ["random", "pct:4", "exhaustive:2", "replay:3=1,7=2"] {
            assert_eq!(text.parse::<Kind>().unwrap().to_string(), text);
        }
        for text in ["", "clock", "pct", "pct:0", "pct:65", "exhaustive:10", "random:1", "replay:x"]
        {
            assert!(text.parse::<Kind>().is_err(), "{text}");
        }
    }
}
