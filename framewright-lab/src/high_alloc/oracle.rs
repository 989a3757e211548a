//! What is achievable: how many huge pages there could be if every movable page could be placed
//! anywhere.
//!
//! The oracle looks at what frames hold, and asks the library nothing but what has to stay free. A
//! pageblock with one frame of the kernel's own cannot become a huge page. Pages of files can be dropped;
//! pages of programs have to be somewhere, and so has what the min watermark keeps back: in
//! pageblocks that are spoilt anyway, as far as they have room, or else in others.

use framewright::frame::PAGEBLOCK_FRAMES;

use super::{frames::Holds, kernel::Kernel, world::World};

/// Huge pages that there are or could be.
pub(super) fn formable<W: World>(kernel: &Kernel<'_, '_, W>) -> u64 {
    let frames = &kernel.state.frames;
    // The mark itself: what raises it for a while, huge pages may have.
    let min: u64 = kernel.memory.free_and_min().map(|(_, _, min)| min).sum();
    let own = |block: &[super::frames::Frame]| {
        block.iter().filter(|frame| frame.holds() == Holds::Kernel).count() as u64
    };
    let programs = frames.count(|holds| matches!(holds, Holds::Anonymous { .. }));
    count(frames.pageblocks().map(own), programs + min)
}

/// `spoilt` has for each pageblock the frames that cannot move; `placed` frames have to be somewhere.
fn count(spoilt: impl Iterator<Item = u64>, placed: u64) -> u64 {
    let (mut clean, mut room) = (0, 0);
    for own in spoilt {
        if own == 0 {
            clean += 1;
        } else {
            room += PAGEBLOCK_FRAMES as u64 - own;
        }
    }
    let lost = placed.saturating_sub(room).div_ceil(PAGEBLOCK_FRAMES as u64);
    u64::saturating_sub(clean, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_be_somewhere_fills_spoilt_pageblocks_first() {
        let blocks = || [0, 0, 1, 0, 512].into_iter();
        assert_eq!(count(blocks(), 0), 3);
        assert_eq!(count(blocks(), 511), 3);
        assert_eq!(count(blocks(), 512), 2);
        assert_eq!(count(blocks(), 511 + 513), 1);
        assert_eq!(count(blocks(), 1 << 20), 0);
    }
}
