//! Experiments with the library: recordings of real kernels and their replay, workloads, cost
//! tables, and the report that all of them produce.
//!
//! [`record`] makes recordings, [`trace`] reads them and the kernel's tables next to them, and
//! [`replay`] replays them. [`inspect`] reads the same tables of the running kernel. [`micro`] and [`large_memory`] measure single operations,
//! [`fragmentation`] measures the free memory after many operations. [`measure`] measures this
//! computer and makes a simulated machine of it, which [`validate`] compares with the computer.
//! [`workloads`] contains workloads on threads, on [`simulated`] machines, or on the emulated
//! machines of [`qemu`].
//! [`paging`] contains workloads with more pages than memory has frames, [`host_paging`] runs one
//! of them on threads over real memory, and [`high_alloc`] requests huge pages on a machine under
//! load. [`reproduce`] compares published results with the library. [`samples`] are the memory of a
//! run over time. [`choice`] names the values that a user chooses. [`report`] is the form of every
//! result, [`plot`] draws it, and [`html`] shows it as a page. [`sweep`] runs all combinations of machines, settings and
//! seeds, and writes one table.
//!
//! Two features are on by default. `host` adds what needs Linux: [`record`], [`qemu`], [`measure`], [`host_paging`], and
//! the workloads on threads. `full` adds [`reproduce`], and with `host` [`micro`], [`fragmentation`], [`large_memory`]
//! and [`validate`].

// Users copy the examples, so these import no more than they use.
#![doc(test(attr(deny(unused_imports))))]
// Some functions are only for modules that a feature adds.
#![cfg_attr(not(all(feature = "full", feature = "host")), allow(dead_code, unused_imports))]

#[cfg(feature = "host")]
mod anonymous;
mod checkout;
pub mod choice;
#[cfg(feature = "host")]
mod clock;
mod error;
#[cfg(all(feature = "full", feature = "host"))]
pub mod fragmentation;
pub mod high_alloc;
#[cfg(feature = "host")]
pub mod host_paging;
pub mod html;
pub mod inspect;
mod invariants;
#[cfg(all(feature = "full", feature = "host"))]
pub mod large_memory;
#[cfg(feature = "host")]
pub mod measure;
#[cfg(all(feature = "full", feature = "host"))]
pub mod micro;
pub mod paging;
mod parallel;
pub mod perfetto;
pub mod plot;
#[cfg(feature = "host")]
pub mod qemu;
#[cfg(feature = "host")]
pub mod record;
pub mod replay;
pub mod report;
#[cfg(feature = "full")]
pub mod reproduce;
pub mod samples;
#[cfg(feature = "host")]
mod setting;
pub mod simulated;
pub mod sweep;
pub mod trace;
#[cfg(all(feature = "full", feature = "host"))]
pub mod validate;
pub mod workloads;

pub use error::Error;
