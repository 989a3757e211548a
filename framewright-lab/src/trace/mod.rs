//! Recordings: what a real Linux kernel's page allocator did, read as typed events.
//!
//! A recording is text: what ftrace prints in `tracing/trace`, or what `perf script` prints for the
//! same `kmem:` events. It may be compressed with zstd. Beside it there may be a *snapshot*: the
//! kernel's own tables (`/proc/zoneinfo` and friends) from the moment the recording began.
//!
//! The rooms, each used only by those above it:
//!
//! | module       | job                                                          |
//! |--------------|--------------------------------------------------------------|
//! | [`reader`]   | a file in, events out; keeps header, warnings and counts     |
//! | [`snapshot`] | `NAME.before` and `NAME.after` in, zones and counters out    |
//! | `event`      | event bodies into an [`Event`]                               |
//! | `prefix`     | the part of a line before the event: task, CPU, time, name   |
//! | `lines`      | bytes in, whole lines out                                    |
//! | `source`     | a file in, plain bytes out: decompression, foreign formats   |
//! | `number`     | numbers and identifiers within their limits                  |
//! | `error`      | what can be wrong, said with file, line, value and reason    |
//!
//! Two rules shape the code. Whatever is *wrong* in a recording is an error that names the line;
//! whatever is merely *missing* (a tail that was cut, events the kernel lost) is a [`Warning`],
//! because most of a recording is still worth replaying. And nothing is allocated per line: a
//! recording has millions of them.

mod error;
mod event;
pub mod fuzz;
mod lines;
mod number;
mod prefix;
pub mod reader;
pub mod snapshot;
mod source;

pub use error::{LineProblem, TraceError, Warning};
pub use event::{Event, ExtFrag, GfpFlags};
pub use number::{MAX_CPUS, MAX_ORDER, MAX_PFN};
pub use reader::{Header, Record, TraceReader};
pub use snapshot::Snapshot;
pub(crate) use source::read_stream;

#[cfg(test)]
mod tests;
