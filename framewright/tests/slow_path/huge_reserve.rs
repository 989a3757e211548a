//! The huge-page reserve: after a request has found no huge page, the zone keeps free frames for
//! one.

use framewright::{AllocError, Order, ZoneId, ZoneKind, tuning::Auto};

use crate::script::{
    Answers, Call, MIN, NO_HELP, Script, ask, memory_of, movable, page, range, unmovable,
};

const BACKGROUND: Answers = Answers { background: true, ..NO_HELP };
const PAGEBLOCK: u64 = 512;
const HUGE: u8 = Order::PAGEBLOCK.get();

/// An allocator with 32 pageblocks. Only every 16th frame is free. The reserve is at most
/// `huge_reserve` / 10000 of the zone.
fn scattered(answers: Answers, huge_reserve: u32) -> &'static Script {
    let zone = [range(0, 32 * PAGEBLOCK, 0, ZoneKind::Normal)];
    let memory = memory_of(&zone, answers, |tuning| {
        tuning.zone.min_free = Auto::Fixed(MIN as u32);
        tuning.zone.huge_reserve = huge_reserve;
    });
    memory.allocate_all(page().inside_relief());
    memory.release_where(|pfn| pfn.get() % 16 == 0);
    memory.take_all_calls();
    memory
}

fn huge_reserve(memory: &Script) -> u64 {
    memory.zone(ZoneId::default()).unwrap().huge_reserve / PAGEBLOCK
}

/// As [`scattered`]. Then a request finds no huge page, and afterwards one becomes free. Small
/// requests take all frames that the reserve leaves to them.
fn with_huge_reserve() -> &'static Script {
    let memory = scattered(BACKGROUND, 1_000);
    assert!(ask(memory, movable(HUGE)).0.is_err());
    assert_eq!(huge_reserve(memory), 1);
    memory.release_where(|pfn| pfn.get() < PAGEBLOCK);
    memory.allocate_all(page().no_retry());
    memory
}

#[test]
fn each_missed_huge_page_raises_all_watermarks_up_to_a_share_of_the_zone() {
    let memory = scattered(BACKGROUND, 1_000);
    let marks = || {
        let zone = memory.zone(ZoneId::default()).unwrap();
        [zone.min, zone.low, zone.high, zone.promo]
    };
    let before = marks();
    for kept in [1, 2, 3, 3] {
        assert!(ask(memory, unmovable(HUGE)).0.is_err());
        assert_eq!(huge_reserve(memory), kept);
        assert_eq!(marks(), before.map(|mark| mark + kept * PAGEBLOCK));
    }
}

#[test]
fn no_reserve_for_other_requests_or_without_background_reclaim() {
    // 312 / 10000 is less than one of 32 pageblocks.
    for (answers, share, request) in [
        (BACKGROUND, 1_000, movable(HUGE).no_wake()),
        (BACKGROUND, 1_000, movable(HUGE - 1)),
        (BACKGROUND, 1_000, movable(HUGE + 1)),
        (BACKGROUND, 0, movable(HUGE)),
        (BACKGROUND, 312, movable(HUGE)),
        (NO_HELP, 1_000, movable(HUGE)),
    ] {
        let memory = scattered(answers, share);
        assert!(ask(memory, request).0.is_err());
        assert_eq!(huge_reserve(memory), 0, "{request:?}");
    }
}

#[test]
fn small_requests_leave_the_reserve_to_huge_ones() {
    let memory = with_huge_reserve();
    assert_eq!(memory.free(), MIN + PAGEBLOCK);
    let (huge, calls) = ask(memory, movable(HUGE));
    let _stays = huge.unwrap().into_raw();
    assert_eq!((memory.free(), calls.as_slice()), (MIN, &[][..]), "relief was called");
}

#[test]
fn requests_that_cannot_wait_may_use_the_reserve() {
    let memory = with_huge_reserve();
    memory.allocate_all(page().no_wait());
    assert_eq!(memory.free(), MIN);
}

#[test]
fn the_oom_hook_is_not_called_while_there_is_a_reserve() {
    let memory = with_huge_reserve();
    memory.take_all_calls();
    let (served, calls) = ask(memory, page());
    let _stays = served.unwrap().into_raw();
    assert_eq!(huge_reserve(memory), 0);
    assert!(!calls.iter().any(|call| matches!(call, Call::AskVerdict(_))), "{calls:?}");
}

/// The free frames between min and high serve a small request as they would without a huge-page
/// reserve.
#[test]
fn the_oom_hook_is_not_called_for_frames_between_min_and_high() {
    let memory = with_huge_reserve();
    memory.allocate_all(page().no_wait());
    memory.release_where(|pfn| pfn.get() < 8);
    memory.take_all_calls();
    assert_eq!((memory.free(), huge_reserve(memory)), (MIN + 8, 1));
    let (served, calls) = ask(memory, page());
    let _stays = served.unwrap().into_raw();
    assert!(!calls.iter().any(|call| matches!(call, Call::AskVerdict(_))), "{calls:?}");
}

#[test]
fn costly_requests_use_the_reserve_before_they_fail_unless_they_try_once() {
    let memory = with_huge_reserve();
    assert!(ask(memory, movable(5).no_retry()).0.is_err());
    let _stays = ask(memory, movable(5)).0.unwrap().into_raw();
    // `without_reserves` excludes the frames below min, not the huge-page reserve.
    let _stays = ask(memory, movable(4).no_wait().without_reserves()).0.unwrap().into_raw();
    assert_eq!(huge_reserve(memory), 1);
}

/// A request tries the zones a last time with the huge-page reserve. Here that attempt passes the
/// watermark check, and fails for lack of a block of order 5. The error must be that of the attempt
/// before, which was below the watermark; otherwise fragmentation would be reported.
#[test]
fn the_error_is_that_of_the_walk_without_the_reserve() {
    let memory = scattered(BACKGROUND, 1_000);
    assert!(ask(memory, movable(HUGE)).0.is_err());
    memory.allocate_all(page().no_retry());
    assert_eq!((memory.free(), huge_reserve(memory)), (MIN + PAGEBLOCK, 1));
    let error = ask(memory, movable(5)).0.unwrap_err();
    assert!(matches!(error, AllocError::BelowWatermark(_)), "{error}");
}
