//! Records the page allocator of the running kernel, for [`replay`](crate::replay).
//!
//! The kernel has tracepoints in its page allocator and writes their events into a ring buffer for
//! each CPU. A recording is these events as text, and the kernel's tables from its start and end.
//! It has three goals:
//!
//! * **Low overhead.** The kernel writes an event in some 40 ns; its conversion to text takes the
//!   kernel more than a microsecond. One thread for each CPU therefore reads events in binary form
//!   (`trace_pipe_raw`) and compresses them. They are converted after the end of the recording.
//! * **No traces left.** All settings belong to a separate tracing instance, which is removed with
//!   the recording: [`Session`] undoes its changes on every path. If the program is killed, the
//!   kernel frees the buffers and stops tracing, and an empty tracing instance remains. The next
//!   recording removes that instance.
//! * **Completeness.** The files are written under temporary names, and renamed when all of them
//!   are complete. Events that the kernel lost are counted, noted at their place, and reported.
//!
//! | module        | job                                                               |
//! |---------------|-------------------------------------------------------------------|
//! | `session`     | a recording from start to stop                                    |
//! | `capture`     | reader threads, and writing the recording                         |
//! | `destination` | the output files: first `.part`, then all are renamed, or none    |
//! | `tracefs`     | finding tracefs, or mounting it for this process alone            |
//! | `page`        | the ring buffer's pages                                           |
//! | `merge`       | all CPUs' events in the order of time                             |
//! | `format`      | events from bytes to text, by the kernel's descriptions           |
//! | `text`        | ftrace's lines                                                    |
//! | `names`       | the names of tasks; the events and tables that are recorded       |
//! | `lost`        | the number of lost events, and errors                             |
//! | `shootdowns`  | counting, not recording, one kind of event                        |

mod capture;
mod destination;
mod format;
mod lost;
mod merge;
mod names;
mod page;
mod session;
mod shootdowns;
mod text;
mod tracefs;

pub use capture::{Capture, Summary, Tally};
pub use destination::{Destination, WrittenFiles};
pub use lost::{Lost, RecordError};
pub(crate) use names::{LOCKS, RECORDED, Wanted};
pub use session::Session;
pub use shootdowns::Shootdowns;
pub use tracefs::Tracefs;

#[cfg(test)]
mod tests;
