//! Rules of compaction on which other parts of the library rely.

use framewright::{
    CpuId, MigrateType, Order, Request,
    platform::{CompactPriority, Compacted},
};

use framewright_fakes::FakeMover;

use crate::{BASE, PAGEBLOCKS, leaked_owner_with_relief, with_compactor, with_owner};

pub(crate) const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

/// Settings for very short CPU lists, and a depot of up to an eighth of the zone.
const DEPOT: [(&str, &str); 4] = [
    ("zone.depot_divisor", "8"),
    ("pcp.batch", "7"),
    ("pcp.high_fraction", "1000"),
    // Frames of sparse pageblocks would bypass the depot.
    ("zone.emptying_above", "512"),
];

pub(crate) fn fill(owner: &FakeMover<'_, '_>) {
    while owner.alloc(0, MigrateType::Movable, false).is_some() {}
}

/// Frees pages of a pageblock until `left` pages are left.
pub(crate) fn thin_out(owner: &FakeMover<'_, '_>, pageblock: u64, left: usize) {
    let start = BASE + pageblock * 512;
    let pages: Vec<_> = owner.pages.borrow().range(start..start + 512).map(|(&at, _)| at).collect();
    let gone = pages.len().saturating_sub(left);
    pages.into_iter().take(gone).for_each(|at| owner.free(at));
}

fn form_at_all_priorities(owner: &FakeMover<'_, '_>) -> Vec<Compacted> {
    [CompactPriority::Async, CompactPriority::SyncLight, CompactPriority::Sync]
        .into_iter()
        .map(|priority| {
            let (result, block) = with_compactor(owner, 512, |c| c.form(HUGE, priority));
            if let Some(block) = block {
                owner.memory.free_bypassing_lists(block).unwrap();
            }
            owner.check();
            result
        })
        .collect()
}

#[test]
fn by_index_pages_move_into_fuller_pageblocks_only() {
    for seed in 1..20 {
        with_owner(&[], seed, |owner| {
            fill(owner);
            for pageblock in 0..PAGEBLOCKS {
                thin_out(owner, pageblock, 1 + owner.below(512) as usize);
            }
            owner.memory.drain_all();
            owner.fuller_only.set(true);
            for _ in 0..4 {
                form_at_all_priorities(owner);
            }
        });
    }
}

/// The emptiest pageblocks cannot be emptied, but no page moves into them either.
#[test]
fn by_index_no_page_moves_into_an_emptier_pageblock() {
    with_owner(&[], 1, |owner| {
        fill(owner);
        // The first two together contain fewer pages than the third.
        for (pageblock, left) in [(3, 50), (7, 52), (20, 200)] {
            thin_out(owner, pageblock, left);
        }
        owner.memory.drain_all();
        [3, 7].into_iter().for_each(|pageblock| pin_first(owner, pageblock));
        owner.fuller_only.set(true);
        for _ in 0..4 {
            let results = form_at_all_priorities(owner);
            assert!(!results.contains(&Compacted::Success), "{results:?}");
        }
        let stats = owner.memory.compact_stats();
        assert!(stats.compact_isolated > 0, "pages were claimed");
    });
}

/// Pages are not claimed if they have no targets.
#[test]
fn by_index_pages_are_claimed_only_if_all_of_them_have_targets() {
    with_owner(&[], 1, |owner| {
        fill(owner);
        thin_out(owner, 3, 50);
        thin_out(owner, 20, 200);
        owner.memory.drain_all();
        pin_first(owner, 3);
        let (result, _) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Complete);
        assert_eq!(
            owner.scanned.get(),
            32,
            "the beginning of the first, which has targets in the other"
        );
        owner.check();
    });
}

/// Pins the first page of a pageblock.
pub(crate) fn pin_first(owner: &FakeMover<'_, '_>, pageblock: u64) {
    let mut pages = owner.pages.borrow_mut();
    let (_, first) = pages.range_mut(BASE + pageblock * 512..).next().unwrap();
    first.pinned = true;
}

/// Ends all claims.
pub(crate) fn unclaim(owner: &FakeMover<'_, '_>) {
    owner.pages.borrow_mut().values_mut().for_each(|page| page.claimed = false);
    owner.check();
}

/// A pageblock cannot be emptied if one of its pages cannot be claimed.
#[test]
fn by_index_a_page_that_cannot_be_claimed_ends_the_attempt() {
    // The budget covers all pageblocks.
    with_owner(&[("compact.migrate_budget", "2048")], 3, |owner| {
        fill(owner);
        for pageblock in 0..PAGEBLOCKS {
            thin_out(owner, pageblock, 400);
            let start = BASE + pageblock * 512;
            let mut pages = owner.pages.borrow_mut();
            pages.range_mut(start..start + 512).for_each(|(_, page)| page.claimed = true);
        }
        owner.memory.drain_all();
        let (result, _) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Complete);
        assert!(owner.scanned.get() <= PAGEBLOCKS * 32, "{} frames", owner.scanned.get());
        unclaim(owner);
        owner.check();
    });
}

/// All pages of a run are checked before any of them moves, even if only few can be claimed at
/// once.
#[test]
fn by_index_one_unclaimable_page_keeps_a_whole_run_in_place() {
    for (order, capacity) in [(10, 100), (11, 512)] {
        with_owner(&[], 3, |owner| {
            fill(owner);
            (0..PAGEBLOCKS).for_each(|pageblock| thin_out(owner, pageblock, 300));
            owner.memory.drain_all();
            // Claims the last page of each run.
            let order = Order::new(order).unwrap();
            let is_last = |at: &u64| (at + 1).is_multiple_of(order.frames());
            owner.pages.borrow_mut().iter_mut().for_each(|(at, page)| page.claimed = is_last(at));
            let request = Request::new(order, MigrateType::Movable);
            let (result, _) =
                with_compactor(owner, capacity, |c| c.form(request, CompactPriority::Sync));
            assert_ne!(result, Compacted::Success);
            assert_eq!(owner.memory.compact_stats().pgmigrate_success, 0, "{order:?}");
            unclaim(owner);
            let (result, block) =
                with_compactor(owner, capacity, |c| c.form(request, CompactPriority::Sync));
            assert_eq!(result, Compacted::Success);
            owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            owner.check();
        });
    }
}

#[test]
fn no_page_moves_into_a_pageblock_of_another_type() {
    for method in ["index", "scan"] {
        with_owner(&[("compact.method", method)], 6, |owner| {
            crate::scatter(owner, 3);
            let zone = owner.memory.zones().next().unwrap();
            for foreign in owner.memory.pageblocks(zone.id).step_by(2) {
                assert!(owner.memory.set_pageblock_type(foreign.first, MigrateType::Unmovable));
            }
            owner.movable_only.set(true);
            // The formed blocks are kept, so that more blocks must form.
            let mut blocks = Vec::new();
            for _ in 0..PAGEBLOCKS {
                let form = |priority| with_compactor(owner, 512, |c| c.form(HUGE, priority)).1;
                blocks.extend(form(CompactPriority::SyncLight));
                blocks.extend(form(CompactPriority::Sync));
            }
            assert!(blocks.len() > 3, "{method}: {}", blocks.len());
            blocks.into_iter().for_each(|block| owner.memory.free_bypassing_lists(block).unwrap());
            owner.check();
        });
    }
}

#[test]
fn by_index_lists_are_drained_if_frames_remain_allocated() {
    with_owner(&[], 7, |owner| {
        fill(owner);
        let thinned = [5, 9, 12, 15, 18];
        thinned.iter().for_each(|&pageblock| thin_out(owner, pageblock, 101));
        owner.memory.drain_all();
        // One frame of each is on a CPU list.
        thinned.iter().for_each(|&pageblock| thin_out(owner, pageblock, 100));
        assert!(owner.memory.held_by_cpus() > 0);
        let (result, block) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_eq!(result, Compacted::Success);
        owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
        owner.check();
    });
}

/// Asynchronous compaction does not interrupt CPUs to flush translations to a deferred frame.
#[test]
fn by_index_async_compaction_does_not_flush_deferred_frames() {
    with_owner(&[("tlb.deferred_max", "512")], 7, |owner| {
        fill(owner);
        (9..20).for_each(|pageblock| thin_out(owner, pageblock, 400));
        owner.pages.borrow_mut().values_mut().for_each(|page| page.claimed = true);
        let start = BASE + 5 * 512;
        let of_source = start..start + 512;
        owner.pages.borrow_mut().range_mut(of_source).for_each(|(_, page)| page.claimed = false);
        thin_out(owner, 5, 101);
        let deferred = start + 511;
        owner.defer_free(deferred);
        owner.memory.drain_all();
        let form = |priority| with_compactor(owner, 512, |c| c.form(HUGE, priority));
        let (result, block) = form(CompactPriority::Async);
        assert!(result != Compacted::Success && block.is_none(), "{result:?}");
        assert_eq!(owner.memory.tlb().deferred(), 1);
        let (result, block) = form(CompactPriority::Sync);
        assert_eq!((result, owner.memory.tlb().deferred()), (Compacted::Success, 0));
        owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
        unclaim(owner);
    });
}

/// Frees every eighth page, and neighbours at very different times, so that most of the freed
/// frames are in the depot.
fn fill_depot(owner: &FakeMover<'_, '_>) {
    fill(owner);
    let pages: Vec<_> = owner.pages.borrow().keys().copied().collect();
    for first in [1, 33, 17, 49, 9, 41, 25, 57] {
        pages.iter().skip(first).step_by(64).for_each(|&at| owner.free(at));
    }
    owner.memory.cpu(CpuId::new(0)).unwrap().drain();
    assert!(owner.memory.in_depots() > 500, "{}", owner.memory.in_depots());
}

#[test]
fn the_depot_is_drained_before_pages_move() {
    for method in ["index", "scan"] {
        // The budget of one request covers all moves.
        let set =
            [&DEPOT[..], &[("compact.method", method), ("compact.migrate_budget", "640")]].concat();
        with_owner(&set, 2, |owner| {
            fill_depot(owner);
            let (_, block) =
                with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
            assert_eq!(owner.memory.in_depots(), 0, "{method}");
            owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            owner.check();
        });
    }
}

#[test]
fn in_defrag_mode_the_depot_serves_before_compaction() {
    let set = [&DEPOT[..], &[("alloc.defrag_mode", "on")]].concat();
    let owner = leaked_owner_with_relief(&set, 3);
    fill(owner);
    for pageblock in [5, 9] {
        let start = BASE + pageblock * 512;
        // In bit-reversed order, neighbours are freed far apart in time.
        (0..512u64).map(|i| start + (i.reverse_bits() >> 55)).for_each(|at| owner.free(at));
    }
    owner.memory.cpu(CpuId::new(0)).unwrap().drain();
    assert!(owner.memory.in_depots() > 300, "{}", owner.memory.in_depots());
    let before = owner.memory.stats();
    let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
    let block = token.alloc(HUGE).unwrap();
    let after = owner.memory.stats();
    assert_eq!(owner.memory.compact_stats().pgmigrate_success, 0);
    assert_eq!((after.steals, after.compact_stall), (before.steals, before.compact_stall));
    token.free(block).unwrap();
}

#[test]
fn without_a_workspace_nothing_moves() {
    for method in ["index", "scan"] {
        with_owner(&[("compact.method", method)], 4, |owner| {
            crate::scatter(owner, 3);
            for priority in [CompactPriority::Async, CompactPriority::Sync] {
                let (result, block) = with_compactor(owner, 0, |c| c.form(HUGE, priority));
                assert!(result == Compacted::Skipped && block.is_none(), "{method}: {result:?}");
            }
            owner.check();
        });
    }
}

#[test]
fn a_mover_may_add_memory() {
    with_owner(&[], 5, |owner| {
        crate::scatter(owner, 4);
        owner.plugged.set(Some(crate::frames(0, 512)));
        let range = crate::frames(8, 1024);
        with_compactor(owner, 64, |c| c.remove_memory(range, &mut |_| ())).unwrap();
        owner.plugged.set(None);
        owner.memory.add_memory(range).unwrap();
        owner.check();
    });
}
