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
//! load. [`reproduce`] compares published results with the library. [`report`] is the form of every
//! result, [`plot`] draws it, and [`html`] shows it as a page. [`sweep`] runs all combinations of machines, settings and
//! seeds, and writes one table.
//!
//! The feature `host` (on by default) adds what needs Linux: [`record`], [`qemu`], [`micro`],
//! [`fragmentation`], [`large_memory`], [`measure`], [`validate`], [`host_paging`], and the workloads on threads.

// Some functions are only for the machines that the feature `host` adds.
#![cfg_attr(not(feature = "host"), allow(dead_code, unused_imports))]

#[cfg(feature = "host")]
mod anonymous;
mod checkout;
#[cfg(feature = "host")]
mod clock;
mod error;
#[cfg(feature = "host")]
pub mod fragmentation;
pub mod high_alloc;
#[cfg(feature = "host")]
pub mod host_paging;
pub mod html;
pub mod inspect;
mod invariants;
#[cfg(feature = "host")]
pub mod large_memory;
#[cfg(feature = "host")]
pub mod measure;
#[cfg(feature = "host")]
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
pub mod reproduce;
#[cfg(feature = "host")]
mod setting;
pub mod simulated;
pub mod sweep;
pub mod trace;
#[cfg(feature = "host")]
pub mod validate;
pub mod workloads;

pub use error::Error;
