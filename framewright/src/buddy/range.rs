//! Given ranges of frames, of any length.
//!
//! Whole pageblocks of a range are folded, each alone. In the pageblocks at its edges every frame is a
//! block of its own. So any part of a range can be freed later, and only the maps record where the
//! range ended.

use super::{Buddy, Bundle, FRAMES, MigrateType, Refusals, WORDS_SHIFT, gigablock::spans};
use super::{levels::WORDS, lists::FREE};
use crate::types::{Order, PAGEBLOCK_ORDER, Refusal, set::bits};

impl Buddy<'_> {
    /// Takes exactly the frames from `start` to `end` for a request of type `to`, isolated
    /// pageblocks included; `false` if not all of them are free.
    ///
    /// Pageblocks that it covers get that type, isolated ones when their isolation ends. The time under the lock grows with the range.
    pub(crate) fn take_range(&mut self, start: u32, end: u32, to: MigrateType) -> bool {
        if !pieces(start, end).all(|piece| self.is_piece_free(&piece)) {
            return false;
        }
        for piece in pieces(start, end) {
            if piece.is_whole() {
                self.take_whole_piece(piece.index, to);
            } else {
                self.take_partial_piece(&piece, to == MigrateType::Movable);
            }
        }
        true
    }

    /// Gives back the frames from `start` to `end`: any part of ranges that were taken.
    pub(crate) fn give_range(&mut self, start: u32, end: u32) -> Refusals {
        let mut refusals = Refusals::default();
        for piece in pieces(start, end) {
            let index = piece.index;
            match self.lists.gigablocks.allocated_order(index) {
                Some(Order::PAGEBLOCK) if piece.is_whole() => {
                    let whole = Bundle::of(index << PAGEBLOCK_ORDER, Order::PAGEBLOCK);
                    refusals.merge(self.give_bundles(&[whole], ()));
                    continue;
                }
                Some(Order::PAGEBLOCK) => self.shatter(index),
                None if !self.lists.gigablocks.is_folded(index) => {}
                _ => {
                    let first = index << PAGEBLOCK_ORDER;
                    refusals.add(first, Order::PAGEBLOCK, Refusal::NotAllocated);
                    continue;
                }
            }
            refusals.merge(self.give_partial_piece(&piece));
        }
        refusals
    }

    /// Checks that all frames from `start` to `end` are allocated as parts of ranges. Returns the first that is
    /// not. A pageblock that is one block looks like one of a range, and so does a block of order 0.
    pub(crate) fn check_range(&self, start: u32, end: u32) -> Result<(), (u32, Refusal)> {
        pieces(start, end).try_for_each(|piece| self.check_piece(&piece))
    }

    fn check_piece(&self, piece: &Piece) -> Result<(), (u32, Refusal)> {
        let first = piece.index << PAGEBLOCK_ORDER;
        let refused = |why| Err((first + piece.start, why));
        match self.lists.gigablocks.allocated_order(piece.index) {
            Some(Order::PAGEBLOCK) => return Ok(()),
            Some(_) => return refused(Refusal::WrongOrder),
            None if self.lists.gigablocks.is_folded(piece.index) => {
                return refused(Refusal::NotAllocated);
            }
            None => {}
        }
        let heads = self.heads_of(piece.index);
        piece.masks().try_for_each(|(i, mask)| {
            let known = heads.map_or(0, |heads| heads.word(i));
            // A block that is followed by another has one frame. So only the last frame of a word may be the start
            // of a larger block.
            let doubtful = if known & mask == mask { 1 << mask.ilog2() } else { mask };
            bits(doubtful).map(|bit| first + 64 * i as u32 + bit).try_for_each(|frame| {
                self.check_allocated(frame, Order::ZERO).map_err(|why| (frame, why))
            })
        })
    }

    fn is_piece_free(&self, piece: &Piece) -> bool {
        let Some(block) = self.blocks.get(piece.index as usize) else { return false };
        !self.lists.gigablocks.is_folded(piece.index)
            && piece.masks().all(|(i, mask)| block.map[i] & mask == mask)
    }

    fn take_whole_piece(&mut self, index: u32, to: MigrateType) {
        let of = self.type_of(index);
        // The header of an isolated pageblock may name any class, because it is on no list.
        self.blocks[index as usize].class = FREE;
        let place = self.lists.gigablocks.place(index);
        self.fold(place / 64, 1 << (place % 64), of);
        if of == MigrateType::Isolate {
            self.count_reserved(self.home_type(index), to);
            self.blocks[index as usize].type_before_isolation = to as u8;
        } else if of.mixes() {
            self.set_type(index, to);
        }
    }

    fn take_partial_piece(&mut self, piece: &Piece, movable: bool) {
        let of = self.type_of(piece.index);
        let heads = self.heads_of(piece.index);
        let block = &mut self.blocks[piece.index as usize];
        for (i, mask) in piece.masks() {
            block.set_word(i, block.map[i] & !mask);
            if let Some(heads) = heads {
                heads.add(i, mask);
            }
        }
        block.book_taken(piece.frames() as u16, movable);
        self.free[of as usize] -= u64::from(piece.frames());
        self.settle(piece.index, of, ());
    }

    /// Makes every frame of a folded pageblock a block of its own.
    fn shatter(&mut self, index: u32) {
        self.unfold(index);
        if let Some(heads) = self.heads_of(index) {
            (0..WORDS).for_each(|i| heads.add(i, !0));
        }
    }

    fn give_partial_piece(&mut self, piece: &Piece) -> Refusals {
        let mut bundles = [Bundle::default(); WORDS];
        let mut count = 0;
        for (i, heads) in piece.masks() {
            let word = (piece.index << WORDS_SHIFT) + i as u32;
            bundles[count] = Bundle { word, heads, order: Order::ZERO };
            count += 1;
        }
        self.give_bundles(&bundles[..count], ())
    }
}

/// The frames of a range that lie in one pageblock.
struct Piece {
    index: u32,
    /// First frame and end, counted from the start of the pageblock.
    start: u32,
    end: u32,
}

impl Piece {
    fn is_whole(&self) -> bool {
        self.frames() == FRAMES
    }

    fn frames(&self) -> u32 {
        self.end - self.start
    }

    /// The words of the map that the span covers, each with a mask.
    fn masks(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        spans(self.start..self.end).map(|(i, mask)| (i as usize, mask))
    }
}

/// Splits the frames from `start` to `end` at the ends of pageblocks.
fn pieces(start: u32, end: u32) -> impl Iterator<Item = Piece> {
    let indices = start >> PAGEBLOCK_ORDER..end.div_ceil(FRAMES);
    indices.filter(move |_| start < end).map(move |index| Piece {
        index,
        start: start.saturating_sub(index << PAGEBLOCK_ORDER),
        end: (end - (index << PAGEBLOCK_ORDER)).min(FRAMES),
    })
}
