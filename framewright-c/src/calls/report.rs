//! Counts, the check, and tables.

use core::{ffi::c_char, fmt::Write};

use framewright::Order;

use super::blocks::order_of;
use crate::{error::FwError, memory::FwMemory, text::Buffer};

/// Counts of frames. They are exact while no other CPU uses the memory; then `free`, `on_cpus`, `in_depots` and
/// `in_use` add up to `managed`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FwCounts {
    /// Frames that the memory manages.
    pub managed: u64,
    /// Free frames in the zones.
    pub free: u64,
    /// Free frames on the lists of CPUs.
    pub on_cpus: u64,
    /// Free frames in the depots, through which CPUs exchange blocks.
    pub in_depots: u64,
    /// Allocated frames, including those in use from the start.
    pub in_use: u64,
}

/// Stores the counts of frames. May be called on all CPUs at once.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `counts` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_counts(memory: *mut FwMemory, counts: *mut FwCounts) -> FwError {
    let count = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?.memory();
        if counts.is_null() {
            return Err(FwError::NullArgument);
        }
        let stats = memory.stats();
        let found = FwCounts {
            managed: memory.managed(),
            free: memory.free(),
            on_cpus: memory.held_by_cpus(),
            in_depots: memory.in_depots(),
            in_use: stats.pgalloc.saturating_sub(stats.pgfree),
        };
        // SAFETY: `counts` is not NULL, and may be written by contract.
        unsafe { counts.write(found) };
        Ok(())
    };
    count().into()
}

/// Stores the number of blocks of 2^order frames that the free frames of the zones form, including parts of larger free
/// blocks: for order 9, the huge pages that are free. Watermarks are not considered. Walks every pageblock: for
/// reports.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `blocks` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_capacity(
    memory: *mut FwMemory,
    order: u32,
    blocks: *mut u64,
) -> FwError {
    let count = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?.memory();
        if blocks.is_null() {
            return Err(FwError::NullArgument);
        }
        let order = order_of(order)?;
        let of_zone = |by_order: [u64; Order::COUNT]| -> u64 {
            let larger = by_order.into_iter().zip(Order::all()).filter(|(_, of)| *of >= order);
            larger.map(|(count, of)| count * (of.frames() / order.frames())).sum()
        };
        let found = memory.zones().map(|zone| of_zone(memory.block_counts(zone.id).by_order()));
        // SAFETY: `blocks` is not NULL, and may be written by contract.
        unsafe { blocks.write(found.sum()) };
        Ok(())
    };
    count().into()
}

/// Checks the invariants of a memory that no other CPU uses at the moment. Walks every pageblock.
///
/// If FW_ERROR_VIOLATION is returned and `text` is not NULL, the violated invariant is described there, cut off after
/// `text_bytes` bytes, the zero byte at the end included.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `text` is NULL, or has `text_bytes`
/// bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_check(
    memory: *mut FwMemory,
    text: *mut c_char,
    text_bytes: usize,
) -> FwError {
    let check = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?.memory();
        memory.check().map_err(|violation| {
            // SAFETY: the contract is that of this function.
            let mut buffer = Buffer::new(unsafe { bytes_of(text, text_bytes) });
            // The text is cut off where it does not fit.
            let _ = write!(buffer, "{violation}");
            FwError::Violation
        })
    };
    check().into()
}

/// Writes the free blocks by node, zone and order, as Linux's /proc/buddyinfo. The text is cut off after `text_bytes`
/// bytes, the zero byte at the end included. Stores the length of the whole text without that byte, if `length` is not
/// NULL.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `text` is NULL, or has `text_bytes`
/// bytes that may be written. `length` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_buddyinfo(
    memory: *mut FwMemory,
    text: *mut c_char,
    text_bytes: usize,
    length: *mut usize,
) -> FwError {
    let describe = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?.memory();
        // SAFETY: the contract is that of this function.
        let mut buffer = Buffer::new(unsafe { bytes_of(text, text_bytes) });
        memory.write_buddyinfo(&mut buffer).map_err(|_| FwError::Other)?;
        if !length.is_null() {
            // SAFETY: `length` is not NULL, and may be written by contract.
            unsafe { length.write(buffer.length()) };
        }
        Ok(())
    };
    describe().into()
}

/// The bytes of a buffer of C; none if there is no buffer.
///
/// # Safety
///
/// `start` is NULL, or has `count` bytes that may be written.
unsafe fn bytes_of<'c>(start: *mut c_char, count: usize) -> &'c mut [u8] {
    if start.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: the contract is that of this function. Every byte of the buffer is set before it is read.
    unsafe { start.cast::<u8>().write_bytes(0, count) };
    // SAFETY: the contract is that of this function.
    unsafe { core::slice::from_raw_parts_mut(start.cast(), count) }
}
