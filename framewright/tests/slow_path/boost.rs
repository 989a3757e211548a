//! The boost of watermarks after a fallback mixed migratetypes in a pageblock.

use framewright::{CpuId, ZoneId, ZoneInfo, ZoneKind, tuning::Auto};

use crate::script::{
    Answers, Call, MIN, NO_HELP, Script, memory_of, movable, page, range, unmovable,
};

const BACKGROUND: Answers = Answers { background: true, ..NO_HELP };

/// An allocator with scattered free frames in movable pageblocks. Requests for other types must
/// allocate from these pageblocks.
fn mixable(answers: Answers, boost: u32, pageblocks: u64) -> &'static Script {
    let zone = [range(0, pageblocks * 512, 0, ZoneKind::Normal)];
    let memory = memory_of(&zone, answers, |tuning| {
        tuning.zone.min_free = Auto::Fixed(MIN as u32);
        tuning.zone.watermark_boost = boost;
        // Refills must not mix types more often than requests do.
        tuning.pcp.batch = Auto::Fixed(1);
    });
    memory.allocate_all(page().inside_relief());
    memory.release_where(|pfn| pfn.get() % 3 == 0);
    memory.take_all_calls();
    memory
}

fn zone(memory: &Script) -> ZoneInfo {
    memory.zone(ZoneId::default()).unwrap()
}

#[test]
fn mixing_boosts_every_watermark_by_a_pageblock_and_wakes_at_order_0() {
    let memory = mixable(BACKGROUND, 15_000, 32);
    let before = zone(memory);
    assert_eq!(before.boost, 0);
    let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
    let _stays = cpu.alloc(unmovable(0)).unwrap().into_raw();
    let after = zone(memory);
    assert_eq!(after.boost, 512);
    for (boosted, mark) in [
        (after.min, before.min),
        (after.low, before.low),
        (after.high, before.high),
        (after.promo, before.promo),
    ] {
        assert_eq!(boosted, mark + 512);
    }
    assert_eq!(
        memory.take_all_calls(),
        [Call::Wake { node: 0, order: 0, highest: ZoneKind::Normal }]
    );
    let mut text = String::new();
    memory.write_zoneinfo(&mut text).unwrap();
    assert!(text.contains("boost    512"), "{text}");
    // The boost does not exceed its limit.
    for _ in 0..400 {
        let _stays = cpu.alloc(unmovable(0).no_wake()).unwrap().into_raw();
    }
    assert_eq!(zone(memory).boost, before.high * 3 / 2);
    assert_eq!(memory.take_all_calls(), [], "a request without wake-ups woke background reclaim");
    // Background reclaim removes the boost that existed when it began.
    memory.lower_boost(ZoneId::default(), 512);
    assert_eq!(zone(memory).boost, before.high * 3 / 2 - 512);
    memory.lower_boost(ZoneId::default(), u64::MAX);
    assert_eq!(zone(memory).boost, 0);
}

#[test]
fn claiming_a_whole_pageblock_does_not_boost() {
    let zone_map = [range(0, 16_384, 0, ZoneKind::Normal)];
    let memory = memory_of(&zone_map, BACKGROUND, |_| ());
    let _stays = memory.alloc_bypassing_lists(unmovable(0)).unwrap().into_raw();
    assert_eq!((memory.stats().claims, zone(memory).boost), (1, 0));
}

#[test]
fn no_boost_if_switched_off_or_without_background_reclaim_or_in_a_tiny_zone() {
    for (memory, boost) in [
        (mixable(BACKGROUND, 15_000, 32), 512),
        (mixable(BACKGROUND, 0, 32), 0),
        (mixable(NO_HELP, 15_000, 32), 0),
        (mixable(BACKGROUND, 15_000, 3), 0),
        (mixable(BACKGROUND, 15_000, 4), 512),
    ] {
        let _stays = memory.alloc_bypassing_lists(unmovable(0)).unwrap().into_raw();
        assert_eq!(memory.stats().steals + memory.stats().claims, 1);
        assert_eq!(zone(memory).boost, boost);
    }
}

#[test]
fn the_boost_depends_on_background_reclaim_at_the_moment_of_mixing() {
    let memory = mixable(NO_HELP, 15_000, 32);
    let mix = || _ = memory.alloc_bypassing_lists(unmovable(0)).unwrap().into_raw();
    mix();
    assert_eq!(zone(memory).boost, 0, "without background reclaim, a boost would never be removed");
    memory.reclaims_in_background_from_now_on(true);
    mix();
    assert_eq!(zone(memory).boost, 512);
    memory.reclaims_in_background_from_now_on(false);
    mix();
    assert_eq!((memory.stats().steals, zone(memory).boost), (3, 512));
}

#[test]
fn requests_leave_the_boost_free_except_for_urgent_single_frames() {
    let memory = mixable(BACKGROUND, 15_000, 32);
    let _stays = memory.alloc_bypassing_lists(unmovable(0)).unwrap().into_raw();
    assert_eq!(zone(memory).boost, 512);
    memory.allocate_all(page().no_wait());
    assert_eq!(memory.free(), MIN + 512);
    // Large blocks are free, but requests for them must also leave their part of the boost free.
    memory.release_where(|pfn| pfn.get() < 1024 && pfn.get() % 16 < 8);
    memory.allocate_all(movable(1).atomic());
    let part = (MIN + 512) * 3 / 8;
    assert!((part..part + 2).contains(&memory.free()) || memory.free() > part);
    memory.allocate_all(page().atomic());
    assert_eq!(memory.free(), MIN * 3 / 8);
}
