//! Memory for words that the kernel keeps of its own: of a file, where its pages are and what its disk has.

#![allow(unsafe_code)]

use core::sync::atomic::AtomicU64;

use framewright::{MigrateType, Order, Pfn, Request};

use crate::{frames, own};

/// Memory for `count` words, from the library.
pub(crate) fn words(count: u64) -> Option<(Words, &'static [AtomicU64])> {
    let frames = (count * 8).div_ceil(frames::BYTES).next_power_of_two();
    let order = Order::new(frames.trailing_zeros() as u8)?;
    let request = Request::new(order, MigrateType::Unmovable).zeroed();
    let pfn = own::alloc(request)?;
    // SAFETY: the block is ours until `Words` is given back, mapped, zeroed and large enough.
    let slice = unsafe {
        core::slice::from_raw_parts(frames::address(pfn) as *const AtomicU64, count as usize)
    };
    Some((Words(pfn, order), slice))
}

/// Memory that [`words`] took.
pub(crate) struct Words(Pfn, Order);

impl Words {
    /// Gives it back. Nobody uses the words any more.
    pub(crate) fn give_back(self) {
        // SAFETY: taken as a block by `words`, and used by nobody.
        unsafe { own::free(self.0, self.1) };
    }
}
