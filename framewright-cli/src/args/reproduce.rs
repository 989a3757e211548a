//! The command line of `framewright reproduce`.

use clap::Args as ArgGroup;
use clap::builder::{PossibleValue, PossibleValuesParser};
use framewright_lab::reproduce::{EXPERIMENTS, Experiment, Plan};

use super::JsonArgs;

pub(super) const EXAMPLES: &str = "\
Each experiment is a change of a real kernel's page allocator that somebody measured and published. \
Both sides of it are two settings here, and the machine is simulated. Four kinds of figures stand \
apart: what was published, on whose machine; what a running kernel counted, where we could run one; \
what was measured, that is counted while this code ran; and what was modelled, that is counted in \
cycles of a simulated machine, with a band: what becomes of it when what the machine guesses is a \
quarter less or more.

A row agrees if both figures have the same sign and are within a factor of three; where the library \
is held against a running kernel's counts (tlb-batch), better ones agree as well. Rows that \
parameters of the machine were fitted to are shown and not judged, and so are those that there is \
nothing comparable to; notes say which. All others have to agree.

Examples:
  framewright reproduce bulk-free
      Choosing what to free before taking the zone lock, on four servers of 2018.
  framewright reproduce all --seeds 5 --json results.json
      Everything, five seeds each; differences are taken seed by seed.
  framewright reproduce high-order-drain --quick
      A look: one seed, short runs, nothing judged.

Exit codes: 0 every judged row agrees, 1 one does not, 2 bad input.";

const ALL: &str = "all";

#[derive(Debug, ArgGroup)]
pub(crate) struct ReproduceArgs {
    /// Which published result
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiment: String,
    /// How often each side is run, every time with another seed
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "quick")]
    seeds: u32,
    /// One seed and short runs: a look, not a result
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

impl ReproduceArgs {
    /// What is to be done again.
    pub(crate) fn experiments(&self) -> Vec<Experiment> {
        let chosen =
            |experiment: &Experiment| self.experiment == ALL || self.experiment == experiment.name;
        EXPERIMENTS.into_iter().filter(chosen).collect()
    }

    /// How much is run.
    pub(crate) fn plan(&self) -> Plan {
        Plan::new(self.seeds, self.quick)
    }
}

fn names() -> PossibleValuesParser {
    let value =
        |experiment: &Experiment| PossibleValue::new(experiment.name).help(experiment.title);
    let all = PossibleValue::new(ALL).help("all of them");
    EXPERIMENTS.iter().map(value).chain([all]).collect::<Vec<_>>().into()
}
