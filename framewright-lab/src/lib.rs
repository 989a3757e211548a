//! What is run on the library: recordings of real kernels and their replay, workloads, the tables of
//! costs, and the form in which all of them report.
//!
//! [`record`] makes recordings, [`trace`] reads them and the kernel's tables beside them, and
//! [`replay`] does again what they hold. [`micro`] and [`large_memory`] measure single operations,
//! [`fragmentation`] what many of them leave of free memory,
//! [`workloads`] whole ones, on threads, on [`simulated`] machines, or on
//! [`qemu`]'s; [`paging`] those that use more
//! memory than there is, [`host_paging`] the same on threads over real memory, and [`high_alloc`] asks
//! for huge pages of a busy one. [`reproduce`] holds what others published against it. [`report`] is
//! the form of every result, and [`plot`] draws it.

mod clock;
mod error;
pub mod fragmentation;
pub mod high_alloc;
pub mod host_paging;
pub mod large_memory;
pub mod micro;
pub mod paging;
pub mod plot;
pub mod qemu;
pub mod record;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod simulated;
pub mod trace;
pub mod workloads;

pub use error::Error;
