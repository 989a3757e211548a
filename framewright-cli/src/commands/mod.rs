//! The commands, one file each: do the work, make the report, print it.

mod fragmentation;
mod high_alloc;
mod host_paging;
mod hunt;
mod large_memory;
mod machines;
mod micro;
mod paging;
mod prices;
mod qemu;
mod record;
mod refuse;
mod replay;
mod report;
mod reproduce;
mod tuning;
mod workload;

pub(crate) use fragmentation::{churn, replace};
pub(crate) use high_alloc::high_alloc;
pub(crate) use hunt::hunt;
pub(crate) use large_memory::large_memory;
pub(crate) use machines::machines;
pub(crate) use micro::micro;
pub(crate) use paging::{cdn, mmap_read};
pub(crate) use prices::prices;
pub(crate) use qemu::tlb_proof;
pub(crate) use record::{Ended, record};
pub(crate) use replay::replay;
pub(crate) use reproduce::reproduce;
pub(crate) use tuning::tuning;
pub(crate) use workload::{kbuild, page_fault, socket_pairs};
