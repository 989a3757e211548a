//! Indices of the fragmentation of free memory, from its free blocks by order.
//!
//! Both indices are Linux's, in its integer arithmetic. Compaction uses them for its decisions.

/// The unusable free space index for `order` in thousandths: the share of the free frames that are
/// in blocks smaller than `order`. At 0, all free frames are usable. At 1000, none is usable, or no
/// frame is free.
///
/// `blocks` are free blocks by order, from 0.
#[must_use]
pub fn unusable_index(blocks: &[u64], order: usize) -> u64 {
    let free = frames(blocks, 0);
    if free == 0 {
        return 1000;
    }
    let unusable = free - frames(blocks, order);
    (u128::from(unusable) * 1000 / u128::from(free)) as u64
}

/// The fragmentation index for `order` in thousandths: the reason why a request for `order` fails.
/// Towards 1000 the request fails because of fragmentation, which compaction repairs; towards 0 it
/// fails because there is too little free memory. -1000: the request would not fail. A few blocks
/// that are nearly large enough give negative values down to -500.
///
/// The index is 0 if there are no free blocks, or if `blocks`, free blocks by order from 0, ends below
/// `order`.
#[must_use]
pub(crate) fn fragmentation_index(blocks: &[u64], order: usize) -> i64 {
    let count = blocks.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
    if order >= blocks.len() || count == 0 {
        return 0;
    }
    if blocks[order..].iter().any(|&count| count > 0) {
        return -1000;
    }
    let requested = u128::from(frames_of(1, order));
    let wanted = u128::from(frames(blocks, 0)) * 1000 / requested;
    1000 - i64::try_from((1000 + wanted) / u128::from(count)).unwrap_or(i64::MAX)
}

/// Free frames in blocks of `order` and above.
fn frames(blocks: &[u64], order: usize) -> u64 {
    let from = blocks.iter().enumerate().skip(order);
    from.fold(0, |sum, (order, &count)| sum.saturating_add(frames_of(count, order)))
}

/// Frames in `count` blocks of `order`.
fn frames_of(count: u64, order: usize) -> u64 {
    count.saturating_mul(1u64.checked_shl(order as u32).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(of: &[(usize, u64)]) -> [u64; 11] {
        let mut blocks = [0; 11];
        for &(order, count) in of {
            blocks[order] = count;
        }
        blocks
    }

    #[test]
    fn the_fragmentation_index_may_be_negative_without_being_minus_one_thousand() {
        let index = |of: &[(usize, u64)]| fragmentation_index(&blocks(of), 9);
        assert_eq!(index(&[(8, 1)]), -500);
        assert_eq!(index(&[(8, 2)]), 0);
        assert_eq!(index(&[(8, 3)]), 167);
        assert_eq!(index(&[(0, 100)]), 989);
    }

    #[test]
    fn the_fragmentation_index_knows_success_and_emptiness() {
        assert_eq!(fragmentation_index(&blocks(&[(9, 1), (0, 7)]), 9), -1000);
        assert_eq!(fragmentation_index(&blocks(&[(10, 1)]), 3), -1000);
        assert_eq!(fragmentation_index(&blocks(&[]), 3), 0);
        assert_eq!(fragmentation_index(&blocks(&[(0, 5)]), 11), 0);
        // Orders above those of Linux do not change the index of Linux's orders.
        let mut larger = [0; 19];
        larger[18] = 1;
        assert_eq!(fragmentation_index(&larger, 10), -1000);
    }

    #[test]
    fn the_unusable_index_is_a_share() {
        let index = |of: &[(usize, u64)], order| unusable_index(&blocks(of), order);
        assert_eq!(index(&[], 4), 1000);
        assert_eq!(index(&[(0, 7)], 0), 0);
        assert_eq!(index(&[(0, 512), (9, 1)], 9), 500);
        assert_eq!(index(&[(0, 1), (1, 1)], 1), 333);
        assert_eq!(index(&[(3, 1)], 10), 1000);
    }

    #[test]
    fn impossible_counts_do_not_overflow() {
        let blocks = [u64::MAX; 100];
        assert_eq!(unusable_index(&blocks, 99), 0);
        assert_eq!(fragmentation_index(&blocks, 3), -1000);
        let mut blocks = [u64::MAX; 100];
        blocks[50..].fill(0);
        assert!(fragmentation_index(&blocks, 60) <= 1000);
    }
}
