//! With `compact.method=index`: if pages of a pageblock are in use for longer than a call of
//! compaction, the work of that call is not lost.

use framewright::{
    CpuId,
    platform::{CompactPriority, Compacted},
};

use crate::{
    leaked_owner_with_relief,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor, with_owner,
};

/// The next call only has to move the page that was in use.
#[test]
fn by_index_the_next_request_starts_with_the_partly_emptied_pageblock() {
    let mut emptied_in_part = 0;
    for seed in (1..20u64).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        with_owner(&[], seed, |owner| {
            fill(owner);
            thin_out(owner, 3, 100);
            thin_out(owner, 20, 200);
            owner.memory.drain_all();
            let form = || with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
            pin_first(owner, 3);
            assert_eq!(form().0, Compacted::Complete);
            owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = false);
            if owner.memory.compact_stats().pgmigrate_success > 0 {
                emptied_in_part += 1;
                let (result, block) = form();
                assert_eq!(result, Compacted::Success);
                assert_eq!(owner.memory.compact_stats().pgmigrate_success, 100);
                owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            }
            owner.check();
        });
    }
    assert!(emptied_in_part > 4, "{emptied_in_part}");
}

/// A partly emptied pageblock uses enough of the budget to end the request.
#[test]
fn by_index_a_request_moves_no_more_pages_than_a_pageblock_holds() {
    let mut emptied_in_part = 0;
    for seed in (1..20u64).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        with_owner(&[], seed, |owner| {
            fill(owner);
            for (pageblock, left) in [(3, 300), (20, 310)] {
                thin_out(owner, pageblock, left);
            }
            (9..14).for_each(|pageblock| thin_out(owner, pageblock, 320));
            owner.memory.drain_all();
            pin_first(owner, 3);
            let form = || with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
            let (result, block) = form();
            let moved = owner.memory.compact_stats().pgmigrate_success;
            assert!(moved <= 512, "{moved}");
            if result == Compacted::Contended {
                emptied_in_part += 1;
                owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = false);
                let (result, block) = form();
                assert_eq!(result, Compacted::Success);
                owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
            }
            block.into_iter().for_each(|block| owner.memory.free_bypassing_lists(block).unwrap());
            owner.check();
        });
    }
    assert!(emptied_in_part > 4, "{emptied_in_part}");
}

/// An attempt without waiting for locks and an attempt with waiting share the budget of their
/// request.
#[test]
fn by_index_one_budget_covers_all_attempts_of_a_request() {
    let mut went_without = 0;
    for seed in (1..10u64).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        let owner = leaked_owner_with_relief(&[], seed);
        fill(owner);
        for (pageblock, left) in [(3, 300), (20, 310)] {
            thin_out(owner, pageblock, left);
        }
        (5..15).for_each(|pageblock| thin_out(owner, pageblock, 320));
        owner.memory.drain_all();
        pin_first(owner, 3);
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        let first = token.alloc(HUGE);
        let moved = owner.memory.compact_stats().pgmigrate_success;
        assert!(moved <= 512, "{moved}");
        owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = false);
        if first.is_err() && moved > 0 {
            went_without += 1;
            let block = token.alloc(HUGE).expect("the next request has budget for it");
            token.free(block).unwrap();
        }
        first.into_iter().for_each(|block| token.free(block).unwrap());
        drop(token);
        owner.check();
    }
    assert!(went_without > 2, "{went_without}");
}
