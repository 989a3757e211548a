//! The commands that only programs with the feature `full` have: reproductions, and benchmarks beside other allocators.

use clap::Subcommand;

use crate::commands::{fragmentation, large_memory, micro, prices, reproduce, validate};
use crate::failure::{Failure, Outcome};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Repeat published measurements on simulated machines and judge the agreement
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(reproduce::ReproduceArgs),
    /// Do the same work on this machine and on its measured model, and compare the figures
    #[command(after_help = validate::EXAMPLES)]
    Validate(validate::ValidateArgs),
    /// Show the costs of a simulated machine that the gain of each mechanism depends on
    #[command(after_help = prices::EXAMPLES)]
    Prices(prices::PricesArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// Nanoseconds per operation, compared with other allocators and a lower bound
    #[command(after_help = micro::EXAMPLES)]
    AllocMicro(micro::AllocMicroArgs),
    /// Huge pages that are left after millions of random allocations and frees, compared with other
    /// allocators
    #[command(after_help = fragmentation::CHURN_EXAMPLES,
              mut_arg("seeds", |seeds| seeds.help(fragmentation::SEEDS)),
              mut_arg("quick", |quick| quick.help(fragmentation::CHURN_QUICK)))]
    Churn(fragmentation::ChurnArgs),
    /// Huge pages that form while every page is replaced, again and again (LLFree's benchmark),
    /// compared with other allocators
    #[command(after_help = fragmentation::REPLACE_EXAMPLES,
              mut_arg("seeds", |seeds| seeds.help(fragmentation::SEEDS)),
              mut_arg("quick", |quick| quick.help(fragmentation::REPLACE_QUICK)))]
    Replace(fragmentation::ReplaceArgs),
    /// A machine of 1 TiB on 4 nodes, as metadata only: initialisation, hotplug, blocks up to 1
    /// GiB, contiguous runs, node fallback
    #[command(after_help = large_memory::EXAMPLES)]
    LargeMemory(large_memory::LargeMemoryArgs),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        match self {
            Self::Reproduce(args) => reproduce::reproduce(args),
            Self::Validate(args) => validate::validate(args),
            Self::Prices(args) => prices::prices(args),
        }
    }
}

impl Run {
    /// Runs the workload.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        match self {
            Self::AllocMicro(args) => micro::micro(args),
            Self::Churn(args) => fragmentation::churn(args),
            Self::Replace(args) => fragmentation::replace(args),
            Self::LargeMemory(args) => large_memory::large_memory(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;

    use crate::cli::ONLY_FULL;

    #[test]
    fn the_other_programs_know_the_names_of_these_commands() {
        let mut names = Vec::new();
        for command in [
            super::Command::augment_subcommands(clap::Command::new("commands")),
            super::Run::augment_subcommands(clap::Command::new("workloads")),
        ] {
            names.extend(command.get_subcommands().map(|command| command.get_name().to_owned()));
        }
        assert_eq!(names, ONLY_FULL);
    }
}
