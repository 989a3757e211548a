//! By index, how much a request looks at: so much at a time, and little again after a search in vain.

use framewright::{
    MigrateType, NodeId, Order, Request, ZoneKind,
    platform::{CompactPriority, Compacted},
};

use crate::{
    BASE, PAGEBLOCKS,
    house::House,
    in_house, in_house_of,
    rules::{HUGE, fill, thin_out, unclaim},
    with_compactor,
};

/// What was tried in vain counts, too: an eighth of what moves.
#[test]
fn by_index_a_request_tries_only_so_much() {
    in_house(&[("compact.frames", "64")], 3, |house| {
        fill(house);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(house, pageblock, 400));
        house.memory.drain_all();
        house.pages.borrow_mut().values_mut().for_each(|page| page.claimed = true);
        let (result, _) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Contended);
        assert!((1..=8 * 64).contains(&house.asked.get()), "{} frames", house.asked.get());
        unclaim(house);
    });
}

/// After a search in vain a request looks at a piece only, until something can be emptied.
#[test]
fn by_index_a_search_in_vain_is_not_repeated_at_once() {
    in_house(&[("compact.headers", "8")], 4, |house| {
        fill(house);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(house, pageblock, 400));
        house.memory.drain_all();
        let claim_all = |claimed| {
            house.pages.borrow_mut().values_mut().for_each(|page| page.claimed = claimed);
        };
        claim_all(true);
        let examined = || {
            let before = house.memory.compact_stats();
            let (result, block) =
                with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
            if let Some(block) = block {
                house.memory.free_bypassing_lists(block).unwrap();
            }
            let after = house.memory.compact_stats();
            (result, after.compact_headers - before.compact_headers)
        };
        let headers: Vec<_> = (0..40).map(|_| examined().1).collect();
        assert!(
            headers[0] >= PAGEBLOCKS && headers[20..].iter().sum::<u64>() < 20 * 40,
            "{headers:?}"
        );
        claim_all(false);
        let formed = (0..200).any(|_| examined().0 == Compacted::Success);
        assert!(formed, "it looks again");
        house.check();
    });
}

/// Asks for a huge page without waiting until a search in vain is cut short.
fn search_in_vain(house: &House<'_, '_>) {
    let mut short = 0;
    for _ in 0..2000 {
        let before = house.memory.compact_stats().compact_headers;
        let (result, _) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_ne!(result, Compacted::Success);
        let headers = house.memory.compact_stats().compact_headers - before;
        short = if headers <= 8 { short + 1 } else { 0 };
        if short == 5 {
            return;
        }
    }
    panic!("it never gives up");
}

/// All pages but those of the last pageblocks of memory are claimed, and leave room in theirs.
fn claim_all_but(house: &House<'_, '_>, pageblocks: u64, last: u64) {
    fill(house);
    (0..pageblocks - last).for_each(|pageblock| thin_out(house, pageblock, 380));
    house.memory.drain_all();
    let end = BASE + (pageblocks - last) * 512;
    house.pages.borrow_mut().range_mut(..end).for_each(|(_, page)| page.claimed = true);
}

/// Frees pages here and there in a pageblock, which is the last one then that is looked at: it holds
/// no free block of several frames.
fn scatter_last(house: &House<'_, '_>, pageblock: u64) {
    let start = BASE + pageblock * 512;
    (0..140).for_each(|nth| house.free(start + 3 * nth));
    house.memory.drain_all();
}

/// However large memory is, and wherever the search goes on.
#[test]
fn by_index_a_pageblock_that_has_become_empty_is_seen_at_once_after_a_search_in_vain() {
    const MANY: u64 = 128;
    in_house_of(MANY, &[("compact.headers", "8")], 4, |house| {
        claim_all_but(house, MANY, 1);
        search_in_vain(house);
        thin_out(house, MANY - 1, 10);
        house.memory.drain_all();
        let formed = [(); 2].map(|()| {
            let (result, block) =
                with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
            block.into_iter().for_each(|block| house.memory.free_bypassing_lists(block).unwrap());
            result
        });
        assert!(formed.contains(&Compacted::Success), "{formed:?}");
        unclaim(house);
    });
}

#[test]
fn by_index_the_background_looks_at_everything_after_a_search_in_vain() {
    const MANY: u64 = 128;
    let set = [("compact.headers", "8"), ("compact.proactiveness", "100")];
    for proactive in [false, true] {
        in_house_of(MANY, &set, 4, |house| {
            claim_all_but(house, MANY, 1);
            search_in_vain(house);
            scatter_last(house, MANY - 1);
            let node = NodeId::new(0).unwrap();
            with_compactor(house, 512, |c| match proactive {
                true => _ = c.proactive(node),
                false => _ = c.background(node, Order::PAGEBLOCK, ZoneKind::Movable),
            });
            let stats = house.memory.compact_stats();
            assert_eq!(stats.compact_emptied, 1, "proactive: {proactive}");
            unclaim(house);
        });
    }
}

/// A search for a larger block in vain says nothing of single pageblocks.
#[test]
fn by_index_searches_for_runs_and_for_single_pageblocks_do_not_meddle() {
    for searches in 1..20 {
        in_house(&[("compact.headers", "4")], 4, |house| {
            fill(house);
            // Of each two pageblocks one is full: whoever looks for one does not meet it.
            (0..PAGEBLOCKS).step_by(2).for_each(|pageblock| thin_out(house, pageblock, 380));
            scatter_last(house, PAGEBLOCKS - 1);
            let last = BASE + (PAGEBLOCKS - 1) * 512;
            house.pages.borrow_mut().range_mut(..last).for_each(|(_, page)| page.claimed = true);
            let pair = Request::new(Order::new(10).unwrap(), MigrateType::Movable);
            let form =
                |request| with_compactor(house, 512, |c| c.form(request, CompactPriority::Async));
            for _ in 0..searches {
                assert_ne!(form(pair).0, Compacted::Success);
            }
            let (result, block) = form(HUGE);
            assert_eq!(result, Compacted::Success, "after {searches} searches");
            house.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            unclaim(house);
        });
    }
}

/// Each pageblock is as full as any other.
#[test]
fn by_index_memory_that_is_evenly_scattered_is_compacted() {
    in_house(&[], 2, |house| {
        fill(house);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(house, pageblock, 400));
        house.memory.drain_all();
        house.fuller_only.set(true);
        let (result, block) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_eq!(result, Compacted::Success);
        house.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
        house.check();
    });
}
