//! Bad frees are refused, and nothing changes.

use super::*;

#[test]
fn bad_frees_are_refused_and_change_nothing() {
    let mut buddy = buddy(2);
    let (blocks, _) = take(&mut buddy, want(3, MOVABLE, 2));
    let block = blocks[0];
    let free = buddy.free_frames();
    for (frame, value, why) in [
        (block, 2, Refusal::WrongOrder),
        (block, 0, Refusal::WrongOrder),
        (block & !15, 4, Refusal::WrongOrder),
        (block + 4, 0, Refusal::NotAllocated),
        (block + 1, 0, Refusal::NotAllocated),
        ((block + 512) % 1024, 0, Refusal::AlreadyFree),
    ] {
        let refusals = give(&mut buddy, frame, value);
        assert_eq!(refusals.first.map(|(_, _, why)| why), Some(why), "{frame} order {value}");
        assert_eq!(buddy.free_frames(), free);
    }
    assert_eq!(give(&mut buddy, block, 3), Refusals::default());
    assert_eq!(give(&mut buddy, block, 3).first.map(|first| first.2), Some(Refusal::AlreadyFree));
}

#[test]
fn large_orders_are_checked_like_small_ones() {
    let mut buddy = buddy(2);
    for value in 6..=9 {
        let (blocks, _) = take(&mut buddy, want(value, MOVABLE, 1));
        let block = blocks[0];
        for wrong in (5..=9).filter(|&wrong| wrong != value && block % (1 << wrong) == 0) {
            assert_eq!(give(&mut buddy, block, wrong).count, 1, "{value} freed as {wrong}");
        }
        assert_eq!(give(&mut buddy, block, value).count, 0);
    }
}

#[test]
fn one_bad_block_of_a_bundle_is_refused_alone() {
    let mut buddy = buddy(1);
    let (frames, _) = take(&mut buddy, want(0, MOVABLE, 8));
    give(&mut buddy, frames[3], 0);
    let bundle = Bundle { word: frames[0] / 64, heads: 0xff, order: order(0) };
    let refusals = buddy.give_bundles(&[bundle], ());
    assert_eq!((refusals.count, buddy.free_frames()), (1, 512));
    check(&buddy);
}
