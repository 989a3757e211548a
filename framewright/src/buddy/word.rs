//! Arithmetic on one word of a free map: 64 frames, one bit each, 1 = free.
//!
//! A set of free frames has only one decomposition into maximal aligned blocks. So no block is split or merged
//! explicitly: allocating clears bits, freeing sets bits, and the bits determine the free blocks.

/// The largest order that fits in one word.
pub(super) const WORD_ORDER: u8 = 6;

/// Bits at which a block of order k may start.
const STARTS: [u64; 7] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    0x0000_0000_0000_0001,
];

/// The starts of all aligned free runs of 2^order frames.
pub(super) fn runs(word: u64, order: u8) -> u64 {
    (0..order.min(WORD_ORDER)).fold(word, joined)
}

/// The starts of the aligned runs of 2^(`order` + 1) frames, from the starts of those of 2^`order` frames.
#[inline(always)]
fn joined(starts: u64, order: u8) -> u64 {
    starts & starts >> (1 << order) & STARTS[usize::from((order + 1).min(WORD_ORDER))]
}

/// 0 for an empty word, otherwise 1 + the order of its largest free block.
pub(super) fn level(word: u64) -> u8 {
    if word == !0 {
        return WORD_ORDER + 1;
    }
    let (mut starts, mut level) = (word, 0);
    while starts != 0 {
        starts = joined(starts, level);
        level += 1;
    }
    level
}

/// Whether free frame `bit` of a word is in an aligned free run of 2^`order` frames. Order 7 counts as order 6.
#[inline(always)]
pub(super) fn is_in_run(word: u64, bit: u32, order: u8) -> bool {
    const RUNS: [u64; 8] = [1, 0b11, 0xf, 0xff, 0xffff, 0xffff_ffff, !0, !0];
    let order = order % 8;
    let run = RUNS[usize::from(order)] << ((bit >> order << order) % 64);
    word & run == run
}

/// The frames of the blocks of `order` that start at `heads`.
pub(super) fn spread(heads: u64, order: u8) -> u64 {
    match order {
        0 => heads,
        WORD_ORDER.. => (heads & 1).wrapping_neg(),
        // Disjoint runs of ones: the product has no carries.
        _ => heads.wrapping_mul((1 << (1u32 << order)) - 1),
    }
}

/// The start of one aligned free run of 2^`order` frames in the smallest sufficient free block, lowest
/// first, so that larger blocks stay whole.
#[inline(never)]
pub(super) fn best_run(word: u64, order: u8) -> Option<u32> {
    let mut starts = runs(word, order);
    if starts == 0 {
        return None;
    }
    for k in order..WORD_ORDER {
        let larger = joined(starts, k);
        let exact = starts & !(larger | larger << (1 << k));
        if exact != 0 {
            return Some(exact.trailing_zeros());
        }
        starts = larger;
    }
    Some(starts.trailing_zeros())
}

/// The blocks among `heads` whose real order is larger than `order`: the frame after 2^`order` frames is neither free
/// nor the head of a block.
///
/// Only heads that could start a larger block can be wrong in this way, and for those the next frame is
/// in the same word.
pub(super) fn overrun(heads: u64, order: u8, free_or_head: u64) -> u64 {
    if order >= WORD_ORDER {
        return 0;
    }
    let size = 1 << order;
    let could_be_larger = heads & STARTS[usize::from(order) + 1];
    ((could_be_larger << size) & !free_or_head) >> size
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of every kind: sparse, dense, runs, full, empty.
    fn samples() -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let random = (0..2000).map(move |i| {
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            match i % 4 {
                0 => next(),
                1 => next() & next() & next(),
                2 => next() | next() | next(),
                _ => !0u64 << (next() % 64) & (!0u64 >> (next() % 64)),
            }
        });
        [0, !0, 1, 1 << 63, 0xffff_ffff].into_iter().chain(random)
    }

    /// Number of maximal free blocks of each order 0 to 6.
    fn count_blocks(word: u64) -> [u32; 7] {
        let runs = |order| runs(word, order).count_ones();
        let larger = |order| if order < WORD_ORDER { 2 * runs(order + 1) } else { 0 };
        std::array::from_fn(|order| runs(order as u8) - larger(order as u8))
    }

    fn is_run(word: u64, start: u32, order: u8) -> bool {
        start.is_multiple_of(1 << order)
            && (start..start + (1 << order)).all(|i| word >> i & 1 == 1)
    }

    #[test]
    fn runs_are_the_aligned_free_runs() {
        for word in samples() {
            for order in 0..=WORD_ORDER {
                let found = runs(word, order);
                for start in 0..64 {
                    let fits = start + (1 << order) <= 64 && is_run(word, start, order);
                    assert_eq!(found >> start & 1 == 1, fits, "{word:#x} {order} {start}");
                }
            }
        }
    }

    #[test]
    fn a_frame_is_in_a_run_if_all_frames_around_it_are_free() {
        for word in samples() {
            for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                for order in 0..=WORD_ORDER {
                    let start = bit >> order << order;
                    assert_eq!(is_in_run(word, bit, order), is_run(word, start, order));
                }
                assert_eq!(is_in_run(word, bit, WORD_ORDER + 1), word == !0);
            }
        }
    }

    #[test]
    fn the_level_is_the_largest_run() {
        for word in samples() {
            let naive = (0..=WORD_ORDER).filter(|&k| runs(word, k) != 0).map(|k| k + 1).max();
            assert_eq!(level(word), naive.unwrap_or(0), "{word:#x}");
        }
    }

    #[test]
    fn spreading_covers_whole_blocks() {
        assert_eq!(spread(0b101, 0), 0b101);
        assert_eq!(spread(0b1_0001, 2), 0xff);
        assert_eq!(spread(1, 6), !0);
        assert_eq!(spread(1 << 32 | 1, 5), !0);
        assert_eq!(spread(0, 6), 0);
    }

    #[test]
    fn the_best_run_lies_in_a_smallest_block() {
        for word in samples() {
            let counts = count_blocks(word);
            for order in 0..=WORD_ORDER {
                let smallest = (order..=WORD_ORDER).find(|&k| counts[usize::from(k)] != 0);
                let best = best_run(word, order);
                assert_eq!(best.is_some(), smallest.is_some());
                let (Some(start), Some(block)) = (best, smallest) else { continue };
                assert!(is_run(word, start & !((1 << block) - 1), block));
                assert!(is_run(word, start, order));
                let up = block + 1;
                let whole = start & !((1 << up) - 1);
                assert!(up > WORD_ORDER || !is_run(word, whole, up), "{word:#x} {order}");
            }
        }
    }

    #[test]
    fn blocks_add_up_to_the_frames() {
        for word in samples() {
            let sum: u32 = count_blocks(word).iter().enumerate().map(|(k, n)| n << k).sum();
            assert_eq!(sum, word.count_ones());
        }
    }

    #[test]
    fn an_order_claimed_too_small_is_seen() {
        // A block of order 2 at 4, freed as order 0: frame 5 is neither free nor a head.
        assert_eq!(overrun(1 << 4, 0, 1 << 4), 1 << 4);
        // If frame 5 is free or a head, the block at 4 has order 0.
        assert_eq!(overrun(1 << 4, 0, 0b11 << 4), 0);
        // An odd frame cannot start a larger block.
        assert_eq!(overrun(1 << 5, 0, 1 << 5), 0);
    }
}
