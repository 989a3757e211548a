//! Rules that other parts of the library rely on.

use framewright::{
    CpuId, MigrateType, Order, Request,
    platform::{CompactPriority, Compacted},
};

use crate::{BASE, PAGEBLOCKS, house::House, house_with_relief, in_house, with_compactor};

pub(crate) const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

/// Lists that hold next to nothing, before a depot of an eighth of the zone.
const DEPOT: [(&str, &str); 3] =
    [("zone.depot_divisor", "8"), ("pcp.batch", "7"), ("pcp.high_fraction", "1000")];

pub(crate) fn fill(house: &House<'_, '_>) {
    while house.alloc(0, MigrateType::Movable, false).is_some() {}
}

/// Frees pages of a pageblock until so many are left.
pub(crate) fn thin_out(house: &House<'_, '_>, pageblock: u64, left: usize) {
    let start = BASE + pageblock * 512;
    let pages: Vec<_> = house.pages.borrow().range(start..start + 512).map(|(&at, _)| at).collect();
    let gone = pages.len().saturating_sub(left);
    pages.into_iter().take(gone).for_each(|at| house.free(at));
}

fn form_at_all_priorities(house: &House<'_, '_>) -> Vec<Compacted> {
    [CompactPriority::Async, CompactPriority::SyncLight, CompactPriority::Sync]
        .into_iter()
        .map(|priority| {
            let (result, block) = with_compactor(house, 512, |c| c.form(HUGE, priority));
            if let Some(block) = block {
                house.memory.free_unlisted(block).unwrap();
            }
            house.check();
            result
        })
        .collect()
}

#[test]
fn by_index_pages_move_into_fuller_pageblocks_only() {
    for seed in 1..20 {
        in_house(&[], seed, |house| {
            fill(house);
            for pageblock in 0..PAGEBLOCKS {
                thin_out(house, pageblock, 1 + house.below(512) as usize);
            }
            house.memory.drain_all();
            house.fuller_only.set(true);
            for _ in 0..4 {
                form_at_all_priorities(house);
            }
        });
    }
}

/// The emptiest pageblocks cannot be emptied themselves; still nothing moves into them.
#[test]
fn by_index_the_room_of_emptier_pageblocks_is_left_alone() {
    in_house(&[], 1, |house| {
        fill(house);
        // What is in the first two together is less than what is in the third.
        for (pageblock, left) in [(3, 50), (7, 52), (20, 200)] {
            thin_out(house, pageblock, left);
        }
        house.memory.drain_all();
        [3, 7].into_iter().for_each(|pageblock| pin_first(house, pageblock));
        house.fuller_only.set(true);
        for _ in 0..4 {
            let results = form_at_all_priorities(house);
            assert!(!results.contains(&Compacted::Success), "{results:?}");
        }
        let stats = house.memory.compact_stats();
        assert!(stats.compact_isolated > 0, "it was tried");
    });
}

/// What has nowhere to go is not claimed in vain.
#[test]
fn by_index_pages_are_asked_for_where_there_is_room_for_all_of_them() {
    in_house(&[], 1, |house| {
        fill(house);
        thin_out(house, 3, 50);
        thin_out(house, 20, 200);
        house.memory.drain_all();
        pin_first(house, 3);
        let (result, _) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Complete);
        assert_eq!(
            house.asked.get(),
            32,
            "the beginning of the first, which has room in the other"
        );
        house.check();
    });
}

/// A page at the beginning of a pageblock that never moves.
pub(crate) fn pin_first(house: &House<'_, '_>, pageblock: u64) {
    let mut pages = house.pages.borrow_mut();
    let (_, first) = pages.range_mut(BASE + pageblock * 512..).next().unwrap();
    first.pinned = true;
}

/// Nobody has any page any more.
pub(crate) fn unclaim(house: &House<'_, '_>) {
    house.pages.borrow_mut().values_mut().for_each(|page| page.claimed = false);
    house.check();
}

/// Pageblocks that cannot be emptied are found out by their first page that stays.
#[test]
fn by_index_a_page_that_cannot_be_claimed_ends_the_attempt() {
    // All of them can be tried.
    in_house(&[("compact.frames", "2048")], 3, |house| {
        fill(house);
        for pageblock in 0..PAGEBLOCKS {
            thin_out(house, pageblock, 400);
            let start = BASE + pageblock * 512;
            let mut pages = house.pages.borrow_mut();
            pages.range_mut(start..start + 512).for_each(|(_, page)| page.claimed = true);
        }
        house.memory.drain_all();
        let (result, _) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Complete);
        assert!(house.asked.get() <= PAGEBLOCKS * 32, "{} frames", house.asked.get());
        unclaim(house);
        house.check();
    });
}

/// However little of a run of pageblocks can be claimed at once: it is looked at to its end before any of it
/// moves.
#[test]
fn by_index_a_page_that_cannot_be_claimed_keeps_all_of_a_run_where_it_is() {
    for (order, room) in [(10, 100), (11, 512)] {
        in_house(&[], 3, |house| {
            fill(house);
            (0..PAGEBLOCKS).for_each(|pageblock| thin_out(house, pageblock, 300));
            house.memory.drain_all();
            // The last page of each run.
            let order = Order::new(order).unwrap();
            let is_last = |at: &u64| (at + 1).is_multiple_of(order.frames());
            house.pages.borrow_mut().iter_mut().for_each(|(at, page)| page.claimed = is_last(at));
            let request = Request::new(order, MigrateType::Movable);
            let (result, _) =
                with_compactor(house, room, |c| c.form(request, CompactPriority::Sync));
            assert_ne!(result, Compacted::Success);
            assert_eq!(house.memory.compact_stats().pgmigrate_success, 0, "{order:?}");
            unclaim(house);
            let (result, block) =
                with_compactor(house, room, |c| c.form(request, CompactPriority::Sync));
            assert_eq!(result, Compacted::Success);
            house.memory.free_unlisted(block.expect("it was captured")).unwrap();
            house.check();
        });
    }
}

#[test]
fn room_in_pageblocks_of_another_type_is_left_alone() {
    for method in ["index", "scan"] {
        in_house(&[("compact.method", method)], 6, |house| {
            crate::scatter(house, 3);
            let zone = house.memory.zones().next().unwrap();
            for foreign in house.memory.pageblocks(zone.id).step_by(2) {
                assert!(house.memory.set_pageblock_type(foreign.first, MigrateType::Unmovable));
            }
            house.movable_only.set(true);
            // What has formed is kept, so that more has to.
            let mut blocks = Vec::new();
            for _ in 0..PAGEBLOCKS {
                let form = |priority| with_compactor(house, 512, |c| c.form(HUGE, priority)).1;
                blocks.extend(form(CompactPriority::SyncLight));
                blocks.extend(form(CompactPriority::Sync));
            }
            assert!(blocks.len() > 3, "{method}: {}", blocks.len());
            blocks.into_iter().for_each(|block| house.memory.free_unlisted(block).unwrap());
            house.check();
        });
    }
}

#[test]
fn by_index_what_lies_on_lists_is_brought_home() {
    in_house(&[], 7, |house| {
        fill(house);
        let thinned = [5, 9, 12, 15, 18];
        thinned.iter().for_each(|&pageblock| thin_out(house, pageblock, 101));
        house.memory.drain_all();
        // One frame of each lies on a list.
        thinned.iter().for_each(|&pageblock| thin_out(house, pageblock, 100));
        assert!(house.memory.held_by_cpus() > 0);
        let (result, block) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_eq!(result, Compacted::Success);
        house.memory.free_unlisted(block.expect("it was captured")).unwrap();
        house.check();
    });
}

/// Who does not wait interrupts nobody for a frame that another CPU may reach still.
#[test]
fn by_index_who_does_not_wait_leaves_what_is_parked() {
    in_house(&[("tlb.parked_max", "512")], 7, |house| {
        fill(house);
        (9..20).for_each(|pageblock| thin_out(house, pageblock, 400));
        house.pages.borrow_mut().values_mut().for_each(|page| page.claimed = true);
        let start = BASE + 5 * 512;
        let of_source = start..start + 512;
        house.pages.borrow_mut().range_mut(of_source).for_each(|(_, page)| page.claimed = false);
        thin_out(house, 5, 101);
        let parked = start + 511;
        house.park(parked);
        house.memory.drain_all();
        let form = |priority| with_compactor(house, 512, |c| c.form(HUGE, priority));
        let (result, block) = form(CompactPriority::Async);
        assert!(result != Compacted::Success && block.is_none(), "{result:?}");
        assert_eq!(house.memory.tlb().deferred(), 1);
        let (result, block) = form(CompactPriority::Sync);
        assert_eq!((result, house.memory.tlb().deferred()), (Compacted::Success, 0));
        house.memory.free_unlisted(block.expect("it was captured")).unwrap();
        unclaim(house);
    });
}

/// Frees one page in eight, neighbours long after one another: most of them lie in the depot then.
fn fill_depot(house: &House<'_, '_>) {
    fill(house);
    let pages: Vec<_> = house.pages.borrow().keys().copied().collect();
    for first in [1, 33, 17, 49, 9, 41, 25, 57] {
        pages.iter().skip(first).step_by(64).for_each(|&at| house.free(at));
    }
    house.memory.cpu(CpuId::new(0)).unwrap().drain();
    assert!(house.memory.in_depots() > 500, "{}", house.memory.in_depots());
}

#[test]
fn the_depot_comes_home_before_anything_moves() {
    for method in ["index", "scan"] {
        // One request pays for all of it.
        let set = [&DEPOT[..], &[("compact.method", method), ("compact.frames", "640")]].concat();
        in_house(&set, 2, |house| {
            fill_depot(house);
            let (_, block) =
                with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
            assert_eq!(house.memory.in_depots(), 0, "{method}");
            house.memory.free_unlisted(block.expect("it was captured")).unwrap();
            house.check();
        });
    }
}

#[test]
fn in_defragmenting_mode_the_depot_serves_before_compaction() {
    let set = [&DEPOT[..], &[("alloc.defrag_mode", "on")]].concat();
    let house = house_with_relief(&set, 3);
    fill(house);
    for pageblock in [5, 9] {
        let start = BASE + pageblock * 512;
        // Bits reversed: no two neighbours soon after one another.
        (0..512u64).map(|i| start + (i.reverse_bits() >> 55)).for_each(|at| house.free(at));
    }
    house.memory.cpu(CpuId::new(0)).unwrap().drain();
    assert!(house.memory.in_depots() > 300, "{}", house.memory.in_depots());
    let before = house.memory.stats();
    let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
    let block = token.alloc(HUGE).unwrap();
    let after = house.memory.stats();
    assert_eq!(house.memory.compact_stats().pgmigrate_success, 0);
    assert_eq!((after.steals, after.compact_stall), (before.steals, before.compact_stall));
    token.free(block).unwrap();
}

#[test]
fn without_a_workspace_nothing_moves() {
    for method in ["index", "scan"] {
        in_house(&[("compact.method", method)], 4, |house| {
            crate::scatter(house, 3);
            for priority in [CompactPriority::Async, CompactPriority::Sync] {
                let (result, block) = with_compactor(house, 0, |c| c.form(HUGE, priority));
                assert!(result == Compacted::Skipped && block.is_none(), "{method}: {result:?}");
            }
            house.check();
        });
    }
}

#[test]
fn who_moves_pages_may_plug_memory() {
    in_house(&[], 5, |house| {
        crate::scatter(house, 4);
        house.plugged.set(Some(crate::frames(0, 512)));
        let range = crate::frames(8, 1024);
        with_compactor(house, 64, |c| c.remove_memory(range, &mut |_| ())).unwrap();
        house.plugged.set(None);
        house.memory.add_memory(range).unwrap();
        house.check();
    });
}
