//! The command line of `framewright prices`.

use clap::Args as ArgGroup;

use super::JsonArgs;

pub(super) const EXAMPLES: &str = "\
A mechanism gains because it avoids some costly operation. Each is run with and without, on a \
simulated machine as it is, and on the same machine with the costs that its gain comes from at zero. \
Then at most 3 % of the gain may be left; a larger rest comes from another source than the named one. \
The costs are named by their keys in the machine's file (`framewright machines NAME`). Takes less than a minute.

Examples:
  framewright prices
      A row per mechanism, and the costs behind it.
  framewright prices --json prices.json
      The same for programs.

Exit codes: 0 every gain comes from its costs, 1 one does not, 2 bad input.";

#[derive(Debug, ArgGroup)]
pub(crate) struct PricesArgs {
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}
