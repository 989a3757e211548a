//! By index, somebody has a page for longer than a call takes: what that call has done is not lost.

use framewright::{
    CpuId,
    platform::{CompactPriority, Compacted},
};

use crate::{
    house_with_relief, in_house,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor,
};

/// What somebody had for a moment is all that is left to move, the next time.
#[test]
fn by_index_what_was_emptied_in_part_is_tried_first_by_the_next_request() {
    let mut emptied_in_part = 0;
    for seed in (1..20u64).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        in_house(&[], seed, |house| {
            fill(house);
            thin_out(house, 3, 100);
            thin_out(house, 20, 200);
            house.memory.drain_all();
            let form = || with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
            pin_first(house, 3);
            assert_eq!(form().0, Compacted::Complete);
            house.pages.borrow_mut().values_mut().for_each(|page| page.pinned = false);
            if house.memory.compact_stats().pgmigrate_success > 0 {
                emptied_in_part += 1;
                let (result, block) = form();
                assert_eq!(result, Compacted::Success);
                assert_eq!(house.memory.compact_stats().pgmigrate_success, 100);
                house.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            }
            house.check();
        });
    }
    assert!(emptied_in_part > 4, "{emptied_in_part}");
}

/// A pageblock that was emptied in part has taken time enough.
#[test]
fn by_index_a_request_waits_for_no_more_pages_than_a_pageblock_holds() {
    let mut emptied_in_part = 0;
    for seed in (1..20u64).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        in_house(&[], seed, |house| {
            fill(house);
            for (pageblock, left) in [(3, 300), (20, 310)] {
                thin_out(house, pageblock, left);
            }
            (9..14).for_each(|pageblock| thin_out(house, pageblock, 320));
            house.memory.drain_all();
            pin_first(house, 3);
            let form = || with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
            let (result, block) = form();
            let moved = house.memory.compact_stats().pgmigrate_success;
            assert!(moved <= 512, "{moved}");
            if result == Compacted::Contended {
                emptied_in_part += 1;
                house.pages.borrow_mut().values_mut().for_each(|page| page.pinned = false);
                let (result, block) = form();
                assert_eq!(result, Compacted::Success);
                house.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            }
            block.into_iter().for_each(|block| house.memory.free_bypassing_lists(block).unwrap());
            house.check();
        });
    }
    assert!(emptied_in_part > 4, "{emptied_in_part}");
}

/// Without waiting for locks, and then with: it is one request.
#[test]
fn by_index_what_a_request_waits_for_is_counted_in_all_its_tries() {
    let mut went_without = 0;
    for seed in (1..10u64).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        let house = house_with_relief(&[], seed);
        fill(house);
        for (pageblock, left) in [(3, 300), (20, 310)] {
            thin_out(house, pageblock, left);
        }
        (5..15).for_each(|pageblock| thin_out(house, pageblock, 320));
        house.memory.drain_all();
        pin_first(house, 3);
        let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
        let first = token.alloc(HUGE);
        let moved = house.memory.compact_stats().pgmigrate_success;
        assert!(moved <= 512, "{moved}");
        house.pages.borrow_mut().values_mut().for_each(|page| page.pinned = false);
        if first.is_err() && moved > 0 {
            went_without += 1;
            let block = token.alloc(HUGE).expect("the next one has enough left");
            token.free(block).unwrap();
        }
        first.into_iter().for_each(|block| token.free(block).unwrap());
        drop(token);
        house.check();
    }
    assert!(went_without > 2, "{went_without}");
}
