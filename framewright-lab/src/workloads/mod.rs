//! Workloads: what systems do to a page allocator, written once and run on any machine.
//!
//! A workload is two things. Its *body* is what one CPU does: a loop over a
//! [`CpuToken`](framewright::CpuToken), generic over the machine below, which knows neither
//! threads nor clocks. Its *driver* belongs to a kind of machine: it makes the CPUs, runs the
//! body on each, and turns counters and times into figures.
//!
//! | module       | job                                                          |
//! |--------------|--------------------------------------------------------------|
//! | `contents`   | what a body asks of a machine beyond the library's own needs |
//! | `page_fault` | bursts of frames up, then down (will-it-scale's page_fault1) |

mod contents;
pub mod page_fault;

use framewright::Tuning;
use indexmap::IndexMap;

pub use contents::{Contents, Overwritten};

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// Name of its column.
    pub label: String,
    /// Its tuning.
    pub tuning: Tuning,
    /// Those of its settings that the result shall name.
    pub settings: IndexMap<String, String>,
}
