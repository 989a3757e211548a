//! Allocating and freeing given ranges of frames, of any length.
//!
//! Each whole pageblock of a range is *folded*: allocated as one block. In the pageblocks at the
//! ends of the range every frame is a block of its own. So any part of a range can be freed later,
//! and the range itself need not be recorded.

use core::ops::Range;

use super::{
    Buddy, Bundle, FRAMES, Fallback, MigrateType, Refusals, WORDS_SHIFT, Want, gigablock::spans,
    levels::WORDS, lists::FREE,
};
use crate::types::{Order, PAGEBLOCK_ORDER, Refusal, set::bits};

impl Buddy<'_> {
    /// Takes exactly the frames from `start` to `end` for a request of type `to`, isolated
    /// pageblocks included; `false` if not all of them are free.
    ///
    /// The pageblocks that lie in the range as a whole get that type, isolated ones when their
    /// isolation ends. Pageblocks of the high-atomic reserve that are not isolated keep theirs. The
    /// time under the lock grows with the range.
    pub(crate) fn take_range(&mut self, start: u32, end: u32, to: MigrateType) -> bool {
        if !pieces(start, end).all(|piece| self.is_piece_free(&piece)) {
            return false;
        }
        self.take_free_range(start, end, to);
        true
    }

    /// As [`Buddy::take_range`], for frames that are known to be free.
    pub(super) fn take_free_range(&mut self, start: u32, end: u32, to: MigrateType) {
        for (from, stop) in edges(start, end) {
            for piece in pieces(from, stop) {
                self.take_partial_piece(&piece, to == MigrateType::Movable);
            }
        }
        for (leaf, mask) in self.places(whole_pageblocks(start, end)) {
            let taken = self.take_free_places(leaf, mask, to);
            for bit in bits(mask & !taken) {
                self.take_whole_piece(self.lists.gigablocks.index(leaf * 64 + bit), to);
            }
        }
    }

    /// Takes `frames` frames, at most as many as a block of `want.order` has, from the start of a
    /// free block of at least that order. The block is chosen as for any other request for such a
    /// block. Returns the first frame, and the fallback to another type, if any.
    pub(crate) fn take_start_of_block(
        &mut self,
        want: &Want,
        frames: u32,
    ) -> Option<(u32, Option<Fallback>)> {
        let (start, fallback) = self.find_block(want)?;
        self.take_free_range(start, start + frames, want.migratetype);
        Some((start, fallback))
    }

    /// The first frame of a free block, and the fallback to another type if one was necessary.
    fn find_block(&mut self, want: &Want) -> Option<(u32, Option<Fallback>)> {
        if want.order > Order::PAGEBLOCK {
            let (place, _) = self.lists.gigablocks.find(want.order)?;
            return Some((self.lists.gigablocks.index(place) << PAGEBLOCK_ORDER, None));
        }
        let own = self.lists.first(want.migratetype, want.order.get());
        let (index, fallback) = match own {
            Some(index) => (index, None),
            None => self.fall_back(want, ()).map(|found| (found.pageblock, Some(found)))?,
        };
        let at = self.blocks[index as usize].best_block(want.order)?;
        Some(((index << PAGEBLOCK_ORDER) + at, fallback))
    }

    /// The places of `pageblocks` in the maps of gigablocks, as leaves (64 pageblocks) with masks.
    fn places(&self, pageblocks: Range<u32>) -> impl Iterator<Item = (u32, u64)> + use<> {
        let first = self.lists.gigablocks.place(pageblocks.start);
        spans(first..first + pageblocks.len() as u32)
    }

    /// Frees the frames from `start` to `end`, which are ranges that were taken, or parts of them.
    pub(crate) fn give_range(&mut self, start: u32, end: u32) -> Refusals {
        let mut refusals = Refusals::default();
        for (from, to) in edges(start, end) {
            for piece in pieces(from, to) {
                self.give_piece(&piece, &mut refusals);
            }
        }
        for (leaf, mask) in self.places(whole_pageblocks(start, end)) {
            let alone = mask & self.lists.gigablocks.folded_alone(leaf);
            self.give_folded_places(leaf, alone);
            for bit in bits(mask & !alone) {
                let index = self.lists.gigablocks.index(leaf * 64 + bit);
                self.give_piece(&Piece { index, start: 0, end: FRAMES }, &mut refusals);
            }
        }
        refusals
    }

    /// Frees frames of one pageblock. A whole pageblock must not be allocated as one block.
    #[inline(never)]
    fn give_piece(&mut self, piece: &Piece, refusals: &mut Refusals) {
        match self.lists.gigablocks.allocated_order(piece.index) {
            Some(Order::PAGEBLOCK) => self.split_into_frames(piece.index),
            None if !self.lists.gigablocks.is_folded(piece.index) => {}
            _ => {
                let first = piece.index << PAGEBLOCK_ORDER;
                refusals.add(first, Order::PAGEBLOCK, Refusal::NotAllocated);
                return;
            }
        }
        refusals.merge(self.give_partial_piece(piece));
    }

    /// Checks that all frames from `start` to `end` are allocated as parts of ranges. Returns the first that is not. An
    /// allocated block of order 0, or of the order of a pageblock, cannot be distinguished from a part of a range.
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
            // If all frames of a word are heads, each block has one frame. Only the block of the last frame may
            // continue in the next word.
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
            self.count_reserved(self.unisolated_type(index), to);
            self.blocks[index as usize].type_before_isolation = to as u8;
        } else if of.mixes() {
            self.set_type(index, to);
        }
    }

    #[inline(never)]
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
        block.count_taken(piece.frames() as u16, movable);
        self.free[of as usize] -= u64::from(piece.frames());
        self.relist(piece.index, of, ());
    }

    /// Makes every frame from `start` to `end`, which was taken as part of a range, a block of its
    /// own. In pageblocks that are not folded, every frame is one already. A folded pageblock that
    /// lies only partly between `start` and `end` is unfolded as well; its other frames still
    /// belong to their range.
    pub(crate) fn split_range(&mut self, start: u32, end: u32) {
        for index in start >> PAGEBLOCK_ORDER..end.div_ceil(FRAMES) {
            if self.lists.gigablocks.allocated_order(index) == Some(Order::PAGEBLOCK) {
                self.split_into_frames(index);
            }
        }
    }

    /// Makes every frame of the allocated block at `frame`, which is at most a pageblock, a block
    /// of its own.
    pub(crate) fn split_block(&mut self, frame: u32, order: Order) {
        let index = frame >> PAGEBLOCK_ORDER;
        if order == Order::PAGEBLOCK {
            return self.split_into_frames(index);
        }
        let start = frame % FRAMES;
        let piece = Piece { index, start, end: start + order.frames() as u32 };
        if let Some(heads) = self.heads_of(index) {
            piece.masks().for_each(|(i, mask)| heads.add(i, mask));
        }
    }

    /// Makes every frame of a folded pageblock a block of its own.
    fn split_into_frames(&mut self, index: u32) {
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
    fn frames(&self) -> u32 {
        self.end - self.start
    }

    /// The words of the map that the piece covers, each with a mask.
    fn masks(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        spans(self.start..self.end).map(|(i, mask)| (i as usize, mask))
    }
}

/// The parts of a range at its two ends that are not whole pageblocks.
fn edges(start: u32, end: u32) -> [(u32, u32); 2] {
    let whole = whole_pageblocks(start, end);
    let inner = [whole.start, whole.end].map(|index| index << PAGEBLOCK_ORDER);
    if whole.is_empty() { [(start, end), (end, end)] } else { [(start, inner[0]), (inner[1], end)] }
}

/// The pageblocks that lie in a range as a whole.
fn whole_pageblocks(start: u32, end: u32) -> Range<u32> {
    start.div_ceil(FRAMES)..end >> PAGEBLOCK_ORDER
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
