//! What to hunt, how, and for how long.

use std::str::FromStr;

use clap::Args as ArgGroup;
use framewright_sim::scenario::{Bug, Kind, SCENARIOS, Scenario};

use super::JsonArgs;

pub(crate) const EXAMPLES: &str = "\
Runs small programs of three simulated CPUs under one schedule after the other. As it is, every \
program must stay clean under all of them (the control). With a bug put in, it must not: a check \
that never fails proves nothing. Whatever is found is printed with the command that repeats it.

Schedules: random, whoever can go on has the same chance; pct:DEPTH, by priorities that change \
DEPTH - 1 times; exhaustive:BOUND, all that leave the ordinary course at most BOUND times.

Examples:
  framewright hunt
      All scenarios and bugs, in less than a minute.
  framewright hunt --full
      As it is promised: 20 seeds of up to 100,000 schedules for each bug, 1,000,000 for each
      control, and exhaustive searches. Have patience.
  framewright hunt unmap --bug early-mask --schedule random --seeds 20
      One bug, with 20 seeds.
  framewright hunt drain --bug none --schedule random --schedules 1000000
      One control, for longer.
  framewright hunt unmap --bug early-mask --schedule random --seed 17
      One hunt with a seed of your own, which ends the same way every time; with --schedules 1 and
      the seed that it prints, the one schedule that finds the bug.
  framewright hunt list
      What there is to hunt.

Exit codes: 0 every control is clean and by one kind of schedules nine of ten seeds find each bug, 1 \
not so, or a recorded schedule is of another program, 2 bad input.";

/// What `hunt` takes.
#[derive(Debug, ArgGroup)]
pub(crate) struct HuntArgs {
    /// A scenario, or list for what there is [default: all]
    #[arg(value_name = "SCENARIO")]
    pub(crate) what: Option<What>,
    /// Hunt this bug only, without controls; or none, for controls only
    #[arg(long, value_name = "BUG")]
    pub(crate) bug: Option<Which>,
    /// random, pct:DEPTH, exhaustive:BOUND, or replay:... as printed; may be given more than once
    /// [default: random and pct:4; with --full also pct:3, pct:6, and exhaustive:1 to
    /// exhaustive:3 where that takes minutes]
    #[arg(long = "schedule", value_name = "KIND")]
    pub(crate) kinds: Vec<Kind>,
    /// Hunts for each bug, with different seeds [default: 4, with --full 20; 1 if --seed is given]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Schedules of one hunt, and of one control [default: 20000; with --full 100000 and 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) schedules: Option<u64>,
    /// As thoroughly as it is promised
    #[arg(long)]
    pub(crate) full: bool,
    /// Hunts at once; the result is the same for any number [default: the processors of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

/// Where to hunt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// Nowhere: say what there is.
    List,
    /// There.
    Scenario(&'static Scenario),
}

impl FromStr for What {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "list" {
            return Ok(Self::List);
        }
        Scenario::named(name).map(Self::Scenario).ok_or_else(|| {
            let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            format!("there is: {}, and list", names.join(", "))
        })
    }
}

/// What to hunt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// Nothing: controls only.
    None,
    /// That.
    Bug(Bug),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "none" {
            return Ok(Self::None);
        }
        name.parse().map(Self::Bug).map_err(|_| {
            let names = Bug::ALL.map(Bug::name);
            format!("there is: {}, and none", names.join(", "))
        })
    }
}
