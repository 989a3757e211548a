//! Instructions per operation, counted by callgrind.
//!
//! Times depend on the machine; instruction counts hardly do. The workload is that of a page
//! fault benchmark: bursts of 32,768 frames up, then down, freed in the order in which they were
//! mapped or at random. The memory (1 GiB, 4 CPUs) is small enough that bursts do not fit into the
//! per-CPU lists, so refills and bulk frees are part of the figure.
//!
//! The program runs *itself* under valgrind: [`measure`] starts a child per subject and order,
//! which calls [`Workload::run`]. Callgrind collects only inside the never-inlined wrappers, or
//! only inside the functions that run under the zone lock; and only the difference between a
//! longer and a shorter run counts, so that start-up and warming up drop out.

mod driver;
mod workload;

pub use driver::{InstructionsError, measure};
pub use workload::{FreeOrder, Subject, Workload};
