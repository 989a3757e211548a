//! Making recordings: what the running kernel's page allocator does, for [`replay`](crate::replay).
//!
//! The kernel has tracepoints in its page allocator and writes their events into a ring buffer for
//! each CPU. A recording is those events as text, and the kernel's tables from its first and last
//! moment. Three things decide how it is made:
//!
//! * **It must not slow down what it records.** The kernel writes an event in some 40 ns; making
//!   text of it takes the kernel more than a microsecond. So the events are read as the kernel has
//!   them (`trace_pipe_raw`), one thread for each CPU, and kept compressed; text is made when the
//!   recording has ended.
//! * **It must leave nothing behind.** All switches are those of a tracing instance of its own,
//!   which goes with the recording: [`Session`] undoes what it did on every way out, and what the
//!   kernel does when the program is killed is in `instance`.
//! * **It must be whole.** Files get their names when all is written; events that the kernel lost
//!   are counted, noted where they are missing, and reported.
//!
//! | module        | job                                                               |
//! |---------------|-------------------------------------------------------------------|
//! | `session`     | a recording from start to stop                                    |
//! | `capture`     | what was recorded, into files                                     |
//! | `destination` | the files: names claimed, complete or not there                   |
//! | `tracefs`     | finding tracefs, or mounting it for this process alone            |
//! | `page`        | the ring buffer's pages                                           |
//! | `merge`       | all CPUs' events in the order of time                             |
//! | `format`      | events from bytes to text, as the kernel describes them           |
//! | `text`        | ftrace's lines                                                    |
//! | `names`       | how tasks are called                                              |
//! | `lost`        | how many events were lost                                         |
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
pub use session::Session;
pub use shootdowns::Shootdowns;
pub use tracefs::Tracefs;

#[cfg(test)]
mod tests;
