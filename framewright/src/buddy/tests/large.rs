//! Blocks of orders above 9.

use super::*;

/// A buddy that begins `below` pageblocks before a 1 GiB boundary, and has `above` pageblocks after
/// that boundary.
fn skewed(below: u32, above: u32) -> Buddy<'static> {
    let count = (below + above) as usize;
    let base = Pfn::new(u64::from(512 - below) * 512 + 7 * Order::MAX.frames());
    let blocks = (0..count).map(|_| Pageblock::empty()).collect();
    let types = (0..count).map(|_| AtomicU8::new(MOVABLE as u8)).collect();
    at(base, blocks, types, Vec::from([[0, count as u32 * 512]]))
}

#[test]
fn every_large_order_is_taken_aligned_and_merges_back() {
    for value in 9..=18 {
        let mut buddy = skewed(30, 512);
        let (frames, fallback) = take(&mut buddy, want(value, MOVABLE, 1));
        assert_eq!((frames.len(), fallback), (1, None), "order {value}");
        let physical = frames[0] + (512 - 30) * 512;
        assert_eq!(physical % (1 << value), 0, "order {value}");
        assert_eq!(buddy.free_frames(), 542 * 512 - (1 << value));
        assert_eq!(give(&mut buddy, frames[0], value), Refusals::default());
        let counts = buddy.counts();
        let blocks: Vec<u64> = (9..=18).map(|k| counts.free_of_order(order(k))).collect();
        assert_eq!(blocks, [0, 1, 1, 1, 1, 0, 0, 0, 0, 1], "order {value}");
    }
}

#[test]
fn the_smallest_sufficient_block_is_used() {
    let mut buddy = skewed(30, 512);
    for (value, first) in [(13, 14), (12, 6), (11, 2), (10, 0), (17, 30), (10, 30 + 256)] {
        let (frames, _) = take(&mut buddy, want(value, MOVABLE, 1));
        assert_eq!(frames, [first * 512], "order {value}");
    }
    assert_eq!(buddy.classes().largest(), Some(order(16)));
    assert!(take(&mut buddy, want(17, MOVABLE, 1)).0.is_empty());
}

#[test]
fn a_batch_of_large_blocks_is_as_many_as_there_are() {
    let mut buddy = buddy(512 + 70);
    let (frames, _) = take(&mut buddy, want(14, MOVABLE, 20));
    assert_eq!(frames.len(), 18);
    assert_eq!(buddy.classes().largest(), Some(order(11)));
}

#[test]
fn classes_report_the_free_orders() {
    let mut buddy = buddy(512);
    for value in (0..18).rev() {
        assert!(buddy.classes().offer(order(value + 1)));
        let (frames, _) = take(&mut buddy, want(value, MOVABLE, 1));
        assert_eq!(frames.len(), 1);
        assert_eq!(buddy.classes().largest(), Some(order(value)));
        assert!(!buddy.classes().offer(order(value + 1)) && buddy.classes().offer(order(value)));
    }
}

#[test]
fn a_large_block_takes_the_type_of_its_owner() {
    let mut buddy = buddy(64);
    buddy.change_type(3, MigrateType::Reclaimable, ());
    buddy.change_type(0, MigrateType::Unmovable, ());
    check(&buddy);
    let (frames, fallback) = take(&mut buddy, want(12, MOVABLE, 1));
    let fallback = fallback.unwrap();
    assert_eq!((frames[0], fallback.pageblock, fallback.claimed), (0, 0, true));
    assert_eq!((fallback.from, fallback.found_order), (MigrateType::Unmovable, order(15)));
    assert!((0..64).all(|index| buddy.type_of(index) == MOVABLE));
    assert_eq!(give(&mut buddy, 0, 12).count, 0);
    assert_eq!(buddy.counts().free[MOVABLE as usize][15], 1);
}

#[test]
fn types_that_must_not_mix_stay_apart() {
    let mut buddy = buddy(64);
    buddy.change_type(5, MigrateType::HighAtomic, ());
    buddy.isolate(40).unwrap();
    check(&buddy);
    assert_eq!(buddy.classes().largest(), Some(order(13)));
    assert!(!buddy.take_specific(0, order(12), MOVABLE));
    assert!(buddy.take_specific(8 * 512, order(12), MOVABLE));
    assert_eq!(give(&mut buddy, 8 * 512, 12).count, 0);
    buddy.undo_isolate(40);
    check(&buddy);
    assert_eq!(buddy.classes().largest(), Some(order(14)));
}

#[test]
fn bad_frees_of_large_blocks_are_refused() {
    let mut buddy = buddy(128);
    let (blocks, _) = take(&mut buddy, want(12, MOVABLE, 1));
    let block = blocks[0];
    let free = buddy.free_frames();
    for (frame, value, why) in [
        (block, 11, Refusal::WrongOrder),
        (block, 13, Refusal::WrongOrder),
        (block, 9, Refusal::WrongOrder),
        (block, 0, Refusal::WrongOrder),
        (block + 512, 9, Refusal::NotAllocated),
        (block + 1024, 10, Refusal::NotAllocated),
        (block + 512, 0, Refusal::NotAllocated),
        (block + 64, 6, Refusal::NotAllocated),
        (block + 8 * 512, 12, Refusal::AlreadyFree),
    ] {
        let refusals = give(&mut buddy, frame, value);
        assert_eq!(refusals.first.map(|(_, _, why)| why), Some(why), "{frame} order {value}");
        assert_eq!((buddy.free_frames(), refusals.frames), (free, 1 << value));
    }
    assert_eq!(give(&mut buddy, block, 12).count, 0);
    assert_eq!(give(&mut buddy, block, 12).first.map(|first| first.2), Some(Refusal::AlreadyFree));
}

#[test]
fn a_split_large_block_is_freed_in_parts() {
    let mut buddy = buddy(64);
    let (blocks, _) = take(&mut buddy, want(12, MOVABLE, 1));
    let block = blocks[0];
    for half in (8..12).rev() {
        buddy.split_head(block, order(half));
        check(&buddy);
    }
    assert_eq!(give(&mut buddy, block, 12).count, 1);
    for value in [11, 10, 9, 8] {
        assert_eq!(give(&mut buddy, block + (1 << value), value).count, 0);
    }
    assert_eq!(give(&mut buddy, block, 8).count, 0);
    assert_eq!(buddy.counts().free_of_order(order(15)), 1);
}

#[test]
fn a_pageblock_is_isolated_inside_an_allocated_large_block() {
    let mut buddy = buddy(64);
    let (blocks, _) = take(&mut buddy, want(13, MOVABLE, 1));
    let index = blocks[0] / 512 + 5;
    buddy.isolate(index).unwrap();
    check(&buddy);
    assert_eq!(give(&mut buddy, blocks[0], 13).count, 0);
    assert_eq!(buddy.free_frames(), 63 * 512, "one pageblock is isolated");
    assert!(!buddy.take_specific(blocks[0], order(13), MOVABLE));
    buddy.undo_isolate(index);
    assert_eq!(buddy.counts().free_of_order(order(15)), 1);

    let (blocks, _) = take(&mut buddy, want(13, MOVABLE, 1));
    buddy.isolate(index).unwrap();
    buddy.undo_isolate(index);
    assert_eq!(give(&mut buddy, blocks[0], 13).count, 0);
    assert_eq!(buddy.counts().free_of_order(order(15)), 1);

    let (blocks, _) = take(&mut buddy, want(13, MigrateType::Unmovable, 1));
    let inside = blocks[0] / 512 + 1;
    assert_eq!(buddy.isolate(inside), Err(IsolationRefused::Unmovable(512)));
}

#[test]
fn a_large_merge_is_captured() {
    let mut buddy = skewed(30, 512);
    let (pageblocks, _) = take(&mut buddy, want(9, MOVABLE, 40));
    // `pageblocks[2]` and `pageblocks[3]` are the second block of order 10 of this zone.
    let mut capture = Capture { order: order(10), migratetype: MOVABLE, taken: None };
    assert_eq!(buddy.give_or_capture(pageblocks[3], order(9), &mut capture).count, 0);
    assert_eq!(capture.taken, None);
    assert_eq!(buddy.give_or_capture(pageblocks[2], order(9), &mut capture).count, 0);
    assert_eq!(capture.taken, Some(pageblocks[2]));
    check(&buddy);
    assert_eq!(give(&mut buddy, pageblocks[2], 10).count, 0);
    let mut capture = Capture { order: order(18), migratetype: MOVABLE, taken: None };
    assert_eq!(buddy.give_or_capture(pageblocks[0], order(9), &mut capture).count, 0);
    assert_eq!(capture.taken, None, "the gigablock begins in front of the zone");
}

#[test]
fn pageblocks_of_a_batch_come_back_together_or_alone() {
    let mut buddy = skewed(70, 512);
    let (mut frames, _) = take(&mut buddy, want(9, MOVABLE, 64));
    assert_eq!(frames.len(), 64);
    buddy.isolate(frames[10] / 512).unwrap();
    // The bundles are not in ascending order. One of them is there twice, and one has the wrong
    // order.
    frames.reverse();
    frames.swap(3, 40);
    let mut bundles: Vec<_> = frames.iter().map(|&frame| Bundle::of(frame, order(9))).collect();
    bundles.insert(7, bundles[6]);
    bundles.insert(20, Bundle::of(frames[30], order(10)));
    let refusals = buddy.give_bundles(&bundles, ());
    assert_eq!(refusals.count, 2);
    check(&buddy);
    assert_eq!(buddy.free_frames(), (582 - 1) * 512);
}

#[test]
fn blocks_are_counted_as_large_as_they_are() {
    let counts = buddy(512 + 4 + 1).counts();
    let free: Vec<u64> = Order::all().map(|order| counts.free_of_order(order)).collect();
    assert_eq!(free[..9], [0; 9]);
    assert_eq!(free[9..], [1, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(counts.yields(order(9)), 517);
    assert_eq!(counts.largest(), Some(Order::MAX));
}

#[test]
fn blocks_counted_in_pieces_are_those_of_the_whole() {
    let mut buddy = buddy(3 * 512 + 100);
    for (start, end) in [(100, 1000), (300_000, 300_001), (512 * 600, 512 * 700)] {
        assert!(buddy.take_range(start, end, MOVABLE));
    }
    let whole = buddy.counts();
    assert_eq!(whole.free_frames(), buddy.free_frames());
    for step in [1, 4, 511, 2000] {
        let mut pieces = BlockCounts::default();
        for start in (0..3 * 512 + 100).step_by(step as usize) {
            buddy.add_counts(start..(start + step).min(3 * 512 + 100), &mut pieces);
        }
        assert_eq!(pieces, whole, "{step} at a time");
    }
}
