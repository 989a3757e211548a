//! Memory that comes and goes.

use super::{blocks::range, code_at};
use crate::{error::FwError, memory::FwMemory};

/// Adds `frames` frames from `pfn`, free: in whole pageblocks where the map says absent, in any number where it says in
/// pieces. Pieces may come in any order; adjacent ones are joined.
///
/// On an error nothing has changed, and `*at` is the first frame that is present already, if `at` is not NULL.
///
/// May be called on all CPUs at once, but not by interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL or from `fw_memory_init`, and not ended. `at` is NULL or may be written. Nobody else uses the
/// frames, which are mapped as `address` of the platform says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_add_memory(
    memory: *mut FwMemory,
    pfn: u64,
    frames: u64,
    at: *mut u64,
) -> FwError {
    let add = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?;
        Ok(memory.memory().add_memory(range(pfn, frames)?)?)
    };
    // SAFETY: the contract is that of this function.
    unsafe { code_at(add(), at) }
}

/// Removes `frames` frames from `pfn`, which are whole pageblocks, so that they are no longer allocated.
///
/// On an error nothing has changed, and `*at` is, if `at` is not NULL, the number of frames in use for FW_ERROR_BUSY,
/// else the frame concerned.
///
/// May be called on all CPUs at once, but not by interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL or from `fw_memory_init`, and not ended. `at` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_remove_memory(
    memory: *mut FwMemory,
    pfn: u64,
    frames: u64,
    at: *mut u64,
) -> FwError {
    let remove = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?;
        Ok(memory.memory().remove_memory(range(pfn, frames)?, &mut |_| ())?)
    };
    // SAFETY: the contract is that of this function.
    unsafe { code_at(remove(), at) }
}
