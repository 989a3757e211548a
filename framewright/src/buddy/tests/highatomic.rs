//! The high-atomic reserve.

use super::*;

/// A buddy in which a block of order 3 was allocated and its pageblock reserved, and the number of
/// that pageblock.
fn reserved() -> (Buddy<'static>, u32) {
    let mut buddy = buddy(8);
    let (frames, _) = take(&mut buddy, want(3, MOVABLE, 1));
    assert!(buddy.reserve_highatomic(frames[0], order(3), 512));
    check(&buddy);
    (buddy, frames[0] / 512)
}

fn reserving(order: u8, blocks: u32, reserve: Reserve) -> Want {
    Want { reserve, ..want(order, MOVABLE, blocks) }
}

#[test]
fn a_request_without_the_right_takes_no_reserved_frames() {
    let (mut buddy, index) = reserved();
    assert_eq!((buddy.highatomic_reserved(), buddy.highatomic_free()), (512, 504));
    let (frames, _) = take(&mut buddy, want(9, MOVABLE, 64));
    assert_eq!(frames.len(), 7);
    for of in MigrateType::REQUESTABLE {
        assert!(take(&mut buddy, want(0, of, 1)).0.is_empty());
    }
    assert!(!buddy.classes().offer(order(0)));
    assert_eq!(buddy.classes().largest(), Some(order(8)));
    assert!(buddy.classes().offer_reserved(order(8)) && !buddy.classes().offer_reserved(order(9)));
    let (frames, fallback) = take(&mut buddy, reserving(0, 10, Reserve::Last));
    assert_eq!((frames.len(), frames[9] / 512, fallback), (10, index, None));
}

#[test]
fn the_reserve_comes_first_or_last() {
    let (mut buddy, index) = reserved();
    let (frames, _) = take(&mut buddy, reserving(4, 1, Reserve::First));
    assert_eq!(frames[0] / 512, index);
    let (frames, _) = take(&mut buddy, reserving(4, 1, Reserve::Last));
    assert_ne!(frames[0] / 512, index);
    let (frames, _) = take(&mut buddy, reserving(9, 1, Reserve::First));
    assert_ne!(
        frames[0] / 512,
        index,
        "the block is from the reserve, which has none that is large enough"
    );
}

#[test]
fn the_reserve_is_limited_and_goes_back() {
    let (mut buddy, index) = reserved();
    let (frames, _) = take(&mut buddy, want(10, MOVABLE, 1));
    assert!(!buddy.reserve_highatomic(frames[0], order(10), 512), "the limit was exceeded");
    assert!(buddy.reserve_highatomic(frames[0], order(10), 4096));
    assert_eq!(buddy.highatomic_reserved(), 3 * 512);
    assert!(
        !buddy.reserve_highatomic(frames[0], order(10), 4096),
        "a pageblock was reserved twice"
    );
    assert!(buddy.unreserve_highatomic(MigrateType::Unmovable));
    assert_eq!(buddy.type_of(index), MigrateType::Unmovable);
    assert!(!buddy.unreserve_highatomic(MOVABLE), "a pageblock without free frames was released");
    assert_eq!(give(&mut buddy, frames[0], 10).count, 0);
    assert_eq!(buddy.highatomic_free(), 1024);
    assert!(buddy.unreserve_highatomic(MOVABLE) && buddy.unreserve_highatomic(MOVABLE));
    check(&buddy);
    assert_eq!(buddy.highatomic_reserved(), 0);
}

#[test]
fn an_isolated_pageblock_stays_reserved_until_it_is_removed() {
    let (mut buddy, index) = reserved();
    assert_eq!(give(&mut buddy, index * 512, 3).count, 0);
    buddy.isolate(index).unwrap();
    assert!(!buddy.reserve_highatomic(index * 512, order(0), 4096));
    assert_eq!((buddy.highatomic_reserved(), buddy.highatomic_free()), (512, 0));
    buddy.undo_isolate(index);
    check(&buddy);
    assert_eq!(buddy.highatomic_free(), 512);
    buddy.isolate(index).unwrap();
    assert!(buddy.remove_pageblock(index));
    check(&buddy);
    assert_eq!(buddy.highatomic_reserved(), 0);
}

#[test]
fn a_range_ends_the_reservation_of_its_pageblocks() {
    let (mut buddy, index) = reserved();
    assert_eq!(give(&mut buddy, index * 512, 3).count, 0);
    buddy.isolate(index).unwrap();
    assert!(buddy.take_range(index * 512, index * 512 + 512, MOVABLE));
    check(&buddy);
    buddy.undo_isolate(index);
    check(&buddy);
    assert_eq!((buddy.highatomic_reserved(), buddy.type_of(index)), (0, MOVABLE));
}
