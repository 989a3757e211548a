//! The functions that C calls.
//!
//! A pointer to a `struct fw_memory` is NULL, or one that `fw_memory_init` has returned in a buffer that has not
//! been changed since. No call unwinds: the library does not panic on input, and functions of the embedder
//! must not unwind.

mod blocks;
mod cpus;
mod init;
mod map;
mod report;

pub use blocks::*;
pub use cpus::*;
pub use init::*;
pub use map::*;
pub use report::*;

use crate::error::{ErrorAt, FwError};

/// Stores the number that explains an error, if `at` is not NULL.
///
/// # Safety
///
/// `at` is NULL, or points to a number that may be written.
unsafe fn code_at(result: Result<(), ErrorAt>, at: *mut u64) -> FwError {
    match result {
        Ok(()) => FwError::None,
        Err(error) => {
            if !at.is_null() {
                // SAFETY: the contract is that of this function.
                unsafe { at.write(error.at) };
            }
            error.error
        }
    }
}
