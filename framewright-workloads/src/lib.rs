//! The operations of workloads, the same on every machine: on threads of the host, on a simulated
//! machine, in the kernel, and on Linux. Their results can therefore be compared.
//!
//! * [`Sharing`] and [`Part`]: the pages of a task.
//! * [`Reads`]: the accesses of a task of `mmap-read`, in order.
//! * [`page_fault`] and [`compilers`]: sizes of the other workloads.

#![no_std]
#![forbid(unsafe_code)]

pub mod compilers;
pub mod page_fault;
mod reads;
mod sharing;

pub use reads::{Read, Reads};
pub use sharing::{Part, Sharing};
