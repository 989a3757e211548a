//! One test per rule.

use super::*;

const CALM: Pressure = Pressure { below_high: false, reclaim_active: false };

fn pcp(tuning: &Tuning) -> Pcp {
    Pcp::new(Sizing { batch: 63, high_min: 252, high_max: 10_000 }, tuning)
}

#[test]
fn lists_are_numbered_as_published() {
    assert_eq!(list_index(0, MigrateType::Movable), Some(1));
    assert_eq!(list_index(3, MigrateType::Reclaimable), Some(11));
    assert_eq!(list_index(9, MigrateType::Unmovable), Some(12));
    assert_eq!(list_index(9, MigrateType::Reclaimable), Some(12));
    assert_eq!(list_index(9, MigrateType::Movable), Some(13));
    for order in [4, 8, 10] {
        assert_eq!(list_index(order, MigrateType::Movable), None);
    }
    for index in 0..HOLDING_LISTS {
        let order = list_order(index);
        assert!((0..3).any(|t| list_index(order, MigrateType::ALL[t]) == Some(index)));
    }
}

#[test]
fn refill_batch_doubles_up_to_batch_scale_max_and_raises_high() {
    let mut pcp = pcp(&Tuning::default());
    let blocks: Vec<u32> = (0..7).map(|_| pcp.refill_blocks(0, CALM)).collect();
    assert_eq!(blocks, [63, 126, 252, 504, 1008, 2016, 2016]);
    assert_eq!(pcp.high, 252 + 63 * 63 + 2016);
}

#[test]
fn refills_of_larger_orders_fetch_fewer_blocks() {
    let mut pcp = pcp(&Tuning::default());
    assert_eq!([1, 3, 9].map(|order| pcp.refill_blocks(order, CALM)), [31, 7, 2]);
}

#[test]
fn a_low_zone_does_not_raise_high() {
    let mut pcp = pcp(&Tuning::default());
    let low = Pressure { below_high: true, ..CALM };
    pcp.refill_blocks(0, low);
    assert_eq!(pcp.high, 252);
}

#[test]
fn frees_drain_at_high_and_then_raise_high() {
    let mut pcp = pcp(&Tuning::default());
    let due: Vec<Drain> = (0..252).filter_map(|_| pcp.note_free(0, CALM)).collect();
    assert_eq!(due, [Drain { frames: 189, reason: DrainReason::Threshold }]);
    assert_eq!(pcp.high, 252 + 63);
}

#[test]
fn the_second_high_order_free_in_a_row_empties_the_lists() {
    let mut late = pcp(&Tuning::default());
    let mut early =
        pcp(&Tuning { high_order_drain: HighOrderDrain::EveryFree, ..Tuning::default() });
    for pcp in [&mut late, &mut early] {
        for _ in 0..100 {
            assert_eq!(pcp.note_free(0, CALM), None);
        }
    }
    let emptied = |frames| Some(Drain { frames, reason: DrainReason::HighOrder });
    assert_eq!(early.note_free(1, CALM), emptied(102));
    assert_eq!(late.note_free(1, CALM), None);
    assert_eq!(late.note_free(1, CALM), emptied(104));
}

#[test]
fn an_order_0_or_huge_free_in_between_resets_the_count() {
    for between in [0, 9] {
        let mut pcp = pcp(&Tuning::default());
        pcp.sizing.high_min = 9000;
        for _ in 0..100 {
            pcp.note_free(0, CALM);
        }
        assert_eq!(pcp.note_free(1, CALM), None);
        assert_eq!(pcp.note_free(between, CALM), None);
        assert_eq!(pcp.note_free(1, CALM), None);
    }
}

#[test]
fn pressure_lowers_high() {
    let mut reclaiming = pcp(&Tuning::default());
    reclaiming.high = 5000;
    reclaiming.count = 3000;
    let drain = reclaiming.note_free(0, Pressure { reclaim_active: true, ..CALM });
    assert_eq!(drain.expect("above four batches").frames, 63);
    assert_eq!(reclaiming.high, 5000 - 63);
    let mut low = pcp(&Tuning::default());
    low.high = 5000;
    low.count = 3000;
    assert!(low.note_free(0, Pressure { below_high: true, ..CALM }).is_some());
}

#[test]
fn disabled_lists_pass_every_free_through() {
    let sizing = Sizing { batch: 1, high_min: 0, high_max: 0 };
    let mut pcp = Pcp::new(sizing, &Tuning::default());
    assert_eq!(pcp.refill_blocks(0, CALM), 1);
    assert_eq!(pcp.note_free(0, CALM).expect("always").frames, 1);
}

#[test]
fn decay_trims_towards_the_minimum() {
    let mut pcp = pcp(&Tuning::default());
    pcp.high = 8000;
    pcp.count = 8000;
    assert_eq!(pcp.decay(), 1000);
    pcp.count = 100;
    assert_eq!(pcp.decay(), 0);
    assert_eq!(pcp.high, 7000 - 875);
}

#[test]
fn before_6_7_high_order_frees_drain_only_after_the_lists_were_full() {
    let tuning = Tuning {
        high_order_drain: HighOrderDrain::EveryFree,
        drain_after: DrainAfter::FullLists,
        high: Some(300),
        ..Tuning::default()
    };
    let mut pcp = Pcp::new(Sizing { batch: 63, high_min: 300, high_max: 300 }, &tuning);
    for _ in 0..200 {
        assert_eq!(pcp.note_free(0, CALM), None);
    }
    // A batch was freed, but the lists were never full.
    assert_eq!(pcp.note_free(1, CALM), None);
    let due: Vec<DrainReason> =
        (0..98).filter_map(|_| pcp.note_free(0, CALM)).map(|it| it.reason).collect();
    assert_eq!(due, [DrainReason::Threshold]);
    assert_eq!(pcp.note_free(1, CALM).map(|due| due.reason), Some(DrainReason::HighOrder));
    // An allocation halves a count of one.
    pcp.count = 0;
    pcp.note_alloc();
    assert_eq!(pcp.note_free(1, CALM), None);
}
