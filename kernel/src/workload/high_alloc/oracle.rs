//! The achievable number: the huge pages that could exist if every movable page could be placed
//! anywhere.
//!
//! As on other machines, the contents of frames determine this number; the library supplies only
//! the watermarks. A pageblock with a frame of the kernel, or with a hole, cannot become a huge
//! page. Pages of files can be dropped. Pages of programs, and the frames below the min watermark,
//! need space: first in pageblocks that cannot become huge pages, then in others.
//!
//! Other CPUs continue meanwhile, so the number is inexact by their changes within some
//! milliseconds.

use framewright::{Order, Pfn};

use crate::{memory::memory, rmap};

/// The number of huge pages that exist or could exist.
pub(super) fn formable() -> u64 {
    let size = Order::PAGEBLOCK.frames();
    let (mut clean, mut space, mut placed) = (0u64, 0, 0);
    for zone in memory().zones() {
        // Requests for huge pages may use the frames of the boost and of the huge-page reserve.
        placed += zone.min.saturating_sub(zone.boost + zone.huge_reserve);
        for first in (0..zone.spanned.div_ceil(size)).map(|block| zone.start.offset(block * size)) {
            let count = |is: fn(Pfn) -> bool| (0..size).filter(|&at| is(first.offset(at))).count();
            let own = count(rmap::is_own) as u64;
            placed += count(rmap::is_of_program) as u64;
            clean += u64::from(own == 0);
            space += if own > 0 { size - own } else { 0 };
        }
    }
    clean.saturating_sub(placed.saturating_sub(space).div_ceil(size))
}
