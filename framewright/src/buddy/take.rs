//! Taking frames out of the buddy.
//!
//! The steps of a batch are inlined into one function. With `--cfg framewright_outlined`, the step that takes blocks from
//! a pageblock is a call, so that the gain from inlining can be measured.

use super::{
    Buddy, Bundle, Bundles, FRAMES, Fallback, Heads, MigrateType, Part, Reserve, WORDS_SHIFT, Want,
    Watch,
    levels::{Levels, WORDS},
    lists::Lists,
    pageblock::{NIL, Pageblock},
    word::{self, WORD_ORDER},
    words_of,
};
use crate::{
    platform::{Access, Cost, Miss},
    sync::Address,
    tuning::BulkTake,
    types::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, set::lowest},
};

/// If at most this many free frames of a word would be left, all are taken.
const ROUNDING: u32 = 32;

impl Buddy<'_> {
    /// Takes about `want.blocks` blocks, at most `want.at_most`, and appends them to `out`: of the
    /// requested type first, then by fallback, and from the reserve as the request allows. Returns the
    /// fallback, if one was needed.
    ///
    /// A batch that found some blocks of its own type does not fall back: a partial refill does not mix types.
    pub(crate) fn take_bundles(
        &mut self,
        want: Want,
        out: &mut Bundles,
        watch: impl Watch,
    ) -> Option<Fallback> {
        if want.reserve == Reserve::First {
            self.take_reserved(want, out, watch);
            if !out.is_empty() {
                return None;
            }
        }
        let fallback = match want.how {
            BulkTake::Bulk => self.take_ordinary(want, out, watch),
            #[cfg(feature = "compare")]
            BulkTake::OneByOne => self.take_one_by_one(want, out, watch),
            #[cfg(feature = "compare")]
            BulkTake::SmallestFirst => self.take_smallest(want, out, watch),
        };
        if want.reserve == Reserve::Last && out.is_empty() {
            self.take_reserved(want, out, watch);
        }
        fallback
    }

    /// Whether pageblocks of the requested type have a free block of the order.
    pub(crate) fn has_own(&self, want: &Want) -> bool {
        if want.order > Order::PAGEBLOCK {
            return self.lists.classes().offer(want.order);
        }
        self.lists.first(want.migratetype, want.order.get()).is_some()
    }

    /// [`Buddy::take_bundles`] without the reserve.
    #[inline(never)]
    pub(super) fn take_ordinary(
        &mut self,
        want: Want,
        out: &mut Bundles,
        watch: impl Watch,
    ) -> Option<Fallback> {
        if want.order >= Order::PAGEBLOCK {
            return self.take_whole(want, out, watch);
        }
        let mut fallback = None;
        let mut visits = 0;
        while out.blocks() < want.blocks && visits < want.visits && !out.is_full() {
            let index = match self.choose(&want) {
                Some(index) => index,
                None if out.is_empty() && fallback.is_none() => {
                    let found = self.fall_back(&want, watch)?;
                    fallback = Some(found);
                    if found.claimed {
                        continue;
                    }
                    found.pageblock
                }
                None => break,
            };
            if self.is_enough(index, &want, out.blocks()) {
                break;
            }
            let of = self.type_of(index);
            self.probe_visit(index, of, watch);
            self.prefetch_next(index, watch);
            let known = self.heads_of(index);
            let block = &mut self.blocks[index as usize];
            let before = block.free;
            take_from(block, index, &want, known, out);
            let taken = before - block.free;
            self.free[of as usize] -= u64::from(taken);
            self.clear_if_filled(index);
            self.relist(index, of, watch);
            visits += 1;
            if of != want.migratetype {
                break;
            }
        }
        fallback
    }

    /// Sets whether a batch breaks a wholly free pageblock for its last frames, even if it has some already.
    #[cfg(feature = "compare")]
    pub(crate) fn set_rest_breaks_pageblock(&mut self, breaks: bool) {
        self.rest_breaks_pageblock = breaks;
    }

    /// Whether a batch of `taken` blocks ends before pageblock `index`, because that is wholly free and the batch would use
    /// less than half of it. The next batch then comes sooner; a huge page would be lost for long.
    fn is_enough(&self, index: u32, want: &Want, taken: u32) -> bool {
        #[cfg(feature = "compare")]
        if self.rest_breaks_pageblock {
            return false;
        }
        let missing = want.blocks.saturating_sub(taken) << want.order.get();
        let is_batch = want.how == BulkTake::Bulk;
        is_batch
            && taken > 0
            && missing < FRAMES / 2
            && u32::from(self.blocks[index as usize].free) == FRAMES
    }

    /// [`Buddy::take_bundles`] for blocks of one or more pageblocks.
    fn take_whole(&mut self, want: Want, out: &mut Bundles, watch: impl Watch) -> Option<Fallback> {
        if want.order > Order::PAGEBLOCK {
            return self.take_large(want, out, watch);
        }
        self.take_pageblocks(want, out, watch);
        if !out.is_empty() {
            return None;
        }
        let fallback = self.fall_back(&want, watch)?;
        debug_assert!(fallback.claimed, "a wholly free pageblock was not claimed");
        self.take_pageblocks(want, out, watch);
        Some(fallback)
    }

    /// Prefetches the pageblocks that this batch or the next ones will probably visit after pageblock `index`.
    fn prefetch_next(&self, index: u32, watch: impl Watch) {
        let block = &self.blocks[index as usize];
        for next in [block.next, block.soon] {
            if next != NIL {
                self.address().prefetch(next);
                Address::of(self.heads).prefetch(next);
                watch.pageblock(next, Miss::Independent, self.is_checked(), Access::Prefetch);
            }
        }
    }

    /// Reports that a batch takes from a pageblock. The batch found it through the head of its
    /// list.
    pub(super) fn probe_visit(&self, index: u32, of: MigrateType, watch: impl Watch) {
        if !watch.listens() {
            return;
        }
        let heads = Lists::line_of(of, self.blocks[index as usize].class);
        watch.touch(Part::Index(heads), Access::Read, Miss::Dependent);
        watch.pageblock(index, Miss::Dependent, self.is_checked(), Access::Write);
        watch.cost(Cost::TakePageblocks, 1);
    }

    /// The pageblock to take from next: the fullest of the smallest sufficient order.
    #[inline]
    fn choose(&self, want: &Want) -> Option<u32> {
        self.lists.first(want.migratetype, want.order.get())
    }

    /// Takes exactly the block of `order` at `frame`, for a request of type `to`. `false` if it is not
    /// wholly free.
    pub(crate) fn take_specific(&mut self, frame: u32, order: Order, to: MigrateType) -> bool {
        let index = frame >> PAGEBLOCK_ORDER;
        if index as usize >= self.blocks.len() || self.lists.gigablocks.is_folded(index) {
            return false;
        }
        if order > Order::PAGEBLOCK {
            let place = self.lists.gigablocks.place(index);
            let free = self.lists.gigablocks.is_free(place, order);
            if free {
                self.take_large_at(place, order, to);
            }
            return free;
        }
        let of = self.type_of(index);
        let known = self.heads_of(index);
        let block = &mut self.blocks[index as usize];
        let first = frame as usize % PAGEBLOCK_FRAMES / 64;
        let heads = 1 << (frame % 64);
        if order.get() <= WORD_ORDER {
            let frames = word::spread(heads, order.get());
            if block.map[first] & frames != frames {
                return false;
            }
            block.set_word(first, block.map[first] & !frames);
        } else {
            let words = words_of(order);
            if block.map[first..first + words].iter().any(|&word| word != !0) {
                return false;
            }
            block.set_words(first, words, false);
        }
        if let Some(known) = known {
            known.add(first, heads);
        }
        block.count_taken(order.frames() as u16, to == MigrateType::Movable);
        self.free[of as usize] -= order.frames();
        self.relist(index, of, ());
        true
    }
}

/// Takes blocks from one pageblock that has at least one of the order.
#[cfg_attr(not(framewright_outlined), inline)]
#[cfg_attr(framewright_outlined, inline(never))]
pub(super) fn take_from(
    block: &mut Pageblock,
    index: u32,
    want: &Want,
    known: Option<&Heads>,
    out: &mut Bundles,
) {
    let movable = want.migratetype == MigrateType::Movable;
    let order = want.order.get();
    if order >= WORD_ORDER {
        let Some(first) = block.levels.best_words(order) else { return };
        block.set_words(first, words_of(want.order), false);
        finish(block, index, first, 1, want.order, movable, known, out);
        return;
    }
    let missing = want.blocks - out.blocks();
    if order == 0 && u32::from(block.free) <= missing && out.free_slots() >= WORDS as u32 {
        return take_all(block, index, movable, known, out);
    }
    let mut from = 0;
    while out.blocks() < want.blocks && !out.is_full() {
        // A batch of single frames uses up the free frames of the pageblock in ascending order.
        // Larger blocks, of which there are few, come from the word with the smallest sufficient
        // free block.
        let levels = &block.levels;
        let word = if order == 0 { levels.next_word(from, order) } else { levels.best_word(order) };
        let Some(i) = word else { return };
        let missing = want.blocks - out.blocks();
        let heads = pick(block.map[i], order, missing, want.at_most - out.blocks());
        block.set_word(i, block.map[i] & !word::spread(heads, order));
        finish(block, index, i, heads, want.order, movable, known, out);
        from = i;
    }
}

/// Takes all free frames of a pageblock, each as a block. `out` has space for a bundle of each word.
#[inline]
fn take_all(
    block: &mut Pageblock,
    index: u32,
    movable: bool,
    known: Option<&Heads>,
    out: &mut Bundles,
) {
    let words = block.levels.words_with_free().map(|i| (i, block.map[i]));
    let taken = words.inspect(|&(i, heads)| {
        if let Some(known) = known {
            known.add(i, heads);
        }
    });
    out.push_words(index, taken, block.free);
    block.map = [0; WORDS];
    block.count_taken(block.free, movable);
    block.levels = Levels::NOTHING_FREE;
}

/// The heads to take from a word: at least one, at most `limit`, about `missing`.
#[inline]
fn pick(map: u64, order: u8, missing: u32, limit: u32) -> u64 {
    if missing == 1 && order > 0 {
        return word::best_run(map, order).map_or(0, |bit| 1 << bit);
    }
    let runs = word::runs(map, order);
    let have = runs.count_ones();
    let rounded = if (have - missing.min(have)) << order <= ROUNDING { have } else { missing };
    let take = rounded.min(limit.max(1));
    if take >= have { runs } else { lowest(runs, take) }
}

/// Counts the blocks taken from a word and appends them.
#[inline]
#[expect(clippy::too_many_arguments, reason = "one call site per kind of order, inlined")]
pub(super) fn finish(
    block: &mut Pageblock,
    index: u32,
    i: usize,
    heads: u64,
    order: Order,
    movable: bool,
    known: Option<&Heads>,
    out: &mut Bundles,
) {
    debug_assert!(i < WORDS && heads != 0);
    if let Some(known) = known {
        known.add(i, heads);
    }
    block.count_taken((heads.count_ones() << order.get()) as u16, movable);
    out.push(Bundle { word: (index << WORDS_SHIFT) + i as u32, heads, order });
}
