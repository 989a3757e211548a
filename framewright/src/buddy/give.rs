//! Frees frames to the buddy.

use super::{
    Buddy, Bundle, FRAMES, Heads, MigrateType, TYPE_FLAGS, Watch,
    emptying::passes_step,
    levels::WORDS,
    pageblock::{NIL, Pageblock},
    word::{self, WORD_ORDER},
    words_of,
};
use crate::{
    platform::{Access, Cost, Miss},
    sync::Ordering,
    types::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Refusal},
};

/// The refused frees of a batch: all are counted, the first is kept for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) count: u32,
    pub(crate) frames: u64,
    pub(crate) first: Option<(u32, Order, Refusal)>,
}

impl Refusals {
    pub(crate) fn add(&mut self, frame: u32, order: Order, why: Refusal) {
        self.count += 1;
        self.frames += order.frames();
        self.first.get_or_insert((frame, order, why));
    }

    pub(crate) fn merge(&mut self, other: Refusals) {
        self.count += other.count;
        self.frames += other.frames;
        self.first = self.first.or(other.first);
    }
}

/// A request that waits for a block. The first free that completes a free block of this order takes the block for the
/// request, under the same hold of the zone lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Capture {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
    /// First frame of the captured block.
    pub(crate) taken: Option<u32>,
}

impl Buddy<'_> {
    /// Frees blocks. Bundles of the same pageblock should be adjacent: then the lists are updated
    /// once for all of them.
    ///
    /// Returns the frees that hardening refused; their frames are unchanged.
    #[inline(never)]
    pub(crate) fn give_bundles(&mut self, bundles: &[Bundle], watch: impl Watch) -> Refusals {
        let mut refusals = Refusals::default();
        // The pageblock of the bundle before, so that the reports count each pageblock once.
        let mut last = NIL;
        let mut rest = bundles;
        while let Some(&bundle) = rest.first() {
            let given = match bundle.order {
                Order::ZERO => self.give_singles(rest, &mut last, watch),
                order if order >= Order::PAGEBLOCK => self.give_whole(rest, &mut refusals, watch),
                _ => 0,
            };
            if given > 0 {
                rest = &rest[given..];
                continue;
            }
            let index = bundle.pageblock();
            #[cfg(feature = "compare")]
            {
                self.given_last = index;
            }
            self.report_visit(index, &mut last, watch);
            let of = self.type_of(index);
            let freed;
            (rest, freed) = self.give_run(rest, index, of, &mut refusals);
            let free = self.blocks[index as usize].free;
            self.settle(index, of, free - freed, watch);
        }
        refusals
    }

    /// Frees the leading bundles that are of one frame, as most are while frees are scattered. Returns their number.
    /// Stops at a frame whose free may have to be refused, and at one in an isolated pageblock.
    #[inline(never)]
    fn give_singles(&mut self, bundles: &[Bundle], last: &mut u32, watch: impl Watch) -> usize {
        bundles.iter().take_while(|bundle| self.give_single(**bundle, last, watch)).count()
    }

    #[inline(always)]
    fn give_single(&mut self, bundle: Bundle, last: &mut u32, watch: impl Watch) -> bool {
        let (frame, index) = (bundle.heads, bundle.pageblock());
        let i = bundle.word as usize % WORDS;
        if bundle.order != Order::ZERO || !frame.is_power_of_two() {
            return false;
        }
        let number = self.types[index as usize].load(Ordering::Relaxed) & !TYPE_FLAGS;
        let map = self.blocks[index as usize].map[i];
        if map & frame != 0 || usize::from(number) >= MigrateType::LISTED {
            return false;
        }
        if let Some(heads) = self.heads.get(index as usize) {
            let known = heads.word(i);
            if known & frame == 0 || word::overrun(frame, 0, map | known) != 0 {
                return false;
            }
            heads.remove(i, frame);
        }
        #[cfg(feature = "compare")]
        {
            self.given_last = index;
        }
        self.report_visit(index, last, watch);
        let block = &mut self.blocks[index as usize];
        let before = block.free;
        block.count_given(1, number == MigrateType::Movable as u8);
        self.free[usize::from(number)] += 1;
        let is_same = block.add_block(i, frame, 0);
        if !is_same || passes_step(before) || before == self.emptying_above {
            self.settle(index, self.type_of(index), before, watch);
        }
        true
    }

    /// Reports that frames are freed in pageblock `index`, unless it is the `last` one.
    #[inline(always)]
    fn report_visit(&self, index: u32, last: &mut u32, watch: impl Watch) {
        if watch.listens() && core::mem::replace(last, index) != index {
            watch.pageblock(index, Miss::Independent, self.is_checked(), Access::Write);
            watch.cost(Cost::GivePageblocks, 1);
        }
    }

    /// Moves pageblock `index`, in which frames were freed, to its proper list, and flags it if it is sparse now. It
    /// had `before` free frames before.
    #[inline(never)]
    fn settle(&mut self, index: u32, of: MigrateType, before: u16, watch: impl Watch) {
        self.relist(index, of, watch);
        self.flag_if_sparse(index, before, self.blocks[index as usize].free);
    }

    /// Frees the first bundle, which is in pageblock `index` and may be the whole pageblock, and
    /// the following smaller bundles in the same pageblock. Returns the rest, and the number of frames that
    /// became free.
    #[inline(always)]
    fn give_run<'b>(
        &mut self,
        bundles: &'b [Bundle],
        index: u32,
        of: MigrateType,
        refusals: &mut Refusals,
    ) -> (&'b [Bundle], u16) {
        let (mut rest, mut freed) = (bundles, 0);
        while let Some((&bundle, others)) = rest.split_first() {
            freed += self.give_blocks(index, bundle, refusals);
            rest = others;
            let continues =
                |next: &Bundle| next.pageblock() == index && next.order < Order::PAGEBLOCK;
            if !rest.first().is_some_and(continues) {
                break;
            }
        }
        // An isolated pageblock counts by its type before the isolation. Otherwise a pageblock that
        // is being emptied would seem to have no unmovable frames.
        let movable = of == MigrateType::Movable
            || of == MigrateType::Isolate && self.unisolated_type(index) == MigrateType::Movable;
        self.blocks[index as usize].count_given(freed, movable);
        self.free[of as usize] += u64::from(freed);
        (rest, freed)
    }

    /// Frees the leading bundles that are folded pageblocks or larger blocks. Returns their number.
    fn give_whole(
        &mut self,
        bundles: &[Bundle],
        refusals: &mut Refusals,
        watch: impl Watch,
    ) -> usize {
        match bundles.first() {
            Some(&bundle) if bundle.order > Order::PAGEBLOCK => {
                self.give_large(bundle, refusals, watch);
                1
            }
            _ => self.give_folded(bundles, watch),
        }
    }

    /// Frees one block. `capture` may take the block that this free completes.
    pub(crate) fn give_or_capture(
        &mut self,
        frame: u32,
        order: Order,
        capture: &mut Capture,
    ) -> Refusals {
        let refusals = self.give_bundles(&[Bundle::of(frame, order)], ());
        let index = frame >> PAGEBLOCK_ORDER;
        let of = self.type_of(index);
        let wanted = capture.order;
        let suits = of != MigrateType::Isolate
            && (wanted >= Order::PAGEBLOCK
                || of != MigrateType::Movable
                || capture.migratetype == MigrateType::Movable);
        if capture.taken.is_none() && refusals.count == 0 && order <= wanted && suits {
            capture.taken = self
                .align_down(frame, wanted)
                .filter(|&head| self.take_specific(head, wanted, capture.migratetype));
        }
        refusals
    }

    /// First frame of the aligned block of `order` around `frame`; `None` if that block starts before
    /// the zone.
    pub(super) fn align_down(&self, frame: u32, order: Order) -> Option<u32> {
        if order <= Order::PAGEBLOCK {
            return Some(frame & !(order.frames() as u32 - 1));
        }
        let first = self.lists.gigablocks.align_down(frame >> PAGEBLOCK_ORDER, order)?;
        Some(first << PAGEBLOCK_ORDER)
    }

    /// Frees the blocks of a bundle in pageblock `index`. Returns the number of frames that became free.
    #[inline(never)]
    fn give_blocks(&mut self, index: u32, mut bundle: Bundle, refusals: &mut Refusals) -> u16 {
        let first = bundle.word as usize % WORDS;
        let heads = self.heads_of(index);
        if let Some(heads) = heads {
            if !self.confirms(bundle, heads) {
                bundle.heads = self.accepted(bundle, refusals);
            }
            heads.remove(first, bundle.heads);
        }
        let order = bundle.order;
        let block = &mut self.blocks[index as usize];
        if order.get() <= WORD_ORDER {
            let (before, frames) = (block.map[first], bundle.spread());
            if bundle.heads.is_power_of_two() {
                block.add_block(first, frames, order.get());
            } else {
                block.set_word(first, before | frames);
            }
            (frames & !before).count_ones() as u16
        } else if bundle.heads != 0 {
            let before = block.free_in_words(first, words_of(order));
            block.set_words(first, words_of(order), true);
            order.frames() as u16 - before
        } else {
            0
        }
    }

    /// Whether the maps confirm all heads of `bundle` as allocated blocks of its order.
    #[inline(always)]
    fn confirms(&self, bundle: Bundle, known: &Heads) -> bool {
        let order = bundle.order;
        let block = &self.blocks[bundle.pageblock() as usize];
        let first = bundle.word as usize % WORDS;
        let (map, heads) = (block.map[first], known.word(first));
        let frames = bundle.spread();
        let larger = word::overrun(bundle.heads, order.get(), map | heads);
        map & frames == 0
            && heads & frames == bundle.heads
            && larger == 0
            && (order.get() < WORD_ORDER || is_sole_head(block, known, first, order))
    }

    /// The heads of `bundle` that are allocated blocks of its order.
    #[cold]
    #[inline(never)]
    fn accepted(&self, bundle: Bundle, refusals: &mut Refusals) -> u64 {
        let mut accepted = 0;
        for frame in bundle.frames() {
            match self.check_allocated(frame, bundle.order) {
                Ok(()) => accepted |= 1 << (frame % 64),
                Err(why) => refusals.add(frame, bundle.order, why),
            }
        }
        accepted
    }

    /// Checks in the maps that an allocated block of exactly `order` starts at `frame`.
    pub(crate) fn check_allocated(&self, frame: u32, order: Order) -> Result<(), Refusal> {
        let index = frame >> PAGEBLOCK_ORDER;
        if self.lists.gigablocks.is_folded(index) {
            let starts = frame.is_multiple_of(FRAMES);
            return match self.lists.gigablocks.allocated_order(index) {
                Some(is) if starts && is == order => Ok(()),
                Some(_) if starts => Err(Refusal::WrongOrder),
                _ => Err(Refusal::NotAllocated),
            };
        }
        let size = order.frames() as u32;
        let in_block = |frame: u32| frame as usize % PAGEBLOCK_FRAMES;
        let block = self.blocks.get(index as usize).ok_or(Refusal::NotAllocated)?;
        let heads = self.heads_of(index).ok_or(Refusal::NotAllocated)?;
        let is_free = |at: usize| block.map[at / 64] >> (at % 64) & 1 == 1;
        let is_head = |at: usize| heads.has(at);
        let start = in_block(frame);
        if is_free(start) {
            return Err(Refusal::AlreadyFree);
        }
        if !is_head(start) {
            return Err(Refusal::NotAllocated);
        }
        if order > Order::PAGEBLOCK {
            return Err(Refusal::WrongOrder);
        }
        let rest = start + 1..start + size as usize;
        if rest.clone().any(is_free) || rest.clone().any(is_head) {
            return Err(Refusal::WrongOrder);
        }
        let next = rest.end;
        let could_be_larger = start % (2 * size as usize) == 0 && next < PAGEBLOCK_FRAMES;
        if could_be_larger && !is_free(next) && !is_head(next) && !self.is_hole(frame + size) {
            return Err(Refusal::WrongOrder);
        }
        Ok(())
    }

    /// Splits the allocated block at `frame` into two of order `half`.
    pub(crate) fn split_head(&mut self, frame: u32, half: Order) {
        let second = frame + half.frames() as u32;
        if half >= Order::PAGEBLOCK {
            self.lists.gigablocks.part(second >> PAGEBLOCK_ORDER);
            return;
        }
        let index = frame >> PAGEBLOCK_ORDER;
        self.unfold(index);
        if let Some(heads) = self.heads_of(index) {
            heads.add(second as usize % PAGEBLOCK_FRAMES / 64, 1 << (second % 64));
        }
    }
}

/// Whether a block of `order` (at least a word) that starts with word `first` has no free frame and
/// no head but its own, and is certainly not larger. The caller tests that head.
#[inline(always)]
fn is_sole_head(block: &Pageblock, heads: &Heads, first: usize, order: Order) -> bool {
    let words = first..first + words_of(order);
    let mut rest = first + 1..words.end;
    let next = words.end;
    block.map.get(words).is_some_and(|map| map.iter().all(|&word| word == 0))
        && rest.all(|i| heads.word(i) == 0)
        && (next == WORDS || (block.map[next] | heads.word(next)) & 1 == 1)
}
