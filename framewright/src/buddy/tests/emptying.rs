//! The flag of pageblocks that are to become empty.

use super::*;
use crate::buddy::EMPTYING;

/// Whether a pageblock has the flag.
fn is_emptying(buddy: &Buddy<'_>, index: usize) -> bool {
    let number = buddy.types[index].load(Ordering::Relaxed);
    assert_eq!(number & !EMPTYING, MOVABLE as u8);
    number & EMPTYING != 0
}

/// A buddy with all frames of its pageblocks allocated as single frames.
pub(super) fn full(pageblocks: usize) -> Buddy<'static> {
    let mut buddy = buddy(pageblocks);
    buddy.set_emptying_above(128);
    for frame in 0..pageblocks as u32 * FRAMES {
        assert!(buddy.take_specific(frame, order(0), MOVABLE));
    }
    buddy
}

pub(super) fn free(buddy: &mut Buddy<'_>, frames: impl Iterator<Item = u32>) {
    frames.for_each(|frame| assert_eq!(give(buddy, frame, 0).count, 0));
}

#[test]
fn frees_beyond_the_limit_flag_a_pageblock_until_it_is_wholly_free() {
    let mut buddy = full(2);
    free(&mut buddy, 0..128);
    assert!(!is_emptying(&buddy, 0));
    free(&mut buddy, 128..129);
    assert!(is_emptying(&buddy, 0));
    assert!(!is_emptying(&buddy, 1));
    free(&mut buddy, 129..511);
    assert!(is_emptying(&buddy, 0));
    free(&mut buddy, 511..512);
    assert!(!is_emptying(&buddy, 0), "a wholly free pageblock has the flag");
    check(&buddy);
}

#[test]
fn the_limit_may_be_any_number() {
    for limit in [0, 1, 31, 32, 100, 127, 129, 510] {
        let mut buddy = full(1);
        buddy.set_emptying_above(limit);
        free(&mut buddy, 0..limit);
        assert!(!is_emptying(&buddy, 0), "{limit}");
        free(&mut buddy, limit..limit + 1);
        assert!(is_emptying(&buddy, 0), "{limit}");
    }
}

#[test]
fn a_refill_clears_the_flag_of_a_pageblock_that_it_fills() {
    for (taken, stays) in [(71, true), (72, false)] {
        let mut buddy = full(1);
        free(&mut buddy, (0..400).step_by(2));
        take(&mut buddy, Want { at_most: taken, ..want(0, MOVABLE, taken) });
        assert_eq!(is_emptying(&buddy, 0), stays, "{} frames are free", 200 - taken);
    }
}

/// A loop that frees what it allocates would otherwise never fill the pageblock.
#[test]
fn the_second_refill_in_a_row_clears_the_flag() {
    let mut buddy = full(2);
    // The first pageblock has blocks of order 3, the second has single frames.
    free(&mut buddy, (0..512).filter(|frame| frame % 16 < 8).chain((512..1024).step_by(2)));
    let mut refill = |of_order| {
        take(&mut buddy, want(of_order, MOVABLE, 4));
        [0, 1].map(|index| is_emptying(&buddy, index))
    };
    for of_order in [3, 0, 3, 0] {
        assert_eq!(refill(of_order), [true, true], "refills from the two in turn");
    }
    assert_eq!(refill(0), [true, false]);
    assert_eq!(refill(3), [true, false]);
    assert_eq!(refill(3), [false, false]);
}

#[cfg(feature = "compare")]
#[test]
fn if_any_refill_clears_the_flag_only_many_frees_set_it_again() {
    let mut buddy = full(1);
    buddy.set_any_refill_ends_emptying(true);
    free(&mut buddy, 0..200);
    assert!(is_emptying(&buddy, 0));
    let (taken, _) = take(&mut buddy, want(0, MOVABLE, 10));
    assert!(!is_emptying(&buddy, 0));
    // All CPUs read the flag, so it must not change with every batch.
    free(&mut buddy, taken.into_iter());
    assert!(!is_emptying(&buddy, 0));
    free(&mut buddy, 200..256);
    assert!(is_emptying(&buddy, 0), "256 free frames, half of the pageblock, did not set the flag");
}

#[test]
fn the_pageblock_that_refills_use_is_the_fullest() {
    let mut buddy = full(3);
    free(&mut buddy, (0..300).chain(512..712).chain(1024..1200));
    let (taken, _) = take(&mut buddy, want(0, MOVABLE, 50));
    assert!(taken.iter().all(|frame| frame / FRAMES == 2), "{taken:?}");
    let flags = [0, 1, 2].map(|index| is_emptying(&buddy, index));
    assert_eq!(flags, [true, true, false]);
}

/// Both pageblocks are less than a quarter free. The emptier one is the first of the two on lists.
#[test]
fn refills_use_a_nearly_full_pageblock_before_one_with_a_hundred_free_frames() {
    let mut buddy = full(2);
    free(&mut buddy, (0..32).step_by(2).chain((512..712).step_by(2)));
    let (taken, _) = take(&mut buddy, want(0, MOVABLE, 1));
    assert_eq!(taken[0] / FRAMES, 0, "{taken:?}");
    // With one free frame more, it is not nearly full: it moves to the list of the other.
    free(&mut buddy, taken.into_iter().chain([32]));
    check(&buddy);
}

#[test]
fn isolation_and_a_change_of_type_clear_the_flag() {
    let mut buddy = full(2);
    free(&mut buddy, (0..200).chain(512..712));
    buddy.isolate(0).unwrap();
    buddy.undo_isolate(0);
    assert!(!is_emptying(&buddy, 0));
    assert!(buddy.set_requestable_type(1, MigrateType::Unmovable));
    assert_eq!(buddy.types[1].load(Ordering::Relaxed), MigrateType::Unmovable as u8);
    check(&buddy);
}

#[test]
fn without_a_limit_no_pageblock_is_flagged() {
    let mut buddy = full(1);
    buddy.set_emptying_above(512);
    free(&mut buddy, 0..511);
    assert!(!is_emptying(&buddy, 0));
}

/// A refill ends after its number of pageblocks, instead of taking from emptier ones.
#[test]
fn a_refill_is_incomplete_rather_than_taken_from_many_pageblocks() {
    let mut buddy = full(20);
    free(&mut buddy, (0..19).map(|index| index * FRAMES));
    free(&mut buddy, 19 * FRAMES..20 * FRAMES);
    let (frames, _) = take(&mut buddy, Want { visits: 16, ..want(0, MOVABLE, 63) });
    assert_eq!(frames.len(), 16);
    assert!(frames.iter().all(|frame| frame % FRAMES == 0), "{frames:?}");
}
