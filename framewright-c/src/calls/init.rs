//! Initialising and destroying an allocator.

use core::{ffi::c_void, ptr::NonNull};

use super::code_at;
use crate::{
    config::{FwConfig, Parts},
    error::{ErrorAt, FwError},
    memory::{FwMemory, Plan},
    platform::{FwPlatform, Machine},
};

/// Stores the size and the alignment, in bytes, of the buffer that a memory of this configuration needs. By default the
/// size is less than one byte per frame plus about 10 KiB per CPU.
///
/// On an error, `*at` is as for `fw_memory_init`, if `at` is not NULL.
///
/// # Safety
///
/// `config` points to a configuration whose arrays have the lengths that it names. `bytes`, `align` and `at` are NULL
/// or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_memory_size(
    config: *const FwConfig,
    bytes: *mut usize,
    align: *mut usize,
    at: *mut u64,
) -> FwError {
    let plan = || {
        // SAFETY: the contract is that of this function.
        let config = unsafe { config.as_ref() }.ok_or(FwError::NullArgument)?;
        let mut parts = Parts::NONE;
        // SAFETY: the contract is that of this function.
        Plan::new(&unsafe { config.convert(&mut parts) }?)
    };
    let stored = plan().and_then(|plan| {
        if bytes.is_null() || align.is_null() {
            return Err(FwError::NullArgument.into());
        }
        // SAFETY: `bytes` and `align` are not NULL, and may be written by contract.
        unsafe {
            bytes.write(plan.bytes());
            align.write(plan.align);
        }
        Ok(())
    });
    // SAFETY: the contract is that of this function.
    unsafe { code_at(stored, at) }
}

/// Creates a memory in `buffer`, and stores the pointer to it. All frames that are present are free, except those in
/// use from the start. Needs up to 14 KiB of stack.
///
/// On an error, `*memory` is NULL. If `at` is not NULL, `*at` is the number that explains the error: the index of a
/// range of the map, of a CPU or of a setting, the number of ranges, CPUs or distances that were passed, or the bytes
/// or the alignment needed. It is 0 if no number explains the error.
///
/// # Safety
///
/// `platform` and `config` point to structs that meet the descriptions of their members. The buffer has `buffer_bytes`
/// bytes, whose contents do not matter; the memory alone uses them until `fw_memory_end`. `memory` and `at` are NULL or
/// may be written. The functions of the platform do what `struct fw_platform` says. No other code uses the frames of
/// the map, except those in use from the start. Other CPUs use the memory only after this call has returned: publish
/// the pointer with release ordering.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_memory_init(
    memory: *mut *mut FwMemory,
    platform: *const FwPlatform,
    config: *const FwConfig,
    buffer: *mut c_void,
    buffer_bytes: usize,
    at: *mut u64,
) -> FwError {
    if memory.is_null() {
        return FwError::NullArgument;
    }
    let make = || {
        // SAFETY: the contract is that of this function.
        let (platform, config) = unsafe { (platform.as_ref(), config.as_ref()) };
        let null = ErrorAt::from(FwError::NullArgument);
        let (platform, config) = (platform.ok_or(null)?, config.ok_or(null)?);
        let buffer = NonNull::new(buffer.cast()).ok_or(null)?;
        let mut parts = Parts::NONE;
        // SAFETY: the contract is that of this function.
        unsafe {
            let machine = Machine::new(*platform)?;
            FwMemory::init(machine, &config.convert(&mut parts)?, buffer, buffer_bytes)
        }
    };
    let made = make();
    // SAFETY: `memory` is not NULL, and may be written by contract.
    unsafe { memory.write(made.map_or(core::ptr::null_mut(), NonNull::as_ptr)) };
    // SAFETY: the contract is that of this function.
    unsafe { code_at(made.map(drop), at) }
}

/// Ends a memory: from now on every call fails with FW_ERROR_NOT_INITIALISED. The buffer may be reused after the last
/// call for this memory has returned. Frames are not changed.
///
/// # Safety
///
/// No other call for this memory is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_memory_end(memory: *mut FwMemory) -> FwError {
    // SAFETY: the contract is that of this function.
    unsafe { FwMemory::of(memory) }.map(FwMemory::end).into()
}
