//! Allocating and freeing.

use framewright::{
    Block, Contiguous, FrameRange, MigrateType, NodeId, Order, Pfn, Request, ZoneKind,
};

use super::code_at;
use crate::{
    error::{ErrorAt, FwError},
    memory::FwMemory,
};

/// The highest order: 1 GiB.
pub const FW_MAX_ORDER: u32 = 18;
/// The order of a pageblock: 2 MiB.
pub const FW_PAGEBLOCK_ORDER: u32 = 9;
/// The size of a frame, in bytes.
pub const FW_FRAME_SIZE: u32 = 4096;
/// The node of the CPU is preferred.
pub const FW_ANY_NODE: i32 = -1;

/// Fills the frames with zeroes. Needs `address` of `struct fw_platform`.
pub const FW_FLAG_ZEROED: u32 = 1;
/// The request does not wait: no draining of other CPUs. For interrupt handlers, and under locks.
pub const FW_FLAG_NO_WAIT: u32 = 2;
/// As FW_FLAG_NO_WAIT, and may use most of the frames below the min watermark.
pub const FW_FLAG_ATOMIC: u32 = 4;
/// Only the given node, or that of the CPU, is used.
pub const FW_FLAG_THIS_NODE: u32 = 8;
/// Only frames below 4 GiB.
pub const FW_FLAG_DMA32: u32 = 16;
/// Only frames below 16 MiB.
pub const FW_FLAG_DMA: u32 = 32;

const ALL_FLAGS: u32 = FW_FLAG_ZEROED
    | FW_FLAG_NO_WAIT
    | FW_FLAG_ATOMIC
    | FW_FLAG_THIS_NODE
    | FW_FLAG_DMA32
    | FW_FLAG_DMA;

/// The mobility of the contents of frames.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum FwMigratetype {
    /// The contents cannot be moved: page tables, kernel objects.
    Unmovable = 0,
    /// The contents can be moved to other frames.
    Movable = 1,
    /// The contents cannot be moved, but can be reclaimed.
    Reclaimable = 2,
}

/// Allocates 2^order frames, and stores the number of the first one, a multiple of 2^order. `migratetype` is an
/// `enum fw_migratetype`, `flags` are FW_FLAG_..., and `node` is a node or FW_ANY_NODE.
///
/// May be called on all CPUs at once, and by interrupt handlers with FW_FLAG_NO_WAIT or FW_FLAG_ATOMIC, but not by NMI
/// handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `pfn` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_alloc(
    memory: *mut FwMemory,
    order: u32,
    migratetype: u32,
    flags: u32,
    node: i32,
    pfn: *mut u64,
) -> FwError {
    let alloc = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?;
        if pfn.is_null() {
            return Err(FwError::NullArgument);
        }
        let request = Request::new(order_of(order)?, migratetype_of(migratetype)?);
        let block = if flags == 0 && node == FW_ANY_NODE {
            memory.alloc(request)?
        } else {
            alloc_restricted(memory, request, flags, node)?
        };
        let (first, _) = block.into_raw();
        // SAFETY: `pfn` is not NULL, and may be written by contract.
        unsafe { pfn.write(first.get()) };
        Ok(())
    };
    alloc().into()
}

/// Frees 2^order frames from `pfn`, which one call of `fw_alloc` has returned.
///
/// The setting `hardening` decides which bad frees are refused. With "checked", the default: a free of frames that are
/// free in the zone or on a list of this CPU, and a free whose order is not that of the allocation. With "tracked":
/// every bad free, unless the block was allocated again meanwhile. With "off": only misaligned frees, and
/// frees of frames of another memory. All other refused frees are also reported through `corruption`.
///
/// May be called on all CPUs at once, and by interrupt handlers, but not by NMI handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. The caller owns the frames, and no
/// longer uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_free(memory: *mut FwMemory, pfn: u64, order: u32) -> FwError {
    let free = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?;
        // SAFETY: the contract is that of this function.
        Ok(unsafe { memory.cpus.free_raw(frame(pfn)?, order_of(order)?) }?)
    };
    free().into()
}

/// Allocates any number of contiguous frames, and stores the number of the first one, a multiple of 2^align_order. They
/// are freed by `fw_free_frames`, in any parts. May search the zone: for single frames and powers of two `fw_alloc` is
/// faster. `flags` are FW_FLAG_THIS_NODE with a node, FW_FLAG_DMA and FW_FLAG_DMA32.
///
/// May be called on all CPUs at once, but not by interrupt handlers.
///
/// # Safety
///
/// As for `fw_alloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_alloc_frames(
    memory: *mut FwMemory,
    frames: u64,
    align_order: u32,
    migratetype: u32,
    flags: u32,
    node: i32,
    pfn: *mut u64,
) -> FwError {
    let alloc = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?;
        if pfn.is_null() {
            return Err(FwError::NullArgument);
        }
        let wanted = contiguous(frames, migratetype, flags, node)?.aligned(order_of(align_order)?);
        let extent = memory.memory().alloc_contiguous(&wanted);
        let first = extent.map_err(|error| ErrorAt::from(error).error)?.into_raw().start();
        // SAFETY: `pfn` is not NULL, and may be written by contract.
        unsafe { pfn.write(first.get()) };
        Ok(())
    };
    alloc().into()
}

/// Frees `frames` frames from `pfn`: frames that `fw_alloc_frames` has returned, or that were in use from the start, or
/// any part of such a range.
///
/// On an error nothing is freed. If `at` is not NULL, `*at` is the first frame that cannot be freed, or 0 if the error
/// does not concern a single frame. The setting `hardening` decides which frees are refused, as for `fw_free`.
///
/// May be called on all CPUs at once, but not by interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `at` is NULL or may be written. The
/// caller owns the frames, and no longer uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_free_frames(
    memory: *mut FwMemory,
    pfn: u64,
    frames: u64,
    at: *mut u64,
) -> FwError {
    let free = || {
        // SAFETY: the contract is that of this function.
        let memory = unsafe { FwMemory::of(memory) }?;
        // SAFETY: the contract is that of this function.
        Ok(unsafe { memory.memory().free_range_raw(range(pfn, frames)?) }?)
    };
    // SAFETY: the contract is that of this function.
    unsafe { code_at(free(), at) }
}

/// The range of `frames` frames from `pfn`.
pub(super) fn range(pfn: u64, frames: u64) -> Result<FrameRange, ErrorAt> {
    let end = pfn.checked_add(frames).filter(|&end| end <= Pfn::MAX.get());
    let range = end.and_then(|end| FrameRange::new(Pfn::new(pfn), Pfn::new(end)));
    range.ok_or(ErrorAt { error: FwError::BadRange, at: pfn })
}

/// A frame number that the library accepts.
#[inline(always)]
fn frame(pfn: u64) -> Result<Pfn, FwError> {
    if pfn <= Pfn::MAX.get() { Ok(Pfn::new(pfn)) } else { Err(FwError::NotOurs) }
}

#[inline(always)]
pub(super) fn order_of(order: u32) -> Result<Order, FwError> {
    match order {
        0..=FW_MAX_ORDER => Order::new(order as u8).ok_or(FwError::BadOrder),
        _ => Err(FwError::BadOrder),
    }
}

#[inline(always)]
fn migratetype_of(number: u32) -> Result<MigrateType, FwError> {
    match number {
        0 => Ok(MigrateType::Unmovable),
        1 => Ok(MigrateType::Movable),
        2 => Ok(MigrateType::Reclaimable),
        _ => Err(FwError::BadMigratetype),
    }
}

fn node_of(node: i32) -> Result<Option<NodeId>, FwError> {
    if node == FW_ANY_NODE {
        return Ok(None);
    }
    u8::try_from(node).ok().and_then(NodeId::new).map(Some).ok_or(FwError::BadNode)
}

/// Allocates a block by the request with these flags and this node.
#[inline(never)]
fn alloc_restricted(
    memory: &'static FwMemory,
    mut request: Request,
    flags: u32,
    node: i32,
) -> Result<Block<'static>, FwError> {
    if flags & !ALL_FLAGS != 0 {
        return Err(FwError::BadFlags);
    }
    if let Some(node) = node_of(node)? {
        request = request.on_node(node);
    }
    if flags & FW_FLAG_ZEROED != 0 {
        if !memory.memory().platform().is_mapped() {
            return Err(FwError::NotMapped);
        }
        request = request.zeroed();
    }
    if flags & FW_FLAG_NO_WAIT != 0 {
        request = request.no_wait();
    }
    if flags & FW_FLAG_ATOMIC != 0 {
        request = request.atomic();
    }
    if flags & FW_FLAG_THIS_NODE != 0 {
        request = request.this_node();
    }
    memory.alloc(highest(flags).map_or(request, |highest| request.zone(highest)))
}

/// The request for contiguous frames with these flags and this node.
fn contiguous(frames: u64, migratetype: u32, flags: u32, node: i32) -> Result<Contiguous, FwError> {
    if flags & !(FW_FLAG_THIS_NODE | FW_FLAG_DMA | FW_FLAG_DMA32) != 0 {
        return Err(FwError::BadFlags);
    }
    let mut wanted = Contiguous::new(frames, migratetype_of(migratetype)?);
    match (node_of(node)?, flags & FW_FLAG_THIS_NODE != 0) {
        (Some(node), false) => wanted = wanted.on_node(node),
        (Some(node), true) => {
            wanted = wanted.on_node(node).nodes(framewright::NodeMask::NONE.with(node));
        }
        (None, false) => {}
        (None, true) => return Err(FwError::BadNode),
    }
    Ok(highest(flags).map_or(wanted, |highest| wanted.zone(highest)))
}

/// The highest kind of zone that the flags allow, if they restrict it.
fn highest(flags: u32) -> Option<ZoneKind> {
    match flags {
        flags if flags & FW_FLAG_DMA != 0 => Some(ZoneKind::Dma),
        flags if flags & FW_FLAG_DMA32 != 0 => Some(ZoneKind::Dma32),
        _ => None,
    }
}
