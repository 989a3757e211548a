//! What is achievable: how many huge pages there could be if every movable page could be placed anywhere.
//!
//! As on other machines, it is found out by what frames hold, and the library is asked nothing but what has to
//! stay free. A pageblock with one frame of the kernel's own, or with a hole, cannot become a huge page. Pages of
//! files can be dropped; pages of programs have to be somewhere, and so has what the min watermark keeps back: in
//! pageblocks that are spoilt anyway, as far as they have room, or else in others.
//!
//! Other CPUs go on meanwhile, so the number is off by what they do in some milliseconds.

use framewright::{Order, Pfn};

use crate::{memory::memory, rmap};

/// Huge pages that there are or could be.
pub(super) fn formable() -> u64 {
    let size = Order::PAGEBLOCK.frames();
    let (mut clean, mut room, mut placed) = (0u64, 0, 0);
    for zone in memory().zones() {
        // Huge requests may have what boost and huge-page reserve keep back from others.
        placed += zone.min.saturating_sub(zone.boost + zone.huge_reserve);
        for first in (0..zone.spanned.div_ceil(size)).map(|block| zone.start.offset(block * size)) {
            let count = |is: fn(Pfn) -> bool| (0..size).filter(|&at| is(first.offset(at))).count();
            let own = count(rmap::is_own) as u64;
            placed += count(rmap::is_of_program) as u64;
            clean += u64::from(own == 0);
            room += if own > 0 { size - own } else { 0 };
        }
    }
    clean.saturating_sub(placed.saturating_sub(room).div_ceil(size))
}
