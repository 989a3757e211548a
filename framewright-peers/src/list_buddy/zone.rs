//! The free blocks of the zone: split on allocation, merged page by page on free.
//!
//! All functions run under the zone lock. The functions that take a frame are inlined into `Zone::take`, as compilers did
//! in kernels before 4.15; that one is inlined into the loop that refills a list, as in kernels since then (see there).

use super::{
    MigrateType,
    lists::{MAX_ORDER, Mark, ORDERS, PAGEBLOCK_ORDER, Pages},
    lock::{Machine, Work},
    stats::ZoneStats,
};

/// The data of the zone, apart from the page array.
pub(super) struct Zone {
    /// Free blocks per order.
    free_blocks: [u32; ORDERS],
    /// Free frames.
    free: u32,
    /// Counters.
    pub(super) stats: ZoneStats,
    /// Work done since the last report.
    pub(super) work: Work,
}

impl Zone {
    /// A zone without free frames.
    pub(super) fn empty() -> Self {
        Self {
            free_blocks: [0; ORDERS],
            free: 0,
            stats: ZoneStats::default(),
            work: Work::default(),
        }
    }

    /// A zone whose frames are all free, in blocks as large as fit.
    pub(super) fn new<M: Machine>(pages: &Pages<M>) -> Self {
        let mut zone = Self::empty();
        let mut frame = 0;
        while frame < pages.frames() {
            let fits = (pages.frames() - frame).ilog2() as u8;
            let aligned = if frame == 0 { MAX_ORDER } else { frame.trailing_zeros() as u8 };
            let order = MAX_ORDER.min(fits).min(aligned);
            pages.push_tail(pages.free_list(order, MigrateType::Movable), frame);
            pages.set_mark(frame, Mark::Buddy(order));
            zone.free_blocks[usize::from(order)] += 1;
            zone.free += 1 << order;
            frame += 1 << order;
        }
        zone
    }

    /// Free frames.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Free blocks per order.
    pub(super) fn free_blocks(&self) -> [u32; ORDERS] {
        self.free_blocks
    }

    /// Takes the smallest sufficient block of the type's own lists.
    #[inline(always)]
    pub(super) fn take_own<M: Machine>(
        &mut self,
        pages: &Pages<M>,
        order: u8,
        migratetype: MigrateType,
    ) -> Option<u32> {
        // A half-open range compiles to a plain counter; an inclusive one does not.
        for from in order..ORDERS as u8 {
            if let Some(frame) = pages.first(pages.free_list(from, migratetype)) {
                self.take_block(pages, frame, from, order, migratetype);
                return Some(frame);
            }
        }
        None
    }

    /// Takes the free block at `frame` of order `from`, keeps its first 2^`order` frames and puts
    /// the remaining halves on the lists of `migratetype`.
    #[inline(always)]
    pub(super) fn take_block<M: Machine>(
        &mut self,
        pages: &Pages<M>,
        frame: u32,
        from: u8,
        order: u8,
        migratetype: MigrateType,
    ) {
        self.unlink(pages, frame, from);
        self.free -= 1 << order;
        self.work.taken += 1;
        self.work.steps += u32::from(from - order);
        for half in (order..from).rev() {
            let upper = frame + (1 << half);
            pages.push_head(pages.free_list(half, migratetype), upper);
            pages.set_mark(upper, Mark::Buddy(half));
            self.free_blocks[usize::from(half)] += 1;
        }
    }

    /// Frees a block: merges it with its buddy while that one is free.
    pub(super) fn give<M: Machine>(&mut self, pages: &Pages<M>, mut frame: u32, mut order: u8) {
        let migratetype = pages.pageblock_type(frame);
        pages.set_mark(frame, Mark::Tail);
        self.free += 1 << order;
        self.work.given += 1;
        while order < MAX_ORDER {
            let buddy = frame ^ (1 << order);
            if !pages.is_buddy(buddy, order) {
                break;
            }
            self.unlink(pages, buddy, order);
            if order >= PAGEBLOCK_ORDER && pages.pageblock_type(buddy) != migratetype {
                pages.set_pageblock_type(buddy, order, migratetype);
            }
            frame &= buddy;
            order += 1;
            self.work.steps += 1;
        }
        let list = pages.free_list(order, migratetype);
        if order < MAX_ORDER - 1 && will_merge(pages, frame, order) {
            pages.push_tail(list, frame);
        } else {
            pages.push_head(list, frame);
        }
        pages.set_mark(frame, Mark::Buddy(order));
        self.free_blocks[usize::from(order)] += 1;
    }

    /// Takes a free block off its list; the caller sets the new mark.
    fn unlink<M: Machine>(&mut self, pages: &Pages<M>, frame: u32, order: u8) {
        pages.unlink(frame);
        pages.set_mark(frame, Mark::Tail);
        self.free_blocks[usize::from(order)] -= 1;
    }
}

/// Whether the block that this one and its buddy form has a free buddy already. Such a block is
/// likely to merge soon, so other blocks are allocated first.
fn will_merge<M: Machine>(pages: &Pages<M>, frame: u32, order: u8) -> bool {
    let merged = frame & !(1 << order);
    pages.is_buddy(merged ^ (2 << order), order + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(frames: u32) -> (Pages, Zone) {
        let pages = Pages::new(super::super::Threads, frames, 1).unwrap();
        let zone = Zone::new(&pages);
        (pages, zone)
    }

    #[test]
    fn an_odd_zone_is_cut_into_the_largest_aligned_blocks() {
        let (_, zone) = zone(1024 + 512 + 3);
        let mut expected = [0; ORDERS];
        for order in [10, 9, 1, 0] {
            expected[order] = 1;
        }
        assert_eq!(zone.free_blocks(), expected);
        assert_eq!(zone.free(), 1539);
    }

    #[test]
    fn small_takes_split_larger_blocks_and_keep_the_halves() {
        let (pages, mut zone) = zone(1024);
        for expected in 0..5 {
            assert_eq!(zone.take_own(&pages, 0, MigrateType::Movable), Some(expected));
        }
        assert_eq!(zone.free_blocks(), [1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(zone.free(), 1019);
    }

    #[test]
    fn freeing_everything_merges_to_the_largest_order() {
        let (pages, mut zone) = zone(2048);
        let take = |zone: &mut Zone| zone.take_own(&pages, 0, MigrateType::Movable);
        let mut frames: Vec<u32> = core::iter::from_fn(|| take(&mut zone)).collect();
        assert_eq!((frames.len(), zone.free()), (2048, 0));
        // Even frames first: no merge is possible before their buddies are freed.
        frames.sort_by_key(|frame| (frame % 2, *frame));
        for frame in frames {
            zone.give(&pages, frame, 0);
        }
        assert_eq!(zone.free_blocks(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn a_block_that_will_merge_soon_goes_to_the_tail() {
        let (pages, mut zone) = zone(1024);
        let frames: Vec<u32> = (0..1024)
            .map(|_| zone.take_own(&pages, 0, MigrateType::Movable).expect("free"))
            .collect();
        let list = pages.free_list(0, MigrateType::Movable);
        zone.give(&pages, frames[100], 0);
        zone.give(&pages, frames[2], 0);
        zone.give(&pages, frames[3], 0);
        // Frames 2 and 3 are a free pair now, so frame 0 would complete a block of four soon.
        zone.give(&pages, frames[0], 0);
        assert_eq!((pages.first(list), pages.last(list)), (Some(100), Some(0)));
        // Frame 200 has no free neighbours.
        zone.give(&pages, frames[200], 0);
        assert_eq!(pages.first(list), Some(200));
    }
}
