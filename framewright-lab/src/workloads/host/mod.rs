//! The driver for threads: every CPU is one, and real memory stands behind the frames.
//!
//! Figures are medians over rounds. With two sides, each has a memory of its own, and their rounds
//! alternate, so that whatever else the machine does falls on both.
//!
//! | module     | job                                                         |
//! |------------|-------------------------------------------------------------|
//! | `rounds`   | warming up, rounds in turn, threads                         |
//! | `memories` | a memory per side, large enough; what must hold in the end  |
//! | `world`    | a thread's side of the seam: pace and contents              |

mod memories;
mod rounds;
mod world;

use std::time::Duration;

use super::{Side, Workload};
use crate::{Error, report::Measured};
#[cfg(test)]
pub(crate) use world::{HostWorld, Pace};

/// What it runs on: this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSpec {
    /// Threads, each a CPU.
    pub cpus: u16,
    /// Frames of memory.
    pub frames: u64,
    /// Whether each thread is pinned to a processor.
    pub pin: bool,
}

/// For how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// Cycles of each side before anything is counted: lists find their sizes.
    pub warm_up: u32,
    /// Measured rounds of each side.
    pub rounds: u32,
    /// How long a round lasts.
    pub limit: Limit,
}

/// How long a round lasts. A CPU always finishes the cycle it has begun: a burst, a process, a
/// write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// So many cycles on each CPU.
    Cycles(u32),
    /// So long.
    Time(Duration),
}

impl Rounds {
    /// A measurement: some ten seconds a side.
    #[must_use]
    pub const fn full() -> Self {
        Self { warm_up: 4, rounds: 9, limit: Limit::Time(Duration::from_secs(1)) }
    }

    /// A look: a second a side.
    #[must_use]
    pub const fn quick() -> Self {
        Self { warm_up: 2, rounds: 3, limit: Limit::Time(Duration::from_millis(250)) }
    }
}

impl Workload {
    /// Runs every side on this process. `progress` hears how many of how many rounds are done.
    ///
    /// # Errors
    ///
    /// [`Error`]: the machine cannot be had, or has too little memory. Contents that were
    /// overwritten are no error but a failed check.
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
