//! The driver for threads: every CPU is a thread, and frames are real memory.
//!
//! Figures are medians over rounds. With two sides, each has a memory of its own. Their rounds
//! alternate, so other load of the machine affects both.
//!
//! | module     | job                                                         |
//! |------------|-------------------------------------------------------------|
//! | `rounds`   | warm-up, alternating rounds, threads                        |
//! | `memories` | a memory per side, large enough; the checks at its end      |
//! | `world`    | a thread as the world of a workload: time and contents      |

mod memories;
mod rounds;
mod world;

use std::time::Duration;

use super::{Side, Workload};
use crate::{Error, report::Measured};
#[cfg(test)]
pub(crate) use world::{HostWorld, Pace};

/// The machine: threads of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSpec {
    /// Threads, each a CPU.
    pub cpus: u16,
    /// Frames of memory.
    pub frames: u64,
    /// Whether each thread is pinned to a processor.
    pub pin: bool,
}

/// The amount of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// Cycles of each side before the measurement, in which lists reach their sizes.
    pub warm_up: u32,
    /// Measured rounds of each side.
    pub rounds: u32,
    /// The length of a round.
    pub limit: Limit,
}

/// The length of a round. A CPU always finishes the cycle that it has begun: a burst, a process, a
/// write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// This number of cycles on each CPU.
    Cycles(u32),
    /// This time.
    Time(Duration),
}

impl Rounds {
    /// A measurement: some ten seconds a side.
    #[must_use]
    pub const fn full() -> Self {
        Self { warm_up: 4, rounds: 9, limit: Limit::Time(Duration::from_secs(1)) }
    }

    /// A short run: a second a side.
    #[must_use]
    pub const fn quick() -> Self {
        Self { warm_up: 2, rounds: 3, limit: Limit::Time(Duration::from_millis(250)) }
    }
}

impl Workload {
    /// Runs every side in this process. `progress` gets the number of finished rounds and of all.
    ///
    /// # Errors
    ///
    /// [`Error`]: the host lacks something, or memory is too small. Overwritten contents are no
    /// error but a failed check.
    pub fn run_on_host(
        &self,
        spec: &HostSpec,
        sides: &[Side],
        rounds: Rounds,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, Error> {
        rounds::run(self, spec, sides, rounds, progress)
    }
}

#[cfg(test)]
mod tests;
