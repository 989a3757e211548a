//! The blocks that a batch takes, compared with the methods *one by one* and *smallest first*.

use super::*;

#[test]
fn one_by_one_takes_the_same_blocks_as_bulk_from_one_word() {
    let taken = |how| {
        let mut buddy = buddy(4);
        for frame in (512..1024).step_by(3) {
            assert!(buddy.take_specific(frame, order(0), MOVABLE));
        }
        let mut out = Bundles::new();
        let want = Want { how, ..want(0, MOVABLE, 31) };
        buddy.take_bundles(want, &mut out, ());
        check(&buddy);
        (out.as_slice().to_vec(), buddy.free_frames())
    };
    let (bundles, free) = taken(BulkTake::OneByOne);
    assert_eq!((bundles.clone(), free), taken(BulkTake::Bulk));
    assert_eq!(bundles.len(), 1, "the adjacent blocks are not in one bundle: {bundles:?}");
}

#[test]
fn a_batch_breaks_no_free_pageblock_for_its_last_frames() {
    let mut buddy = buddy(4);
    (100..512).for_each(|frame| assert!(buddy.take_specific(frame, order(0), MOVABLE)));
    let mut taken = |blocks| take(&mut buddy, want(0, MOVABLE, blocks)).0.len();
    assert_eq!(taken(200), 100, "it has some frames");
    assert_eq!(taken(200), 200, "it has none");
    assert_eq!(taken(312 + 512 + 255), 312 + 512, "it needs less than half of the last one");
    assert_eq!(taken(256), 256);
}

#[cfg(feature = "compare")]
#[test]
fn a_batch_breaks_a_free_pageblock_if_the_setting_says_so() {
    let mut buddy = buddy(2);
    buddy.set_rest_breaks_pageblock(true);
    (100..512).for_each(|frame| assert!(buddy.take_specific(frame, order(0), MOVABLE)));
    assert_eq!(take(&mut buddy, want(0, MOVABLE, 200)).0.len(), 200);
}

#[test]
fn one_by_one_ends_where_bulk_ends() {
    let how = BulkTake::OneByOne;
    for (order, blocks) in [(0, 200), (3, 80), (8, 9), (9, 5), (10, 3)] {
        let mut buddy = buddy(4);
        let (frames, fallback) = take(&mut buddy, Want { how, ..want(order, MOVABLE, blocks) });
        assert_eq!(frames.len() as u32, blocks.min(2048 >> order), "order {order}");
        assert_eq!(fallback, None);
    }
    // A pageblock that was claimed for the first block serves the others.
    let mut claiming = buddy(1);
    let want = Want { how, ..want(0, MigrateType::Unmovable, 10) };
    let (frames, fallback) = take(&mut claiming, want);
    assert_eq!((frames.len(), fallback.map(|fallback| fallback.claimed)), (10, Some(true)));
}

/// A free block of order 0 is taken before a part of a larger block, even if its pageblock is
/// nearly free.
#[test]
fn the_smallest_block_goes_first_wherever_it_lies() {
    let how = BulkTake::SmallestFirst;
    let mut buddy = buddy(3);
    // Pageblock 0 is nearly full, and its only free block is of order 4. Pageblock 1 is nearly
    // free, and has single free frames between allocated ones.
    for frame in 0..496 {
        assert!(buddy.take_specific(frame, order(0), MOVABLE));
    }
    for frame in [512, 515, 517, 518] {
        assert!(buddy.take_specific(frame, order(0), MOVABLE));
    }
    let (frames, _) = take(&mut buddy, Want { how, ..want(0, MOVABLE, 4) });
    assert_eq!(frames, [513, 514, 516, 519]);
    let (frames, _) = take(&mut buddy, Want { how, ..want(0, MOVABLE, 10) });
    assert_eq!(frames, [520, 521, 522, 523, 524, 525, 526, 527, 496, 497]);
    // There are two free blocks of order 0. The refill takes the one in the pageblock in which
    // a frame was freed last.
    give(&mut buddy, 0, 0);
    give(&mut buddy, 512, 0);
    let (frames, _) = take(&mut buddy, Want { how, ..want(0, MOVABLE, 1) });
    assert_eq!(frames, [512]);
    for (order, blocks) in [(0, 200), (3, 80), (8, 9), (9, 5), (10, 3)] {
        let mut buddy = self::buddy(4);
        let (frames, fallback) = take(&mut buddy, Want { how, ..want(order, MOVABLE, blocks) });
        assert_eq!(frames.len() as u32, blocks.min(2048 >> order), "order {order}");
        assert_eq!(fallback, None);
    }
}
