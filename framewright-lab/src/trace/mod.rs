//! Recordings of a real Linux kernel's page allocator, read as typed events.
//!
//! A recording is text: that of ftrace in `tracing/trace`, or that of `perf script` for the same
//! `kmem:` events. It may be compressed with zstd. Next to it there may be *snapshots*: the
//! kernel's own tables (`/proc/zoneinfo` and others) from the start and the end of the recording.
//!
//! The modules. Each uses only modules below it:
//!
//! | module       | job                                                          |
//! |--------------|--------------------------------------------------------------|
//! | [`fuzz`]     | entry points for a fuzzer                                    |
//! | [`reader`]   | a file in, events out; keeps header, warnings and counts     |
//! | [`snapshot`] | `NAME.before` and `NAME.after` in, zones and counters out    |
//! | `usual`      | usual bodies into an [`Event`], in one pass                  |
//! | `event`      | any event bodies into an [`Event`]                           |
//! | `prefix`     | the part of a line before the event: task, CPU, time, name   |
//! | `lines`      | bytes in, whole lines out                                    |
//! | `source`     | a file in, plain bytes out: foreign formats                  |
//! | `ahead`      | pieces of bytes, read ahead in a thread of its own           |
//! | `zstd`       | compression and decompression                                |
//! | `number`     | numbers and identifiers within their limits                  |
//! | `error`      | errors and warnings, with file, line, value and reason       |
//!
//! A *malformed* part of a recording is an error that names the line. A *missing* part (a truncated
//! tail, lost events) is a [`Warning`], because most of the recording can still be replayed. The
//! reader allocates no memory per line, because a recording has millions of lines.

mod ahead;
mod error;
mod event;
pub mod fuzz;
mod lines;
mod number;
mod prefix;
pub mod reader;
pub mod snapshot;
mod source;
mod usual;
pub(crate) mod zstd;

pub use error::{LineProblem, TraceError, Warning};
pub use event::{Event, GfpFlags};
pub(crate) use number::MAX_MIGRATETYPE;
pub use number::{MAX_CPUS, MAX_ORDER, MAX_PFN};
pub(crate) use prefix::process;
pub use reader::{Header, Origin, Record, TraceReader};
pub use snapshot::Snapshot;
pub(crate) use source::read_stream;

#[cfg(test)]
mod tests;
