//! What every run of a workload takes: chance, how much, which settings, and where the result goes.

use clap::Args as ArgGroup;

use super::{JsonArgs, Settings};

/// Options of all workloads.
#[derive(Debug, ArgGroup)]
pub(crate) struct RunArgs {
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = Self::SEED)]
    pub(crate) seed: u64,
    /// Simulated machines: as many seeds, from that one on; figures are medians
    #[arg(long, value_name = "K", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) seeds: u16,
    /// A look, not a measurement: a fifth of the work or of the time, on threads a few rounds
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

impl RunArgs {
    /// The seed, unless it is said.
    pub(crate) const SEED: u64 = 1;

    /// All seeds.
    pub(crate) fn all_seeds(&self) -> Vec<u64> {
        (0..u64::from(self.seeds)).map(|more| self.seed.wrapping_add(more)).collect()
    }
}
