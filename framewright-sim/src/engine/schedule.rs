//! Schedules: their text form, and the dispatch between clocks and recorded decisions.

use super::{
    choice::{Actor, Explorer},
    clock::{self, Clocks},
    search::Search,
};
use std::{cell::RefCell, collections::BTreeMap, fmt, rc::Rc, str::FromStr};
use thiserror::Error;

/// Chooses the next CPU. As text: `clock`, `random:SEED`, `pct:SEED:DEPTH:STEPS`, or
/// `replay:CHOICES`. CHOICES are the choices other than 0, each after the number of its decision,
/// as in `replay:3=1,17=2`.
///
/// # Example
///
/// ```
/// use framewright_sim::engine::{Machine, Options, Schedule};
///
/// let machine = Machine::new(2, Options { schedule: Schedule::Random(7), ..Options::default() });
/// machine.run(vec![Box::new(|cpu| cpu.step()), Box::new(|cpu| cpu.step())]).expect("no failure");
/// // The same run again, from its choices.
/// let (choices, fingerprint) = (machine.choices(), machine.fingerprint());
/// machine.restart(Schedule::Replay(choices));
/// machine.run(vec![Box::new(|cpu| cpu.step()), Box::new(|cpu| cpu.step())]).expect("no failure");
/// assert_eq!((machine.misfit(), machine.fingerprint()), (None, fingerprint));
/// ```
#[derive(Clone, Debug, Default)]
pub enum Schedule {
    /// The CPU with the earliest clock: for measurements.
    #[default]
    Clock,
    /// A random CPU, from a seed: for finding bugs.
    Random(u64),
    /// By random priorities that change a few times: for bugs that need a certain order of a few
    /// events, however unlikely it is.
    Pct {
        /// Seed of all decisions.
        seed: u64,
        /// Changes of priority plus one: the number of events whose order matters. 3 to 6 are
        /// useful.
        depth: u32,
        /// Expected steps of a run: the priorities change within them.
        steps: u64,
    },
    /// Repeats recorded choices ([`Machine::choices`](super::Machine::choices)), then continues
    /// with option 0.
    Replay(Vec<u16>),
    /// A schedule from [`Exhaustive`](super::Exhaustive).
    Exhaustive(Rc<RefCell<Search>>),
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock => f.write_str("clock"),
            Self::Random(seed) => write!(f, "random:{seed}"),
            Self::Pct { seed, depth, steps } => write!(f, "pct:{seed}:{depth}:{steps}"),
            Self::Replay(choices) => {
                f.write_str("replay:")?;
                let unusual = choices.iter().enumerate().filter(|&(_, &choice)| choice != 0);
                for (nth, (place, choice)) in unusual.enumerate() {
                    let comma = if nth == 0 { "" } else { "," };
                    write!(f, "{comma}{place}={choice}")?;
                }
                Ok(())
            }
            Self::Exhaustive(_) => f.write_str("exhaustive"),
        }
    }
}

/// The difference of a run from its recording, which was made with another program or other code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Misfit {
    /// A recorded choice is not among the options.
    #[error("decision {place} has {options} options, 0 to {}, but not {choice}", .options - 1)]
    NoSuchChoice {
        /// The number of the decision.
        place: usize,
        /// The recorded choice.
        choice: u16,
        /// The number of options.
        options: u32,
    },
    /// The run ended before a recorded choice.
    #[error("the run has {places} decisions, but no number {place}")]
    NeverReached {
        /// The number of the decision.
        place: usize,
        /// The number of decisions in the run.
        places: usize,
    },
}

/// Text that is not a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "'{0}' is not a schedule; valid: clock, random:SEED, pct:SEED:DEPTH:STEPS \
    or replay:PLACE=CHOICE,... with each place once"
)]
pub struct NoSchedule(String);

impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Self, NoSchedule> {
        parse(text).ok_or_else(|| NoSchedule(text.to_owned()))
    }
}

/// Limit of decisions in a recording.
const MOST_CHOICES: usize = 1 << 24;

fn parse(text: &str) -> Option<Schedule> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut numbers = rest.split(':').map(str::parse::<u64>);
    let schedule = match name {
        "clock" if rest.is_empty() => return Some(Schedule::Clock),
        "replay" => return replay(rest),
        "random" => Schedule::Random(numbers.next()?.ok()?),
        "pct" => Schedule::Pct {
            seed: numbers.next()?.ok()?,
            depth: u32::try_from(numbers.next()?.ok()?)
                .ok()
                .filter(|depth| (1..=64).contains(depth))?,
            steps: numbers.next()?.ok()?,
        },
        _ => return None,
    };
    numbers.next().is_none().then_some(schedule)
}

fn replay(text: &str) -> Option<Schedule> {
    let mut places = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (place, choice) = part.split_once('=')?;
        let place: usize = place.parse().ok().filter(|&place| place < MOST_CHOICES)?;
        places.insert(place, choice.parse().ok()?).is_none().then_some(())?;
    }
    let mut choices = vec![0; places.keys().last().map_or(0, |last| last + 1)];
    for (place, choice) in places {
        choices[place] = choice;
    }
    Some(Schedule::Replay(choices))
}

/// The state of a schedule.
pub(super) enum Scheduler {
    Clock(Clocks),
    Explorer(Box<Explorer>),
}

impl Scheduler {
    pub(super) fn new(schedule: &Schedule, cpus: u16) -> Self {
        match Explorer::new(schedule, cpus) {
            Some(explorer) => Self::Explorer(Box::new(explorer)),
            None => Self::Clock(Clocks::new(cpus)),
        }
    }

    /// Replaces `self` with a new state, and reuses its allocations.
    pub(super) fn renew(&mut self, schedule: &Schedule, cpus: u16) {
        let renewed = self.explorer().is_some_and(|explorer| explorer.renew(schedule, cpus));
        if !renewed {
            *self = Self::new(schedule, cpus);
        }
    }

    pub(super) fn explorer(&mut self) -> Option<&mut Explorer> {
        match self {
            Self::Clock(_) => None,
            Self::Explorer(explorer) => Some(explorer),
        }
    }

    /// Notes that a CPU may run from `time` on.
    pub(super) fn ready(&mut self, cpu: u16, time: u64) {
        match self {
            Self::Clock(clocks) => clocks.insert(cpu, time),
            Self::Explorer(explorer) => explorer.ready(cpu),
        }
    }

    /// The next event; `current` could continue. The chosen CPU no longer waits to run.
    pub(super) fn next(&mut self, current: Option<u16>) -> Option<(Actor, u64)> {
        match self {
            Self::Clock(clocks) => {
                clocks.take().map(|key| (Actor::Cpu(clock::cpu(key)), clock::time(key)))
            }
            Self::Explorer(explorer) => {
                let next = explorer.next(current)?;
                if let Actor::Cpu(cpu) = next {
                    explorer.not_ready(cpu);
                }
                Some((next, 0))
            }
        }
    }

    /// The key up to which the running CPU may continue without a new decision.
    pub(super) fn horizon(&self) -> u64 {
        match self {
            Self::Clock(clocks) => clocks.least(),
            Self::Explorer(_) => 0,
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Clock(clocks) => clocks.clear(),
            Self::Explorer(explorer) => explorer.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_parsed_from_their_text() {
        for text in ["clock", "random:18446744073709551615", "pct:3:4:120", "replay:2=1,17=3"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        let replay = "replay:2=1,4=3".parse().unwrap();
        assert!(matches!(replay, Schedule::Replay(choices) if choices == [0, 0, 1, 0, 3]));
    }

    #[test]
    fn text_that_is_not_a_schedule_is_refused() {
        let wrong = ["", "clock:1", "random", "random:x", "random:1:2", "pct:1:0:3", "pct:1:2"];
        for text in wrong.into_iter().chain([
            "replay:1",
            "replay:1=x",
            "replay:1=1,1=2",
            "replay:99999999999=1",
        ]) {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
