//! Results: one model for every workload, written as JSON and shown as tables.
//!
//! The result of a workload is a [`Report`]: the program, the machine, the settings, and the
//! figures. Programs read it as JSON, people as tables in the form that developers of memory
//! managers know. Both show the same value.
//!
//! | module        | job                                                       |
//! |---------------|-----------------------------------------------------------|
//! | `model`       | [`Report`], [`Run`], [`Metric`]: plain data               |
//! | `nested`      | names of figures as paths in JSON                         |
//! | `document`    | the JSON document: schema and version of a report         |
//! | `csv`         | a report as CSV, a row per value                          |
//! | `details`     | single times and states of memory, for pages              |
//! | `stats`       | confidence intervals and p-values                         |
//! | `seeds`       | their table                                               |
//! | `unit`        | units, and the better direction                           |
//! | `published`   | [`Row`]: a published figure, compared with ours           |
//! | `file`        | writes a report into a file, completely or not at all     |
//! | `parts`       | a file in parts, written completely or not at all         |
//! | `compare`     | runs side by side: `27.50 ( 0.00%)  48.10 ( 74.91%)`      |
//! | `figure`      | the computation of metrics from outcomes                  |
//! | `table`       | tables, plain or coloured                                 |
//! | `sparkline`   | a series of points as a line of text                      |
//! | `number`      | numbers as people read them: a few digits and a unit      |
//!
//! The output does not depend on the time, the terminal or the environment: the same report gives
//! the same bytes, and the caller chooses colours.

pub(crate) mod compare;
mod csv;
mod details;
mod document;
pub(crate) mod figure;
mod file;
mod model;
pub(crate) mod nested;
mod number;
#[cfg(feature = "perfetto")]
mod parts;
mod published;
pub(crate) mod seeds;
mod sparkline;
mod stats;
mod table;
mod unit;

pub(crate) use compare::value;
pub use compare::{Comparison, HEADER_NOTE, gain_percent};
pub use csv::csv;
pub use details::{CellUse, MemoryState, MemoryStates, Times};
pub use document::{SCHEMA, VERSION};
pub(crate) use file::replace_with;
pub use file::{ReportError, check_destination, open_rows, replaces, write_json, write_text};
pub use model::{Check, Interval, Measured, Metric, Point, Report, Run, Verdict, cpu_metric};
pub use number::{decimal, each_run, scaled, scaled_nanos, several};
#[cfg(feature = "perfetto")]
pub(crate) use parts::Parts;
pub use published::{
    Agreement, Band, Constant, Judgement, Kernel, Published, Quantity, Reference, Role, Row, Sides,
    change_pct,
};
pub use seeds::{SEEDS_NOTE, intervals};
pub use sparkline::sparkline;
pub(crate) use stats::mean_interval;
pub use table::{Style, Table, Tone};
pub use unit::{Better, Unit};
