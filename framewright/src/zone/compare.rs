//! Operations on a zone that only the methods built for comparison (feature `compare`) use.

use super::{Zone, ZoneAccess};
use crate::{
    buddy::{Bundle, Refusals},
    platform::{Platform, Site},
    sync::Ordering,
    types::{Order, Watermark},
};

impl<P: Platform> Zone<'_, P> {
    /// Frees blocks to the zone. `choose` selects them under the lock, one bundle at a time.
    pub(crate) fn give_selected(
        &self,
        platform: &P,
        mut choose: impl FnMut() -> Option<Bundle>,
    ) -> Refusals {
        platform.point(Site::BulkFree);
        self.with(platform, |buddy| {
            let mut refusals = Refusals::default();
            while let Some(bundle) = choose() {
                refusals.merge(self.give_under_lock(platform, buddy, &[bundle]));
            }
            refusals
        })
    }

    /// Sets whether requests for larger blocks need free memory in larger blocks.
    pub(crate) fn set_watermark_by_order(&self, on: bool) {
        self.by_order.store(on, Ordering::Relaxed);
    }

    /// The watermark test by order, as in Linux before 4.4; always `true` unless it is switched on. The test needs
    /// more free frames than the watermark, without the frames of the block itself. For each order below the
    /// requested one it is repeated: without the frames in blocks of that order, against half of the last watermark.
    /// Walks every pageblock under the zone lock.
    pub(crate) fn passes_by_order(&self, platform: &P, order: Order, access: ZoneAccess) -> bool {
        if order == Order::ZERO || !self.by_order.load(Ordering::Relaxed) {
            return true;
        }
        let blocks = self.with(platform, |buddy| buddy.counts()).by_order();
        let protected = self.marks.protection()[access.highest as usize] as i64;
        let mark = self.marks.reserve(access) - protected;
        passes_by_order(&blocks, order, mark)
    }

    /// Whether the zone has enough free memory in larger blocks for scanners to end with a block of `order`.
    pub(crate) fn ends_compaction(&self, platform: &P, order: Order) -> bool {
        let low = ZoneAccess::above(Watermark::Low, self.kind());
        self.passes_by_order(platform, order, low)
    }
}

/// The test of [`Zone::passes_by_order`] on the numbers of free blocks by order.
fn passes_by_order(blocks: &[u64; Order::COUNT], order: Order, mut mark: i64) -> bool {
    let frames = |(at, &count): (usize, &u64)| (count << at) as i64;
    let mut left: i64 = blocks.iter().enumerate().map(frames).sum();
    left -= order.frames() as i64 - 1;
    let below = blocks.iter().enumerate().take(usize::from(order.get()));
    left > mark
        && below.map(frames).all(|smaller| {
            left -= smaller;
            mark >>= 1;
            left > mark
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free blocks: single frames, and pageblocks.
    fn passes(single: u64, pageblocks: u64, order: u8, mark: i64) -> bool {
        let mut blocks = [0; Order::COUNT];
        (blocks[0], blocks[9]) = (single, pageblocks);
        passes_by_order(&blocks, Order::new(order).unwrap(), mark)
    }

    #[test]
    fn one_free_pageblock_is_not_enough() {
        // 4,000 frames must stay free. Without single frames, half of them must be in larger blocks.
        assert!(!passes(100_000, 1, 9, 4000));
        assert!(!passes(100_000, 4, 9, 4000), "2,048 - 511 frames are above 2,000");
        assert!(passes(100_000, 5, 9, 4000), "2,560 - 511 frames are not above 2,000");
    }

    #[test]
    fn the_mark_is_halved_once_per_order() {
        assert!(!passes(0, 1, 9, 512), "the watermark itself is not tested");
        // A block of order 8 is tested against marks of 1/1 to 1/256: 2^9 - 255 frames are left.
        assert!(passes(1000, 1, 8, 513));
        assert!(!passes(1000, 1, 8, 514), "257 frames are above half of 514");
        assert!(!passes(1000, 0, 1, 0), "single frames are a block of order 1");
    }

    #[test]
    fn single_frames_need_no_larger_blocks() {
        assert!(passes(4001, 0, 0, 4000));
        assert!(!passes(4000, 0, 0, 4000));
    }
}
