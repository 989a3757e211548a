//! The commands, one file each: do the work, make the report, print it.

mod hunt;
mod large_memory;
mod machines;
mod micro;
mod page_fault;
mod record;
mod replay;
mod report;
mod tuning;

pub(crate) use hunt::hunt;
pub(crate) use large_memory::large_memory;
pub(crate) use machines::machines;
pub(crate) use micro::micro;
pub(crate) use page_fault::page_fault;
pub(crate) use record::{Ended, record};
pub(crate) use replay::replay;
pub(crate) use tuning::tuning;
