//! Frames that the kernel has for itself: page tables, what programs and files cost beside their pages. They
//! do not move. Their owner words say so, for who wants to know what stands between movable pages.

#![allow(unsafe_code)]

use framewright::{Order, Pfn, Request};

use crate::{memory, rmap};

/// Allocates a block for the kernel itself.
pub(crate) fn alloc(request: Request) -> Option<Pfn> {
    let pfn = memory::alloc(request)?;
    mark(pfn, request.order(), rmap::OWN);
    Some(pfn)
}

/// Frees a block.
///
/// # Safety
///
/// [`alloc`] gave it as a block of this order, and nobody uses it any more.
pub(crate) unsafe fn free(pfn: Pfn, order: Order) {
    mark(pfn, order, rmap::NOTHING);
    // SAFETY: as the caller promises.
    unsafe { memory::free(pfn, order) };
}

fn mark(pfn: Pfn, order: Order, word: u32) {
    for frame in 0..order.frames() {
        rmap::set_word(pfn.offset(frame), word);
    }
}
