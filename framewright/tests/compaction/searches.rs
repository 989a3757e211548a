//! With `compact.method=index`, the search of one request is bounded, and is short after an empty
//! round: a search of all pageblocks in which none could be emptied.

use framewright::{
    MigrateType, NodeId, Order, Request, ZoneKind,
    platform::{CompactPriority, Compacted},
};

use framewright_fakes::FakeMover;

use crate::{
    BASE, PAGEBLOCKS,
    rules::{HUGE, fill, thin_out, unclaim},
    with_compactor, with_owner, with_owner_sized,
};

/// An unsuccessful scan of a frame costs an eighth of a move.
#[test]
fn by_index_a_request_scans_a_bounded_number_of_frames() {
    with_owner(&[("compact.migrate_budget", "64")], 3, |owner| {
        fill(owner);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(owner, pageblock, 400));
        owner.memory.drain_all();
        owner.pages.borrow_mut().values_mut().for_each(|page| page.claimed = true);
        let (result, _) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Contended);
        assert!((1..=8 * 64).contains(&owner.scanned.get()), "{} frames", owner.scanned.get());
        unclaim(owner);
    });
}

/// After an empty round, a request searches only one piece (`compact.headers_per_piece`), until a
/// pageblock can be emptied.
#[test]
fn by_index_searches_are_short_after_an_empty_round() {
    with_owner(&[("compact.headers_per_piece", "8")], 4, |owner| {
        fill(owner);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(owner, pageblock, 400));
        owner.memory.drain_all();
        let claim_all = |claimed| {
            owner.pages.borrow_mut().values_mut().for_each(|page| page.claimed = claimed);
        };
        claim_all(true);
        let examined = || {
            let before = owner.memory.compact_stats();
            let (result, block) =
                with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
            if let Some(block) = block {
                owner.memory.free_bypassing_lists(block).unwrap();
            }
            let after = owner.memory.compact_stats();
            (result, after.compact_headers_scanned - before.compact_headers_scanned)
        };
        let headers: Vec<_> = (0..40).map(|_| examined().1).collect();
        assert!(
            headers[0] >= PAGEBLOCKS && headers[20..].iter().sum::<u64>() < 20 * 40,
            "{headers:?}"
        );
        claim_all(false);
        let formed = (0..200).any(|_| examined().0 == Compacted::Success);
        assert!(formed, "no later search formed a block");
        owner.check();
    });
}

/// Requests huge pages without waiting until searches become short.
fn search_until_limited(owner: &FakeMover<'_, '_>) {
    let mut short = 0;
    for _ in 0..2000 {
        let before = owner.memory.compact_stats().compact_headers_scanned;
        let (result, _) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_ne!(result, Compacted::Success);
        let headers = owner.memory.compact_stats().compact_headers_scanned - before;
        short = if headers <= 8 { short + 1 } else { 0 };
        if short == 5 {
            return;
        }
    }
    panic!("searches never become short");
}

/// Claims all pages except those of the last pageblocks of memory. Each pageblock has free frames.
fn claim_all_but(owner: &FakeMover<'_, '_>, pageblocks: u64, last: u64) {
    fill(owner);
    (0..pageblocks - last).for_each(|pageblock| thin_out(owner, pageblock, 380));
    owner.memory.drain_all();
    let end = BASE + (pageblocks - last) * 512;
    owner.pages.borrow_mut().range_mut(..end).for_each(|(_, page)| page.claimed = true);
}

/// Frees scattered pages of a pageblock. The pageblock then has no larger free block, so it is
/// searched last.
fn scatter_last(owner: &FakeMover<'_, '_>, pageblock: u64) {
    let start = BASE + pageblock * 512;
    (0..140).for_each(|nth| owner.free(start + 3 * nth));
    owner.memory.drain_all();
}

/// The memory has 16 times as many pageblocks as a search examines after an empty round.
#[test]
fn by_index_a_newly_empty_pageblock_is_found_at_once_after_an_empty_round() {
    const MANY: u64 = 128;
    with_owner_sized(MANY, &[("compact.headers_per_piece", "8")], 4, |owner| {
        claim_all_but(owner, MANY, 1);
        search_until_limited(owner);
        thin_out(owner, MANY - 1, 10);
        owner.memory.drain_all();
        let formed = [(); 2].map(|()| {
            let (result, block) =
                with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
            block.into_iter().for_each(|block| owner.memory.free_bypassing_lists(block).unwrap());
            result
        });
        assert!(formed.contains(&Compacted::Success), "{formed:?}");
        unclaim(owner);
    });
}

#[test]
fn by_index_background_compaction_searches_everything_after_an_empty_round() {
    const MANY: u64 = 128;
    let set = [("compact.headers_per_piece", "8"), ("compact.proactiveness", "100")];
    for proactive in [false, true] {
        with_owner_sized(MANY, &set, 4, |owner| {
            claim_all_but(owner, MANY, 1);
            search_until_limited(owner);
            scatter_last(owner, MANY - 1);
            let node = NodeId::new(0).unwrap();
            with_compactor(owner, 512, |c| match proactive {
                true => _ = c.proactive(node),
                false => _ = c.background(node, Order::PAGEBLOCK, ZoneKind::Movable),
            });
            let stats = owner.memory.compact_stats();
            assert_eq!(stats.compact_pageblocks_emptied, 1, "proactive: {proactive}");
            unclaim(owner);
        });
    }
}

/// An unsuccessful search for a larger block says nothing about single pageblocks.
#[test]
fn by_index_searches_for_runs_and_for_pageblocks_are_independent() {
    for searches in 1..20 {
        with_owner(&[("compact.headers_per_piece", "4")], 4, |owner| {
            fill(owner);
            // Every second pageblock is full, and a search for single pageblocks does not find full
            // pageblocks.
            (0..PAGEBLOCKS).step_by(2).for_each(|pageblock| thin_out(owner, pageblock, 380));
            scatter_last(owner, PAGEBLOCKS - 1);
            let last = BASE + (PAGEBLOCKS - 1) * 512;
            owner.pages.borrow_mut().range_mut(..last).for_each(|(_, page)| page.claimed = true);
            let pair = Request::new(Order::new(10).unwrap(), MigrateType::Movable);
            let form =
                |request| with_compactor(owner, 512, |c| c.form(request, CompactPriority::Async));
            for _ in 0..searches {
                assert_ne!(form(pair).0, Compacted::Success);
            }
            let (result, block) = form(HUGE);
            assert_eq!(result, Compacted::Success, "after {searches} searches");
            owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            unclaim(owner);
        });
    }
}

/// All pageblocks are equally full.
#[test]
fn by_index_evenly_scattered_memory_is_compacted() {
    with_owner(&[], 2, |owner| {
        fill(owner);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(owner, pageblock, 400));
        owner.memory.drain_all();
        owner.fuller_only.set(true);
        let (result, block) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_eq!(result, Compacted::Success);
        owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
        owner.check();
    });
}
