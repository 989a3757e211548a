//! By index, room is looked for before pages are asked for.

use framewright::{
    MigrateType, NodeId, Order,
    platform::{CompactPriority, Compacted},
};

use crate::{
    PAGEBLOCKS,
    house::House,
    in_house, in_house_of,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor,
};

/// What lies on the lists of a CPU may be room: it is fetched before pages are asked for.
#[test]
fn by_index_what_cpus_hold_is_fetched_before_pages_are_asked_for_in_vain() {
    for (fetched, asked) in [(1, 0), (200, 200)] {
        in_house(&[], 1, |house| {
            fill(house);
            make_unmovable(house, 3);
            thin_out(house, 20, 200);
            house.memory.drain_all();
            thin_out(house, 9, 512 - fetched);
            assert!(house.memory.held_by_cpus() > 0, "the index does not see all of it");
            let (result, block) =
                with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
            assert_eq!(result == Compacted::Success, asked > 0, "{result:?}");
            assert_eq!(house.asked.get(), asked, "{fetched} frames more are room for 200");
            house.check_but(Order::PAGEBLOCK, block.as_ref());
            if let Some(block) = block {
                house.memory.free_bypassing_lists(block).unwrap();
            }
        });
    }
}

/// Where the emptiest pageblock has nowhere to go, nothing fuller is looked for.
#[test]
fn by_index_the_emptiest_pageblock_tells_that_there_is_no_room() {
    in_house(&[], 1, |house| {
        fill(house);
        make_unmovable(house, 3);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(house, pageblock, 511));
        thin_out(house, 20, 40);
        house.memory.drain_all();
        let before = house.memory.compact_stats().compact_headers;
        let (result, _) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Complete);
        let headers = house.memory.compact_stats().compact_headers - before;
        assert!(headers < 3 * PAGEBLOCKS, "{headers}: a search, and a look for room");
        house.check();
    });
}

/// A pageblock that is nearly free, and no room for what moves.
fn make_unmovable(house: &House<'_, '_>, pageblock: u64) {
    thin_out(house, pageblock, 0);
    house.memory.drain_all();
    assert!(house.alloc(0, MigrateType::Unmovable, true).is_some());
}

/// Where something fuller has nowhere to go, what is emptier and was not tried is not forgotten.
#[test]
fn by_index_a_fuller_pageblock_tells_nothing_of_emptier_ones() {
    const PINNED: u64 = 16;
    const MOVABLE: u64 = 48;
    let set = [("compact.proactiveness", "100")];
    in_house_of(PINNED + MOVABLE + 16, &set, 1, |house| {
        fill(house);
        for pageblock in 0..PINNED + MOVABLE {
            thin_out(house, pageblock, if pageblock < PINNED { 50 } else { 60 });
        }
        (PINNED + MOVABLE..PINNED + MOVABLE + 16).for_each(|at| thin_out(house, at, 500));
        house.memory.drain_all();
        (0..PINNED).for_each(|pageblock| pin_first(house, pageblock));
        // It goes round once: who leaves nothing out would begin anew.
        with_compactor(house, 512, |c| c.proactive(NodeId::default()));
        let emptied = house.memory.compact_stats().compact_emptied;
        assert!(emptied > MOVABLE / 2, "{emptied} of {MOVABLE}");
        house.check();
    });
}
