//! Memory hotplug: adding and removing memory.

use super::{blocks::range, code_at};
use crate::{error::FwError, memory::FwMemory};

/// Adds `frames` free frames from `pfn`. If the map names the range as FW_PRESENCE_ABSENT, they must be whole
/// pageblocks. If it names the range as FW_PRESENCE_IN_PIECES, any number may be added, in any order; adjacent pieces
/// are joined.
///
/// On an error nothing has changed. If `at` is not NULL: for FW_ERROR_PRESENT, `*at` is the first frame that is present
/// already; for FW_ERROR_BAD_RANGE it is `pfn`, and for any other error 0.
///
/// May be called on all CPUs at once, but not by interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `at` is NULL or may be written.
/// No other code uses the frames, which are mapped as `address` of the platform says.
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

/// Removes the range of `frames` frames that starts at `pfn`, so that the allocator no longer hands them out. The range
/// must consist of whole pageblocks, all of them free.
///
/// On an error nothing has changed. If `at` is not NULL: for FW_ERROR_BUSY, `*at` is the number of frames in use; for
/// FW_ERROR_ABSENT, the start of the first pageblock that is not wholly present; for FW_ERROR_ISOLATED, a frame of an
/// isolated pageblock; for FW_ERROR_BAD_RANGE, `pfn`; for any other error, 0.
///
/// May be called on all CPUs at once, but not by interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `at` is NULL or may be written.
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
