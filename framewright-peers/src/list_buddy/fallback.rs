//! Fallback when the lists of a type are empty: claim a whole pageblock of another type, or steal
//! one block and mix types.

use super::{
    MigrateType,
    lists::{MAX_ORDER, Mark, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pages},
    lock::Machine,
    zone::Zone,
};

/// The free lists that a batch took its last block from. Once it has stolen a block, it does not
/// try its own lists again until the zone lock is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Phase {
    /// The type's own lists.
    #[default]
    Normal,
    /// The lists of another type; the pageblock keeps its type.
    Steal,
}

/// The types to fall back to, in this order.
const fn fallbacks(migratetype: MigrateType) -> [MigrateType; 2] {
    match migratetype {
        MigrateType::Unmovable => [MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => [MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => [MigrateType::Unmovable, MigrateType::Movable],
    }
}

impl Zone {
    /// Takes one block, from other types where necessary.
    ///
    /// Kernels since 4.15 inline this function into the loop that refills a list. Before, compilers called it and
    /// inlined into it what it calls, as a list of symbols in the discussion of that change shows; so does `--cfg framewright_outlined`.
    #[cfg_attr(not(framewright_outlined), inline(always))]
    #[cfg_attr(framewright_outlined, inline(never))]
    pub(super) fn take<M: Machine>(
        &mut self,
        pages: &Pages<M>,
        order: u8,
        migratetype: MigrateType,
        phase: &mut Phase,
    ) -> Option<u32> {
        if *phase == Phase::Normal {
            if let Some(frame) = self.take_own(pages, order, migratetype) {
                return Some(frame);
            }
            if let Some(frame) = self.claim(pages, order, migratetype) {
                return Some(frame);
            }
        }
        let frame = self.steal(pages, order, migratetype)?;
        *phase = Phase::Steal;
        Some(frame)
    }

    /// Claims a pageblock of another type, the one with the largest free block first: changes its
    /// type to the requester's, and takes a block of it.
    #[cold]
    fn claim<M: Machine>(
        &mut self,
        pages: &Pages<M>,
        order: u8,
        migratetype: MigrateType,
    ) -> Option<u32> {
        for from in (order..=MAX_ORDER).rev() {
            let Some((frame, theirs)) = first_fallback(pages, from, migratetype) else {
                continue;
            };
            if from < PAGEBLOCK_ORDER / 2 && migratetype == MigrateType::Movable {
                // The block is stolen, without a claim of its pageblock: a movable frame in a
                // pageblock of another type causes no lasting fragmentation.
                return None;
            }
            if from >= PAGEBLOCK_ORDER {
                pages.set_pageblock_type(frame, from, migratetype);
                self.take_block(pages, frame, from, order, migratetype);
                self.stats.claims += 1;
                return Some(frame);
            }
            if self.claim_part(pages, frame, theirs, migratetype) {
                self.stats.claims += 1;
                return self.take_own(pages, order, migratetype);
            }
        }
        None
    }

    /// Claims a partly used pageblock if at least half of it is free or compatible with the
    /// requester.
    fn claim_part<M: Machine>(
        &mut self,
        pages: &Pages<M>,
        frame: u32,
        theirs: MigrateType,
        migratetype: MigrateType,
    ) -> bool {
        let start = frame & !(PAGEBLOCK_FRAMES - 1);
        let end = start + PAGEBLOCK_FRAMES;
        if end > pages.frames() {
            return false;
        }
        let (free, movable) = survey(pages, start, end);
        let alike = match (migratetype, theirs) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_FRAMES - free - movable,
            _ => 0,
        };
        if free + alike < PAGEBLOCK_FRAMES / 2 {
            return false;
        }
        for (block, mark) in blocks(pages, start, end) {
            if let Mark::Buddy(order) = mark {
                pages.unlink(block);
                pages.push_tail(pages.free_list(order, migratetype), block);
            }
        }
        pages.set_pageblock_type(start, PAGEBLOCK_ORDER, migratetype);
        true
    }

    /// Takes the smallest sufficient block of another type; the rest of it keeps its type.
    #[cold]
    fn steal<M: Machine>(
        &mut self,
        pages: &Pages<M>,
        order: u8,
        migratetype: MigrateType,
    ) -> Option<u32> {
        (order..=MAX_ORDER).find_map(|from| {
            let (frame, theirs) = first_fallback(pages, from, migratetype)?;
            self.take_block(pages, frame, from, order, theirs);
            self.stats.steals += 1;
            Some(frame)
        })
    }
}

/// The first free block of this order on the lists of another type.
fn first_fallback<M: Machine>(
    pages: &Pages<M>,
    order: u8,
    migratetype: MigrateType,
) -> Option<(u32, MigrateType)> {
    fallbacks(migratetype)
        .into_iter()
        .find_map(|theirs| Some((pages.first(pages.free_list(order, theirs))?, theirs)))
}

/// The blocks of a pageblock in address order, with their marks. A frame with [`Mark::Tail`] that
/// no block contains is on its way between the lists, and counts as a block of one frame.
fn blocks<M: Machine>(
    pages: &Pages<M>,
    start: u32,
    end: u32,
) -> impl Iterator<Item = (u32, Mark)> + '_ {
    let mut frame = start;
    core::iter::from_fn(move || {
        let (at, mark) = (frame, pages.mark(frame));
        frame += match mark {
            Mark::Tail => 1,
            Mark::Buddy(order) | Mark::Listed(order) | Mark::Used(order, _) => 1 << order,
        };
        (at < end).then_some((at, mark))
    })
}

/// The number of free frames of a pageblock, and of allocated movable frames.
fn survey<M: Machine>(pages: &Pages<M>, start: u32, end: u32) -> (u32, u32) {
    blocks(pages, start, end).fold((0, 0), |(free, movable), (_, mark)| match mark {
        Mark::Buddy(order) => (free + (1 << order), movable),
        Mark::Used(order, MigrateType::Movable) => (free, movable + (1 << order)),
        _ => (free, movable),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use MigrateType::{Movable, Reclaimable, Unmovable};

    fn zone(frames: u32) -> (Pages, Zone) {
        let pages = Pages::new(super::super::Threads, frames, 1).unwrap();
        let zone = Zone::new(&pages);
        (pages, zone)
    }

    fn take(zone: &mut Zone, pages: &Pages, order: u8, migratetype: MigrateType) -> Option<u32> {
        let frame = zone.take(pages, order, migratetype, &mut Phase::default())?;
        pages.set_mark(frame, Mark::Used(order, migratetype));
        Some(frame)
    }

    #[test]
    fn a_whole_pageblock_is_claimed_and_changes_its_type() {
        let (pages, mut zone) = zone(2048);
        let frame = take(&mut zone, &pages, 0, Unmovable).expect("free");
        assert_eq!(pages.pageblock_type(frame), Unmovable);
        assert_eq!((zone.stats.claims, zone.stats.steals), (1, 0));
        // The rest of the pageblock serves the next request without another claim.
        let next = take(&mut zone, &pages, 0, Unmovable).expect("free");
        assert_eq!((next, zone.stats.claims), (frame + 1, 1));
    }

    #[test]
    fn a_half_empty_pageblock_is_claimed_in_part() {
        let (pages, mut zone) = zone(512);
        for _ in 0..256 / 16 {
            take(&mut zone, &pages, 4, Movable).expect("free");
        }
        let frame = take(&mut zone, &pages, 0, Reclaimable).expect("half of it is free");
        assert_eq!(pages.pageblock_type(frame), Reclaimable);
        assert_eq!((zone.stats.claims, zone.stats.steals), (1, 0));
    }

    #[test]
    fn stealing_from_a_pageblock_that_is_less_than_half_free_keeps_its_type() {
        let (pages, mut zone) = zone(512);
        for _ in 0..257 {
            take(&mut zone, &pages, 0, Movable).expect("free");
        }
        let frame = take(&mut zone, &pages, 0, Unmovable).expect("some are free");
        assert_eq!(pages.pageblock_type(frame), Movable);
        assert_eq!((zone.stats.claims, zone.stats.steals), (0, 1));
    }

    #[test]
    fn movable_requests_do_not_claim_for_a_small_block() {
        let (pages, mut zone) = zone(512);
        let mut frames: Vec<u32> =
            core::iter::from_fn(|| take(&mut zone, &pages, 0, Unmovable)).collect();
        let freed = frames.split_off(512 - 8);
        for frame in freed {
            zone.give(&pages, frame, 0);
        }
        take(&mut zone, &pages, 0, Movable).expect("eight are free");
        assert_eq!(zone.stats.steals, 1);
        assert_eq!(pages.pageblock_type(0), Unmovable);
    }

    #[test]
    fn a_steal_switches_the_batch_to_the_steal_phase() {
        let (pages, mut zone) = zone(512);
        for _ in 0..300 {
            take(&mut zone, &pages, 0, Movable).expect("free");
        }
        let mut phase = Phase::default();
        zone.take(&pages, 0, Unmovable, &mut phase).expect("free");
        assert_eq!(phase, Phase::Steal);
    }
}
