//! Traces of runs for [Perfetto](https://ui.perfetto.dev): the activity of each simulated CPU over time, the holder and
//! the waiters of each zone lock, interrupts from sender to target, and counters.
//!
//! A [`Trace`] is a file with the traces of one or more runs, each a *process*. Its CPUs are threads. Times are those
//! of the simulated machine or of the recording, so runs of the same work are side by side. A trace changes nothing in
//! a run: all figures are the same as without.
//!
//! The size of a file is proportional to the number of events of its runs. It is written while the runs go
//! on, so it takes no memory. It appears when all runs have ended.
//!
//! | module     | job                                                                        |
//! |------------|----------------------------------------------------------------------------|
//! | `process`  | the tracks of a run: CPUs, locks, counters                                 |
//! | `recorder` | events of a simulated machine as slices on these tracks                    |
//! | `hunt`     | a run of a hunt that failed                                                |
//! | `counters` | the values of counters and their rates, at intervals                       |
//! | `file`     | tracks and slices as packets; `absent` without the feature `perfetto`      |
//! | `schema`   | the messages of a packet                                                   |

// Without the feature, `File` has no values, so that most of this code cannot run.
#![cfg_attr(not(feature = "perfetto"), allow(dead_code, unreachable_code))]

use std::{cell::RefCell, path::Path, rc::Rc};

use crate::Error;

#[cfg(not(feature = "perfetto"))]
mod absent;
mod counters;
#[cfg(feature = "perfetto")]
mod file;
mod hunt;
mod process;
mod recorder;
#[cfg(feature = "perfetto")]
mod schema;
#[cfg(all(test, feature = "perfetto"))]
pub(crate) mod tests;

#[cfg(not(feature = "perfetto"))]
use absent::File;
#[cfg(feature = "perfetto")]
use file::File;

pub(crate) use counters::{Counters, Levels, Sample, levels};
pub(crate) use process::{Part, Process};
pub(crate) use recorder::{Recorder, zone_name};

/// The number of a track within its file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Track(u64);

/// The number of an arrow within its file.
#[derive(Clone, Copy, Debug)]
struct Flow(u64);

/// A trace that is being written.
///
/// # Example
///
/// ```no_run
/// use framewright_lab::perfetto::Trace;
///
/// let trace = Trace::create("run.perfetto-trace".as_ref())?;
/// // ... runs that take `Some(&trace)`
/// trace.finish()?;
/// # Ok::<(), framewright_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    shared: Rc<RefCell<Shared>>,
}

/// The file, and the numbers that are taken.
#[derive(Debug)]
struct Shared {
    file: File,
    tracks: u64,
    processes: u32,
}

impl Trace {
    /// A trace without runs, which will be written to `path`.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or this program was built without the feature `perfetto`.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let shared = Shared { file: File::create(path)?, tracks: 0, processes: 0 };
        Ok(Self { shared: Rc::new(RefCell::new(shared)) })
    }

    /// Completes the file. Without this call there is none.
    ///
    /// # Errors
    ///
    /// The error names the file and the reason. An existing file is unchanged.
    ///
    /// # Panics
    ///
    /// If a run is being traced.
    pub fn finish(self) -> Result<(), Error> {
        let shared = Rc::into_inner(self.shared).expect("no run is being traced");
        shared.into_inner().file.finish()
    }

    /// The tracks of another run.
    pub(crate) fn process(&self, name: &str, cpus: u16) -> Process {
        Process::new(&self.shared, name, cpus)
    }
}

impl Shared {
    fn track(&mut self) -> Track {
        self.tracks += 1;
        Track(self.tracks)
    }
}
