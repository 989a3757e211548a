//! Frames of the kernel itself: page tables, and data of programs and files besides their pages.
//! They are not movable. Their owner words mark them, which distinguishes them from movable pages.

#![allow(unsafe_code)]

use framewright::{Order, Pfn, Request};

use crate::{memory, rmap};

/// Allocates a block for the kernel itself.
pub(crate) fn alloc(request: Request) -> Option<Pfn> {
    let pfn = memory::alloc(request)?;
    mark(pfn, request.order(), rmap::KERNEL);
    Some(pfn)
}

/// Frees a block.
///
/// # Safety
///
/// [`alloc`] returned the block with this order, and it is not used any more.
pub(crate) unsafe fn free(pfn: Pfn, order: Order) {
    mark(pfn, order, rmap::NOTHING);
    // SAFETY: by the contract of this function.
    unsafe { memory::free(pfn, order) };
}

fn mark(pfn: Pfn, order: Order, word: u32) {
    for frame in 0..order.frames() {
        rmap::set_word(pfn.offset(frame), word);
    }
}
