//! Measurements of the machine that this process runs on, and a simulated machine made from them.
//!
//! [`Means`] says which CPUs and system calls there are. [`Readings::take`] measures single
//! operations: loads, atomics, interrupts, page faults of a small mapping. [`Calibrated`] derives the
//! parameters of a machine file from the readings. A parameter that could not be measured is taken
//! over from the common machine, with the reason.
//!
//! Nothing here runs a workload. The measured machine is validated with the workloads.
//!
//! | module      | job                                                               |
//! |-------------|-------------------------------------------------------------------|
//! | `means`     | the CPUs, and system calls that may be missing                    |
//! | `probe`     | a probe: quantities that are measured together, in rounds         |
//! | `one`       | probes of one thread: clock, atomics, system calls, clearing      |
//! | `caches`    | latencies, independent misses, and bandwidth                      |
//! | `two`       | probes of two threads: cache lines and locks that change CPUs     |
//! | `interrupt` | interrupts by `membarrier` and by a TLB shootdown; the timer      |
//! | `fault`     | page faults, and unmapping                                        |
//! | `topology`  | sockets, cores and nodes, as the kernel describes them            |
//! | `derive`    | readings to parameters                                            |
//! | `file`      | parameters to a machine file                                      |

mod caches;
mod derive;
mod fault;
mod file;
mod interrupt;
mod means;
mod one;
mod probe;
#[cfg(test)]
mod tests;
mod topology;
mod two;

pub use derive::{Calibrated, TakenOver, Value};
pub use means::Means;
pub use probe::{Quantity, Reading, Readings};

/// Rounds of each probe, for a full measurement of less than half a minute.
pub const ROUNDS: u32 = 61;
/// Rounds of a short measurement, whose figures are not to be quoted.
pub const QUICK_ROUNDS: u32 = 3;
