//! The fragmentation of the running kernel's memory, from the kernel's own tables.
//!
//! A [`Look`] has the tables of one moment: those of this machine, or saved ones ([`Source`]).
//! [`Fragmentation`] has the free blocks of a zone by order and migratetype, with the two indices of the
//! folder `extfrag` of debugfs. [`HugePages`] says how many huge pages a program could get, without and with
//! compaction. [`counters`] has the kernel's counts of huge pages, stalls and TLB shootdowns.
//! [`figures`] has all of it as one list, for reports and time series. [`Attempt`] allocates huge pages for a
//! moment, to test the prediction.
//!
//! | module      | job                                                               |
//! |-------------|-------------------------------------------------------------------|
//! | `source`    | reads the tables of this machine, or saved ones                   |
//! | `zone`      | a zone: free blocks by type and order, indices, watermarks        |
//! | `pages`     | the use of each frame: what compaction can move, and where to     |
//! | `simulate`  | compaction by the library in such a state                         |
//! | `huge`      | the number of huge pages that a program could get                 |
//! | `counters`  | the kernel's counters, and their increase between two looks       |
//! | `figures`   | all figures of a look as a list                                   |
//! | `charts`    | looks over time as charts                                         |
//! | `attempt`   | really allocates huge pages for a moment                          |

#[cfg(feature = "host")]
mod attempt;
mod charts;
mod counters;
mod figures;
mod huge;
mod pages;
mod simulate;
mod source;
#[cfg(test)]
mod tests;
mod zone;

#[cfg(feature = "host")]
pub use attempt::{Attempt, Bounds, End, HugePageSetting, MODES, Mode, Refusal};
pub use charts::charts;
pub use counters::{Counter, counters};
pub use figures::{CSV_HEADER, Figure, figures};
pub use huge::{Basis, HugePages, ZoneHugePages};
pub use pages::{Pageblock, ZonePages};
pub use source::{Look, Source};
pub use zone::{Fragmentation, TypeBlocks};
