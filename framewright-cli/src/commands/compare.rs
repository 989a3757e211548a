//! `framewright compare`: a figure of a sweep by the values of one setting.

use std::path::PathBuf;

use clap::Args as ArgGroup;
use framewright_lab::{report::check_destination, sweep};

use crate::failure::{Failure, Outcome};
use crate::{output, print};

pub(crate) const EXAMPLES: &str = "\
A row is a combination of the other columns, for example a machine. A column is a value of the setting. A cell is the mean \
over seeds, with half of its 95 % confidence interval.

Examples:
  framewright compare lists.csv --by pcp.high_fraction --figure pages_per_s
  framewright compare lists.csv --by machine --figure zone_lock_wait_pct
  framewright compare lists.parquet --by pcp.batch --figure stall_max_ns --picture batch.svg";

/// Arguments of `compare`.
#[derive(Debug, ArgGroup)]
pub(crate) struct CompareArgs {
    /// A table that `framewright sweep` wrote
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// The setting, option, `machine` or `workload` whose values are compared
    #[arg(long, value_name = "COLUMN")]
    by: String,
    /// The figure
    #[arg(long, value_name = "FIGURE")]
    figure: String,
    /// Draw the means into this file, as SVG, with a panel for each machine
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Prints the table, and draws the picture.
pub(crate) fn compare(args: &CompareArgs) -> Result<Outcome, Failure> {
    if let Some(picture) = &args.picture {
        check_destination(picture, &[&args.table]).map_err(Failure::bad_input)?;
    }
    let compared = sweep::compare(&args.table, &args.by, &args.figure)?;
    let draw = || compared.plot(&args.table.display().to_string()).svg();
    output::save_text(args.picture.as_deref(), draw)?;
    let table = compared.table(output::style());
    output::print(&(print::paragraph(&compared.title()) + &table.to_string()))?;
    Ok(Outcome::Fine)
}
