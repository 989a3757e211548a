//! Taking blocks as Linux takes them: the smallest block that fits, wherever it is.
//!
//! Linux has a list of free blocks for each order, and takes from the first list that is not empty.
//! So a request for one frame takes a single free frame first, even if its neighbours will soon be
//! free. Small allocations then spread over pageblocks that are nearly free; few free huge pages
//! are left, and few can be formed with little work. This library takes from the fullest pageblocks
//! first, which avoids that. This module exists to measure the difference. The buddy has no lists
//! of free blocks, so this module examines all pageblocks under the zone lock, beginning with the
//! one in which frames were freed last. Of several blocks of the smallest order, Linux takes the
//! one that was freed last; this module takes the first one that it finds.

use crate::{
    buddy::{
        Buddy, Bundles, Fallback, MigrateType, WORDS, Want, Watch,
        take::finish,
        word::{self, WORD_ORDER},
        words_of,
    },
    types::{PAGEBLOCK_ORDER, set::lowest},
};

/// A free block.
#[derive(Clone, Copy)]
struct Piece {
    pageblock: u32,
    /// The first frame of the block, counted from the start of the pageblock.
    first: u32,
    order: u8,
}

impl Buddy<'_> {
    /// As [`Buddy::take_ordinary`], but takes the smallest blocks first. If it finds none below the
    /// order of a pageblock, it does the same as that function.
    #[cold]
    #[inline(never)]
    pub(in crate::buddy) fn take_smallest(
        &mut self,
        want: Want,
        out: &mut Bundles,
        watch: impl Watch,
    ) -> Option<Fallback> {
        let mut least = want.order.get();
        while least < PAGEBLOCK_ORDER && out.blocks() < want.blocks && !out.is_full() {
            let Some(piece) = self.smallest_piece(&want, least) else { break };
            least = piece.order;
            self.take_piece(piece, &want, out, watch);
        }
        if out.blocks() < want.blocks { self.take_ordinary(want, out, watch) } else { None }
    }

    /// The smallest free block of the wanted type, of an order from `least` to below a whole pageblock.
    fn smallest_piece(&self, want: &Want, least: u8) -> Option<Piece> {
        let (start, count) = (self.given_last, self.blocks.len() as u32);
        let mut best: Option<Piece> = None;
        for pageblock in (start..count).chain(0..start) {
            let below = best.map_or(PAGEBLOCK_ORDER, |piece| piece.order);
            if below <= least {
                break;
            }
            let block = &self.blocks[pageblock as usize];
            let is_candidate = block.free >= 1 << least
                && !self.lists.gigablocks.is_folded(pageblock)
                && self.type_of(pageblock) == want.migratetype;
            if is_candidate {
                let found =
                    (least..below).find_map(|order| Some((exact(&block.map, order)?, order)));
                best = found.map(|(first, order)| Piece { pageblock, first, order }).or(best);
            }
        }
        best
    }

    /// Takes the wanted blocks from a piece, from its beginning.
    fn take_piece(&mut self, piece: Piece, want: &Want, out: &mut Bundles, watch: impl Watch) {
        let Piece { pageblock, first, order } = piece;
        self.probe_visit(pageblock, want.migratetype, watch);
        let known = self.heads_of(pageblock);
        let block = &mut self.blocks[pageblock as usize];
        let before = block.free;
        let movable = want.migratetype == MigrateType::Movable;
        let mut word = first as usize / 64;
        let end = word + (1usize << order).div_ceil(64);
        while word < end && out.blocks() < want.blocks && !out.is_full() {
            let heads = if want.order.get() >= WORD_ORDER {
                block.set_words(word, words_of(want.order), false);
                1
            } else {
                let inside = word::spread(1 << (first % 64), order.min(WORD_ORDER));
                let runs = word::runs(block.map[word] & inside, want.order.get());
                let heads = lowest(runs, want.blocks - out.blocks());
                block.set_word(word, block.map[word] & !word::spread(heads, want.order.get()));
                heads
            };
            finish(block, pageblock, word, heads, want.order, movable, known, out);
            out.join_last();
            word += words_of(want.order);
        }
        self.free[want.migratetype as usize] -= u64::from(before - block.free);
        self.relist(pageblock, want.migratetype, watch);
    }
}

/// The first frame of the first free block of exactly this order. The order must be below that of a
/// pageblock.
fn exact(map: &[u64; WORDS], order: u8) -> Option<u32> {
    if order < WORD_ORDER {
        let found = |(i, &word): (usize, &u64)| {
            if word == 0 || word == !0 {
                return None;
            }
            let runs = exact_runs(word, order);
            (runs != 0).then(|| 64 * i as u32 + runs.trailing_zeros())
        };
        return map.iter().enumerate().find_map(found);
    }
    let full = map.iter().rev().fold(0, |full, &word| full << 1 | u64::from(word == !0));
    let runs = exact_runs(full, order - WORD_ORDER);
    (runs != 0).then(|| 64 * runs.trailing_zeros())
}

/// The first frames of the free blocks of exactly this order.
fn exact_runs(word: u64, order: u8) -> u64 {
    let larger = word::runs(word, order + 1);
    word::runs(word, order) & !(larger | larger << (1 << order))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_block_is_of_the_order_of_all_that_is_free_around_it() {
        let mut map = [0; WORDS];
        map[1] = 0b1111_0110;
        (map[2], map[3]) = (!0, !0);
        map[4] = !0;
        let found: Vec<_> = (0..9).map(|order| exact(&map, order)).collect();
        assert_eq!(found[..3], [Some(65), None, Some(68)]);
        assert_eq!(found[3..6], [None; 3]);
        assert_eq!(found[6..], [Some(256), Some(128), None]);
    }
}
