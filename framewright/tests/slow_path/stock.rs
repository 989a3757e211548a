//! The huge-page reserve of a zone, after a request found no huge page.

use framewright::{AllocError, Order, ZoneId, ZoneKind, tuning::Auto};

use crate::script::{
    Answers, Call, HELPLESS, MIN, Scripted, ask, memory_of, movable, page, range, unmovable,
};

const BACKGROUND: Answers = Answers { background: true, ..HELPLESS };
const PAGEBLOCK: u64 = 512;
const HUGE: u8 = Order::PAGEBLOCK.get();

/// A memory of 32 pageblocks, allocated except for every 16th frame.
fn scattered(answers: Answers, stock: u32) -> &'static Scripted {
    let zone = [range(0, 32 * PAGEBLOCK, 0, ZoneKind::Normal)];
    let memory = memory_of(&zone, answers, |tuning| {
        tuning.zone.min_free = Auto::Fixed(MIN as u32);
        tuning.zone.huge_stock = stock;
    });
    memory.platform().hoard(page().inside_relief());
    memory.platform().release_where(|pfn| pfn.get() % 16 == 0);
    memory.platform().take_all_calls();
    memory
}

fn stock(memory: &Scripted) -> u64 {
    memory.zone(ZoneId::default()).unwrap().stock / PAGEBLOCK
}

/// As [`scattered`], after a request found no huge page and one has become free since.
fn stocked() -> &'static Scripted {
    let memory = scattered(BACKGROUND, 1_000);
    assert!(ask(memory, movable(HUGE)).0.is_err());
    assert_eq!(stock(memory), 1);
    memory.platform().release_where(|pfn| pfn.get() < PAGEBLOCK);
    memory.platform().hoard(page().no_retry());
    memory
}

#[test]
fn each_huge_page_that_is_not_there_raises_all_marks_up_to_a_share_of_the_zone() {
    let memory = scattered(BACKGROUND, 1_000);
    let marks = || {
        let zone = memory.zone(ZoneId::default()).unwrap();
        [zone.min, zone.low, zone.high, zone.promo]
    };
    let before = marks();
    for kept in [1, 2, 3, 3] {
        assert!(ask(memory, unmovable(HUGE)).0.is_err());
        assert_eq!(stock(memory), kept);
        assert_eq!(marks(), before.map(|mark| mark + kept * PAGEBLOCK));
    }
}

#[test]
fn nothing_is_kept_for_other_requests_nor_where_nobody_makes_room() {
    for (answers, share, request) in [
        (BACKGROUND, 1_000, movable(HUGE).no_wake()),
        (BACKGROUND, 1_000, movable(HUGE - 1)),
        (BACKGROUND, 1_000, movable(HUGE + 1)),
        (BACKGROUND, 0, movable(HUGE)),
        (BACKGROUND, 312, movable(HUGE)),
        (HELPLESS, 1_000, movable(HUGE)),
    ] {
        let memory = scattered(answers, share);
        assert!(ask(memory, request).0.is_err());
        assert_eq!(stock(memory), 0, "{request:?}");
    }
}

#[test]
fn small_requests_leave_it_to_huge_ones() {
    let memory = stocked();
    assert_eq!(memory.free(), MIN + PAGEBLOCK);
    let (huge, calls) = ask(memory, movable(HUGE));
    let _stays = huge.unwrap().into_raw();
    assert_eq!((memory.free(), calls.as_slice()), (MIN, &[][..]), "relief was called");
}

#[test]
fn who_cannot_wait_may_use_it() {
    let memory = stocked();
    memory.platform().hoard(page().no_wait());
    assert_eq!(memory.free(), MIN);
}

#[test]
fn nobody_is_killed_for_it() {
    let memory = stocked();
    memory.platform().take_all_calls();
    let (served, calls) = ask(memory, page());
    let _stays = served.unwrap().into_raw();
    assert_eq!(stock(memory), 0);
    assert!(!calls.iter().any(|call| matches!(call, Call::Judge(_))), "{calls:?}");
}

/// The free frames between min and high serve a small request as they would without a huge-page
/// reserve.
#[test]
fn nobody_is_killed_for_what_a_huge_page_has_left_of_it() {
    let memory = stocked();
    memory.platform().hoard(page().no_wait());
    memory.platform().release_where(|pfn| pfn.get() < 8);
    memory.platform().take_all_calls();
    assert_eq!((memory.free(), stock(memory)), (MIN + 8, 1));
    let (served, calls) = ask(memory, page());
    let _stays = served.unwrap().into_raw();
    assert!(!calls.iter().any(|call| matches!(call, Call::Judge(_))), "{calls:?}");
}

#[test]
fn costly_requests_use_it_before_they_fail_unless_they_try_once() {
    let memory = stocked();
    assert!(ask(memory, movable(5).no_retry()).0.is_err());
    let _stays = ask(memory, movable(5)).0.unwrap().into_raw();
    let _stays = ask(memory, movable(4).no_wait().without_reserves()).0.unwrap().into_raw();
    assert_eq!(stock(memory), 1);
}

/// The last walk, which may use the huge-page reserve, is above the watermark and finds no block of order 5.
/// Without the reserve the request is below the watermark, and this is the error that it gets.
#[test]
fn the_error_is_that_of_the_walk_before() {
    let memory = scattered(BACKGROUND, 1_000);
    assert!(ask(memory, movable(HUGE)).0.is_err());
    memory.platform().hoard(page().no_retry());
    assert_eq!((memory.free(), stock(memory)), (MIN + PAGEBLOCK, 1));
    let error = ask(memory, movable(5)).0.unwrap_err();
    assert!(matches!(error, AllocError::BelowWatermark(_)), "{error}");
}
