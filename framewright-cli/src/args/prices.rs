//! The command line of `framewright prices`.

use clap::Args as ArgGroup;

use super::JsonArgs;

pub(super) const EXAMPLES: &str = "\
A mechanism gains because it does less of something that takes time. Each is run with and without, on \
a simulated machine as it is, and on the same where the prices that its gain comes from are zero. Then \
at most 3 % of what it saves may be left: else the gain has another source than the one that is named. \
Prices are keys of the machine's file (`framewright machines NAME`). Takes less than a minute.

Examples:
  framewright prices
      A row per mechanism, and the prices behind it.
  framewright prices --json prices.json
      The same for programs.

Exit codes: 0 every gain comes from its prices, 1 one does not, 2 bad input.";

#[derive(Debug, ArgGroup)]
pub(crate) struct PricesArgs {
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}
