//! Memory for words of the kernel: for a file, the states of its pages and the contents of its
//! disk.

#![allow(unsafe_code)]

use core::sync::atomic::AtomicU64;

use framewright::{MigrateType, Order, Pfn, Request};

use crate::{frames, own};

/// Allocates memory for `count` words.
pub(crate) fn words(count: u64) -> Option<(Words, &'static [AtomicU64])> {
    let frames = (count * 8).div_ceil(frames::BYTES).next_power_of_two();
    let order = Order::new(frames.trailing_zeros() as u8)?;
    let request = Request::new(order, MigrateType::Unmovable).zeroed();
    let pfn = own::alloc(request)?;
    // SAFETY: the block belongs to the returned `Words`, and is mapped, zeroed and large enough.
    let slice = unsafe {
        core::slice::from_raw_parts(frames::address(pfn) as *const AtomicU64, count as usize)
    };
    Some((Words(pfn, order), slice))
}

/// Memory from [`words`].
pub(crate) struct Words(Pfn, Order);

impl Words {
    /// Frees the memory. The words are not used any more.
    pub(crate) fn give_back(self) {
        // SAFETY: allocated as a block by `words`, and not used any more.
        unsafe { own::free(self.0, self.1) };
    }
}
