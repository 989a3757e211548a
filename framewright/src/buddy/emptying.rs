//! The flag of sparse pageblocks that are to become empty: frames freed in them return to the zone.
//!
//! **The problem.** The lists of a CPU are last in, first out: an allocation returns the frame that was freed
//! last. So a program that replaces one page at a time gets each frame back in the pageblock from which it came,
//! and no pageblock ever becomes free, however much memory is free in total.
//!
//! **The rule.** The zone fills one pageblock at a time: refills take from the fullest pageblocks first. A
//! pageblock from which the zone does not allocate can only become emptier, if the lists of CPUs do not reuse its
//! frames either. So a free that leaves a pageblock sparse sets the flag *emptying*. Frames that are freed in such
//! a pageblock bypass the rings and return to the zone. A refill clears the flag if it fills the pageblock, or if the
//! refill before it took from the same pageblock: now the zone fills this pageblock, and its frames may be reused while
//! they are in the cache. A single refill that leaves the pageblock sparse does not clear the flag. Mixed traffic needs
//! blocks of several orders from several pageblocks. On lists these blocks would be reused with their orders, and the
//! pageblocks would stay divided into small blocks; in the zone they merge. Two refills in a row are enough, because
//! otherwise the frames of a loop that frees what it allocates would go to the zone and back for ever.
//!
//! **Why it converges.** Let a share f of all frames be free, spread evenly. Each replaced page leaves an emptying
//! pageblock with probability near 1 and enters the one that is being filled. After every page was replaced once,
//! the pages lie in full pageblocks, and all others are free. A full pageblock is not flagged, so from then on
//! allocations and frees use the rings again. Log-structured stores clean segments by the same rule (Rosenblum and
//! Ousterhout, 1992); the trees of LLFree (Wrenger et al., 2023) fill one part of memory per CPU with the same
//! effect.
//!
//! **The cost of the flag.** The flag is a bit of the byte that the hot path compares with the type *movable*, so
//! frees need no additional test. All CPUs read that byte, so it should change rarely. The flag is
//! set only if a free makes the number of free frames pass the limit, or a multiple of a quarter of
//! the pageblock. It is cleared when refills fill the pageblock, when the pageblock is
//! wholly free, and when its type changes.

use super::{Buddy, EMPTYING, FRAMES, MigrateType, TYPE_FLAGS, pageblock::FULLEST};
use crate::{sync::Ordering, types::PAGEBLOCK_ORDER};

/// A quarter of a pageblock in frames, as a shift: above the limit, a free that makes the number of
/// free frames pass a multiple of this sets the flag.
const STEP_SHIFT: u8 = PAGEBLOCK_ORDER - 2;

/// Whether the next free frame of a pageblock with `free` free frames may change the grade of the
/// pageblock, or may set the flag although the pageblock is above the limit.
#[inline(always)]
pub(super) fn passes_step(free: u16) -> bool {
    (free + 1) & ((1 << STEP_SHIFT) - 2) == 0 || free == FULLEST
}

impl Buddy<'_> {
    /// Sets the limit of free frames above which a pageblock is sparse; [`FRAMES`] switches the rule off.
    pub(crate) fn set_emptying_above(&mut self, free: u32) {
        self.emptying_above = free.min(FRAMES) as u16;
    }

    /// Sets whether any refill that takes frames from a pageblock clears its flag.
    #[cfg(feature = "compare")]
    pub(crate) fn set_any_refill_ends_emptying(&mut self, any: bool) {
        self.any_refill_ends_emptying = any;
    }

    /// Flags pageblock `index` if a free has made it sparse. It had `before` free frames before the free, and
    /// has `free` now.
    #[inline(always)]
    pub(super) fn flag_if_sparse(&mut self, index: u32, before: u16, free: u16) {
        if free <= self.emptying_above {
            return;
        }
        let passed_limit = before <= self.emptying_above;
        let passed_step = before >> STEP_SHIFT != free >> STEP_SHIFT;
        if (passed_limit || passed_step) && u32::from(free) < FRAMES {
            self.flag_emptying(index);
        }
    }

    #[inline(never)]
    fn flag_emptying(&mut self, index: u32) {
        let number = &self.types[index as usize];
        let of = number.load(Ordering::Relaxed);
        if usize::from(of) < MigrateType::LISTED {
            number.store(of | EMPTYING, Ordering::Relaxed);
        }
    }

    /// Clears the flag of pageblock `index`, from which a refill has just taken frames, if refills fill it now: this
    /// one has left few free frames, or the one before took frames from the same pageblock.
    #[inline(always)]
    pub(super) fn clear_if_filled(&mut self, index: u32) {
        let again = core::mem::replace(&mut self.refilled_last, index) == index;
        let is_filled = again || self.blocks[index as usize].free <= self.emptying_above;
        #[cfg(feature = "compare")]
        let is_filled = is_filled || self.any_refill_ends_emptying;
        if is_filled {
            self.clear_emptying(index);
        }
    }

    /// Clears the flag of pageblock `index`: the zone fills it, or it is wholly free.
    #[inline(always)]
    pub(super) fn clear_emptying(&mut self, index: u32) {
        let number = &self.types[index as usize];
        let of = number.load(Ordering::Relaxed);
        if of & TYPE_FLAGS == EMPTYING {
            number.store(of & !EMPTYING, Ordering::Relaxed);
        }
    }
}
