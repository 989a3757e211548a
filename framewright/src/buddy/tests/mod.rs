use std::{boxed::Box, vec::Vec};

use super::*;
use crate::{tuning::BulkTake, types::Refusal};

#[cfg(feature = "compare")]
mod bulk;
mod emptying;
mod highatomic;
mod large;
mod model;
mod random;
mod ranges;
mod refused;
mod sources;

/// A buddy over `pageblocks` pageblocks of free movable frames.
fn buddy(pageblocks: usize) -> Buddy<'static> {
    let blocks = (0..pageblocks).map(|_| Pageblock::empty()).collect::<Vec<_>>();
    let movable = MigrateType::Movable as u8;
    let types = (0..pageblocks).map(|_| AtomicU8::new(movable)).collect::<Vec<_>>();
    let ranges = Vec::from([[0, pageblocks as u32 * FRAMES]]);
    over(blocks, types, ranges)
}

fn over(blocks: Vec<Pageblock>, types: Vec<AtomicU8>, ranges: Vec<[u32; 2]>) -> Buddy<'static> {
    at(Pfn::new(0), blocks, types, ranges)
}

/// A buddy with its first pageblock at `base`.
fn at(
    base: Pfn,
    blocks: Vec<Pageblock>,
    types: Vec<AtomicU8>,
    ranges: Vec<[u32; 2]>,
) -> Buddy<'static> {
    let sets = std::vec![0; Buddy::set_words(base, blocks.len())].leak();
    let gigablocks = (0..Buddy::gigablocks(base, blocks.len())).map(|_| Gigablock::empty());
    let gigablocks = Box::leak(gigablocks.collect::<Vec<_>>().into_boxed_slice());
    let heads = blocks.iter().map(|_| Heads::none()).collect::<Vec<_>>();
    let blocks = Box::leak(blocks.into_boxed_slice());
    let present = PresentFrames::new(ranges.leak(), &[]);
    let mut buddy = Buddy::new(base, blocks, gigablocks, types.leak(), present, sets, heads.leak());
    buddy.add_present();
    buddy
}

fn order(value: u8) -> Order {
    Order::new(value).unwrap()
}

fn want(order: u8, migratetype: MigrateType, blocks: u32) -> Want {
    let reserve = Reserve::None;
    let how = BulkTake::default();
    let order = self::order(order);
    Want { order, migratetype, blocks, at_most: blocks, visits: 64, reserve, how, unmixed: false }
}

/// Checks headers, lists and counters; not under Miri, where the check takes minutes and finds
/// nothing more.
fn check(buddy: &Buddy<'_>) {
    if !cfg!(miri) {
        buddy.check().unwrap();
    }
}

fn take(buddy: &mut Buddy<'_>, want: Want) -> (Vec<u32>, Option<Fallback>) {
    let mut out = Bundles::new();
    let fallback = buddy.take_bundles(want, &mut out, ());
    check(buddy);
    (out.as_slice().iter().flat_map(|bundle| bundle.frames()).collect(), fallback)
}

fn give(buddy: &mut Buddy<'_>, frame: u32, order: u8) -> Refusals {
    let refusals = buddy.give_bundles(&[Bundle::of(frame, self::order(order))], ());
    check(buddy);
    refusals
}

const MOVABLE: MigrateType = MigrateType::Movable;

#[test]
fn every_order_is_taken_aligned_and_merges_back() {
    for value in 0..=9 {
        let mut buddy = buddy(2);
        let (frames, _) = take(&mut buddy, want(value, MOVABLE, 1));
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0] % (1 << value), 0);
        assert_eq!(buddy.free_frames(), 1024 - (1 << value));
        assert_eq!(give(&mut buddy, frames[0], value), Refusals::default());
        assert_eq!(buddy.counts().free_of_order(order(10)), 1, "order {value}");
    }
}

/// A refill that fails after its first block was used gives back a batch with an empty bundle.
#[test]
fn a_bundle_without_blocks_frees_nothing() {
    let mut buddy = buddy(1);
    buddy.heads = &[];
    let (frames, _) = take(&mut buddy, want(0, MOVABLE, 3));
    let refusals = buddy.give_bundles(&[Bundle { word: 0, heads: 0, order: order(0) }], ());
    assert_eq!(refusals, Refusals::default());
    check(&buddy);
    for frame in frames {
        give(&mut buddy, frame, 0);
    }
    check(&buddy);
}

#[test]
fn a_batch_comes_in_ascending_order_from_one_pageblock() {
    let mut buddy = buddy(4);
    let (frames, _) = take(&mut buddy, want(0, MOVABLE, 63));
    assert_eq!(frames, (frames[0]..frames[0] + 63).collect::<Vec<_>>());
    let (next, _) = take(&mut buddy, want(0, MOVABLE, 10));
    assert_eq!(next[0], frames[62] + 1, "the pageblock begun was not used up first");
}

#[test]
fn a_word_nearly_used_up_is_taken_whole() {
    let mut buddy = buddy(1);
    let mut wanted = want(0, MOVABLE, 63);
    wanted.at_most = 100;
    assert_eq!(take(&mut buddy, wanted).0.len(), 64);
}

#[test]
fn small_blocks_do_not_break_large_ones() {
    let mut buddy = buddy(2);
    let (first, _) = take(&mut buddy, want(3, MOVABLE, 1));
    let (second, _) = take(&mut buddy, want(3, MOVABLE, 1));
    assert_eq!(second[0], first[0] + 8, "the smallest block that fits was not used");
    assert_eq!(buddy.counts().free_of_order(order(9)), 1);
}

#[test]
fn an_empty_pageblock_is_touched_last() {
    let mut buddy = buddy(8);
    let (begun, _) = take(&mut buddy, want(0, MOVABLE, 1));
    for _ in 0..50 {
        let (frames, _) = take(&mut buddy, want(2, MOVABLE, 1));
        assert_eq!(frames[0] / 512, begun[0] / 512);
    }
}

#[test]
fn another_type_claims_a_whole_pageblock() {
    let mut buddy = buddy(2);
    let (_, fallback) = take(&mut buddy, want(0, MigrateType::Unmovable, 1));
    let fallback = fallback.unwrap();
    assert!(fallback.claimed);
    assert_eq!((fallback.from, fallback.found_order), (MOVABLE, order(9)));
    assert_eq!(buddy.counts().pageblocks, [1, 1, 0, 0, 0]);
}

#[test]
fn a_half_free_pageblock_is_claimed_and_a_fuller_one_is_stolen_from() {
    for (used, claimed) in [(256, true), (257, false)] {
        let mut buddy = buddy(1);
        take(&mut buddy, want(0, MOVABLE, used));
        let (frames, fallback) = take(&mut buddy, want(0, MigrateType::Unmovable, 1));
        assert_eq!(frames.len(), 1);
        assert_eq!(fallback.unwrap().claimed, claimed, "{used} frames in use");
        let of = if claimed { MigrateType::Unmovable } else { MOVABLE };
        assert_eq!(buddy.type_of(0), of);
    }
}

#[test]
fn frames_of_the_wanted_type_count_for_a_claim() {
    // 60 unmovable frames were stolen. A claim needs 256 frames that are free or unmovable.
    for (given, claimed) in [(44, true), (43, false)] {
        let mut buddy = buddy(1);
        let (movable, _) = take(&mut buddy, want(0, MOVABLE, 300));
        let (_, stolen) = take(&mut buddy, want(0, MigrateType::Unmovable, 60));
        assert!(!stolen.unwrap().claimed);
        movable[..given].iter().for_each(|&frame| assert_eq!(give(&mut buddy, frame, 0).count, 0));
        let (_, fallback) = take(&mut buddy, want(0, MigrateType::Unmovable, 1));
        assert_eq!(fallback.unwrap().claimed, claimed, "{given} movable frames were freed");
    }
}

#[test]
fn movable_requests_do_not_claim_for_small_blocks() {
    let mut buddy = buddy(1);
    buddy.change_type(0, MigrateType::Unmovable, ());
    // Half of the frames are free, enough to claim the pageblock, but no block is of order 4.
    for frame in 0..512 {
        assert!(buddy.take_specific(frame, order(0), MigrateType::Unmovable));
    }
    for frame in (0..512).step_by(2) {
        give(&mut buddy, frame, 0);
    }
    let (_, fallback) = take(&mut buddy, want(0, MOVABLE, 1));
    assert!(!fallback.unwrap().claimed);
}

#[test]
fn fallback_prefers_reclaimable_over_movable_for_unmovable() {
    let mut buddy = buddy(2);
    buddy.change_type(0, MigrateType::Reclaimable, ());
    let (_, fallback) = take(&mut buddy, want(0, MigrateType::Unmovable, 1));
    assert_eq!(fallback.unwrap().from, MigrateType::Reclaimable);
}

#[test]
fn isolated_frames_are_neither_counted_nor_taken() {
    let mut buddy = buddy(2);
    let (frames, _) = take(&mut buddy, want(0, MOVABLE, 1));
    let index = frames[0] / 512;
    buddy.isolate(index).unwrap();
    assert_eq!(buddy.isolate(index), Err(IsolationRefused::AlreadyIsolated));
    assert_eq!(buddy.free_frames(), 512);
    give(&mut buddy, frames[0], 0);
    assert_eq!(
        buddy.free_frames(),
        512,
        "a frame freed in an isolated pageblock is counted as free"
    );
    let (others, _) = take(&mut buddy, want(0, MOVABLE, 600));
    assert!(others.iter().all(|frame| frame / 512 != index));
    buddy.undo_isolate(index);
    check(&buddy);
    assert_eq!(buddy.type_of(index), MOVABLE);
}

#[test]
fn unmovable_frames_forbid_isolation() {
    let mut buddy = buddy(1);
    take(&mut buddy, want(0, MigrateType::Unmovable, 3));
    assert_eq!(buddy.isolate(0), Err(IsolationRefused::Unmovable(3)));
}

#[test]
fn a_specific_block_is_taken_or_refused_whole() {
    for value in 0..=9 {
        let mut buddy = buddy(2);
        let frame = 512 + (512 - (1 << value));
        assert!(buddy.take_specific(frame, order(value), MOVABLE));
        assert!(!buddy.take_specific(frame, order(value), MOVABLE));
        check(&buddy);
        assert_eq!(give(&mut buddy, frame, value), Refusals::default());
        buddy.take_specific(frame, order(0), MOVABLE);
        assert!(!buddy.take_specific(512, order(9), MOVABLE));
        check(&buddy);
    }
    assert!(!buddy(1).take_specific(512, order(0), MOVABLE), "a block outside the zone was taken");
}

#[test]
fn a_merge_is_captured_when_it_completes_the_order() {
    let mut buddy = buddy(1);
    for frame in 0..4 {
        assert!(buddy.take_specific(frame, order(0), MOVABLE));
    }
    let mut capture = Capture { order: order(2), migratetype: MOVABLE, taken: None };
    for frame in [1, 3, 0] {
        assert_eq!(buddy.give_or_capture(frame, order(0), &mut capture).count, 0);
        assert_eq!(capture.taken, None);
    }
    buddy.give_or_capture(2, order(0), &mut capture);
    assert_eq!(capture.taken, Some(0));
    assert_eq!(buddy.free_frames(), 508);
    check(&buddy);
    assert_eq!(
        give(&mut buddy, 0, 2),
        Refusals::default(),
        "the free of an allocated block was refused"
    );
}

#[test]
fn frames_freed_in_an_isolated_pageblock_count_as_its_kind() {
    let mut buddy = buddy(1);
    // More than half of the pageblock, so that it is not claimed but stolen from.
    let (frames, _) = take(&mut buddy, want(0, MOVABLE, 300));
    let (other, _) = take(&mut buddy, want(0, MigrateType::Unmovable, 1));
    assert_eq!((frames.len(), other.len()), (300, 1));
    buddy.isolate_any(0).unwrap();
    frames.iter().for_each(|&frame| assert_eq!(give(&mut buddy, frame, 0).count, 0));
    let held = buddy.contents(0);
    assert_eq!((held.movable, held.unmovable), (0, 1), "the unmovable frame is not counted");
}

#[test]
fn a_checkerboard_refill_visits_few_pageblocks() {
    let pageblocks = if cfg!(miri) { 8 } else { 64 };
    let mut buddy = buddy(pageblocks);
    for frame in (0..pageblocks as u32 * 512).step_by(2) {
        assert!(buddy.take_specific(frame, order(0), MOVABLE));
    }
    let (frames, _) = take(&mut buddy, want(0, MOVABLE, 63));
    let mut pageblocks: Vec<u32> = frames.iter().map(|frame| frame / 512).collect();
    pageblocks.dedup();
    assert_eq!(frames.len(), 63);
    assert!(pageblocks.len() <= 4, "{pageblocks:?}");
}

#[test]
fn holes_are_never_handed_out() {
    let blocks = (0..2).map(|_| Pageblock::empty()).collect::<Vec<_>>();
    let types = (0..2).map(|_| AtomicU8::new(1)).collect::<Vec<_>>();
    let ranges = Vec::from([[10, 100], [600, 700]]);
    let mut buddy = over(blocks, types, ranges);
    check(&buddy);
    let mut all = Vec::new();
    loop {
        let (frames, _) = take(&mut buddy, want(0, MOVABLE, 50));
        if frames.is_empty() {
            break;
        }
        all.extend(frames);
    }
    all.sort_unstable();
    assert_eq!(all, (10..100).chain(600..700).collect::<Vec<_>>());
    assert_eq!(give(&mut buddy, 5, 0).count, 1, "the free of a hole was not refused");
    for frame in all {
        assert_eq!(give(&mut buddy, frame, 0).count, 0, "the free of frame {frame} was refused");
    }
}
