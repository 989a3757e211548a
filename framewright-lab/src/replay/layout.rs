//! Where free blocks of given orders fit into a pageblock that is in use otherwise.
//!
//! Two free buddies of one order would merge into a block of the next, so each free block needs a
//! buddy that is at least partly in use.

use super::plan::{PAGEBLOCK, SMALL_ORDERS};

/// The frames of one pageblock: which shall be free.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    free: [bool; PAGEBLOCK as usize],
}

impl Layout {
    /// Places as many of the `wanted` blocks (counts by order) as fit, and takes them off `wanted`.
    /// At least one frame stays in use.
    pub(super) fn new(wanted: &mut [u64; SMALL_ORDERS]) -> Self {
        let mut layout = Self { free: [false; PAGEBLOCK as usize] };
        // The largest first: what is left between them serves the small ones.
        for order in (0..SMALL_ORDERS).rev() {
            let size = 1 << order;
            let mut at = 0;
            while wanted[order] > 0 && at < layout.free.len() {
                if layout.fits(at, size) {
                    layout.free[at..at + size].fill(true);
                    wanted[order] -= 1;
                }
                at += size;
            }
        }
        layout
    }

    fn fits(&self, at: usize, size: usize) -> bool {
        let buddy = at ^ size;
        let merges = self.free[buddy..buddy + size].iter().all(|&free| free);
        !merges && !self.free[at..at + size].iter().any(|&free| free)
    }

    /// Is every one of these frames free?
    pub(super) fn is_free(&self, at: usize, size: usize) -> bool {
        self.free[at..at + size].iter().all(|&free| free)
    }

    /// Is none of these frames free?
    pub(super) fn is_used(&self, at: usize, size: usize) -> bool {
        !self.free[at..at + size].iter().any(|&free| free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Maximal free blocks by order, as a buddy system would merge them.
    fn merged(layout: &Layout, at: usize, order: usize, counts: &mut [u64; SMALL_ORDERS]) {
        let size = 1 << order;
        if layout.is_free(at, size) {
            counts[order] += 1;
        } else if !layout.is_used(at, size) {
            merged(layout, at, order - 1, counts);
            merged(layout, at + size / 2, order - 1, counts);
        }
    }

    fn check(wanted: [u64; SMALL_ORDERS]) -> [u64; SMALL_ORDERS] {
        let mut left = wanted;
        let layout = Layout::new(&mut left);
        let mut counts = [0; SMALL_ORDERS];
        assert!(!layout.is_free(0, PAGEBLOCK as usize));
        merged(&layout, 0, SMALL_ORDERS, &mut counts);
        for order in 0..SMALL_ORDERS {
            assert_eq!(counts[order] + left[order], wanted[order], "order {order}");
        }
        left
    }

    #[test]
    fn one_of_each_order_leaves_one_frame_in_use() {
        assert_eq!(check([1; SMALL_ORDERS]), [0; SMALL_ORDERS]);
    }

    #[test]
    fn buddies_are_never_both_free() {
        assert_eq!(check([0, 0, 0, 0, 0, 0, 0, 0, 2]), [0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(check([300, 0, 0, 0, 0, 0, 0, 0, 0])[0], 300 - 256);
    }

    proptest! {
        #[test]
        fn what_is_placed_is_what_a_buddy_system_sees(
            wanted in prop::array::uniform9(0u64..40)
        ) {
            check(wanted);
        }
    }
}
