//! Sweeps: many runs of workloads, with all combinations of machines, settings and seeds, as one table.
//!
//! A [`Plan`] is read from TOML, and checked against a [`Catalog`] before anything runs. A [`Sweep`] is a plan, or a
//! sample or shard of it, with an output file `OUT`. While it runs, each finished run is a file in `OUT.parts/`. The
//! table `OUT` is written once, at the end, from these files. A sweep that is killed at any moment therefore continues
//! where it stopped, and the table is the same.
//!
//! | module    | job                                                             |
//! |-----------|-----------------------------------------------------------------|
//! | `read`    | TOML to values with their places in the file                    |
//! | `plan`    | the combinations                                                |
//! | `entry`   | a run: its command and its identity                             |
//! | `choose`  | samples and shards of a plan                                    |
//! | `parts`   | a file for each finished run                                    |
//! | `drive`   | workers, the import of tables, the table at the end             |
//! | `merge`   | tables in the order of the plan, read side by side               |
//! | `table`   | the columns, and the table as CSV                               |
//! | `parquet` | the table as Parquet, with the feature `parquet`                |
//! | `compare` | figures of a table by the values of one setting                 |
//!
//! The table does not depend on the number of workers, on shards, on interruptions or on the time: the same plan gives
//! the same bytes.

mod choose;
mod compare;
mod drive;
mod entry;
mod merge;
#[cfg(feature = "parquet")]
mod parquet;
mod parts;
mod plan;
mod read;
mod table;
#[cfg(test)]
mod tests;

pub use choose::{Selection, Shard};
pub use compare::{Compared, compare};
pub use drive::{Done, Sweep};
pub use entry::Entry;
pub use parts::Figure;
pub use plan::{Catalog, Machine, Plan};
pub use table::Format;
