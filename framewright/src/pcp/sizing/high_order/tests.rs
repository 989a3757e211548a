//! Examples of the rule, and random frees compared with a naive model of the rule.

use super::*;
use crate::{
    pcp::sizing::ZoneFree,
    tuning::{Auto, PcpTuning},
    types::MigrateType,
};
use std::vec::Vec;

const EVERY: HighOrderDrain = HighOrderDrain::EveryFree;
const SECOND: HighOrderDrain = HighOrderDrain::SecondConsecutive;
/// Frames that the CPU holds at each free.
const HELD: u64 = 800;

/// The lists of a CPU, without blocks.
struct Cpu {
    traffic: Traffic,
    sizing: Sizing,
}

impl Cpu {
    /// Lists for a zone of 1 GiB: batches of 63 frames, and at most 2016 in a bulk free.
    fn new(tuning: &PcpTuning) -> Self {
        let sizing = Sizing::new(tuning, 1 << 18, 500, 2, 4096);
        let traffic = Traffic::new();
        traffic.set_may_drain_from(sizing.may_drain_from());
        Self { traffic, sizing }
    }

    fn with_burst(high_order_drain: HighOrderDrain, burst: u32) -> Self {
        let high_order_burst = Auto::Fixed(burst);
        Self::new(&PcpTuning { high_order_drain, high_order_burst, ..PcpTuning::default() })
    }

    fn alloc(&self, order: u8) {
        self.traffic.count_alloc(Order::new(order).unwrap());
    }

    fn refill(&mut self) {
        self.sizing.observe(&self.traffic);
        let zone = ZoneFree { frames: u64::MAX, is_low: false };
        self.sizing.on_refill(Order::ZERO, HELD, zone);
        self.traffic.set_may_drain_from(self.sizing.may_drain_from());
    }

    /// Frees a block as the hot path does if it can, else as the slow path. Returns the frames to drain, after it has
    /// drained them.
    fn free(&mut self, order: u8, spilled: bool) -> u64 {
        let order = Order::new(order).unwrap();
        let list = ListIndex::serving(order, MigrateType::Movable).unwrap();
        if !spilled && !self.traffic.may_drain(list, order) {
            self.traffic.count_free(list, order);
            return 0;
        }
        let drained = self.sizing.on_free(&self.traffic, (list, order), spilled, || HELD);
        self.sizing.drained(DrainReason::HighOrder, drained);
        self.traffic.set_may_drain_from(self.sizing.may_drain_from());
        drained
    }

    /// Frees single frames, with a spill for each batch.
    fn free_frames(&mut self, frames: u64) {
        (0..frames).for_each(|nth| assert_eq!(self.free(0, nth % 64 == 63), 0));
    }
}

#[test]
fn only_the_second_high_order_free_in_a_row_drains() {
    let mut cpu = Cpu::with_burst(SECOND, 63);
    cpu.free_frames(5000);
    assert_eq!(cpu.free(2, false), 0, "the first");
    assert_eq!(cpu.free(0, false), 0);
    assert_eq!(cpu.free(2, false), 0, "another free came in between");
    cpu.alloc(0);
    cpu.free_frames(100);
    assert_eq!(cpu.free(3, false), 0, "the first again");
    assert_eq!(cpu.free(1, false), HELD, "the second");
    assert_eq!(cpu.free(1, false), 0, "the burst was drained a second time");
}

#[test]
fn a_free_on_the_hot_path_counts_as_the_first() {
    for (between, drained) in [(0, HELD), (1, 0)] {
        let mut cpu = Cpu::with_burst(SECOND, 63);
        cpu.free_frames(55);
        assert_eq!(cpu.free(1, false), 0, "57 frames are no burst");
        cpu.free_frames(between);
        assert_eq!(cpu.free(3, false), drained, "{between} other frees in between");
    }
}

#[test]
fn by_the_older_rule_every_high_order_free_drains_after_a_burst() {
    let mut cpu = Cpu::with_burst(EVERY, 63);
    cpu.free_frames(60);
    assert_eq!(cpu.free(1, false), 0, "62 frames are no burst");
    assert_eq!(cpu.free(1, false), HELD);
    assert_eq!(cpu.free(0, false), 0);
    assert_eq!(cpu.free(1, false), HELD, "every free drains again");
}

#[test]
fn second_consecutive_asks_for_a_longer_burst() {
    let burst = |high_order_drain| {
        let tuning = PcpTuning { high_order_drain, ..PcpTuning::default() };
        Sizing::new(&tuning, 1 << 18, 2000, 2, 4096).burst
    };
    assert_eq!(burst(EVERY), 63);
    assert_eq!(burst(SECOND), 16 * 63);
}

#[test]
fn frames_that_the_cpu_has_allocated_itself_are_no_burst() {
    let mut cpu = Cpu::with_burst(SECOND, 500);
    // The lists may hold 252 frames. Only as many of the allocated frames count.
    assert_eq!(cpu.sizing.high(), 252);
    for _ in 0..3 {
        (0..100).for_each(|_| cpu.alloc(2));
        (0..100).for_each(|nth| assert_eq!(cpu.free(2, nth % 16 == 15), 0));
    }
    (0..1000).for_each(|_| cpu.alloc(2));
    cpu.sizing.observe(&cpu.traffic);
    cpu.traffic.set_may_drain_from(cpu.sizing.may_drain_from());
    let frees: Vec<u64> = (0..400).map(|_| cpu.free(2, false)).collect();
    let drains: Vec<usize> = (0..400).filter(|&nth| frees[nth] > 0).collect();
    assert_eq!(drains, [(252 + 500) / 4 - 1, (252 + 1000) / 4 - 1]);
}

#[test]
fn lists_of_less_than_a_batch_survive_if_the_cache_is_large() {
    let tuning = PcpTuning { high_order_burst: Auto::Fixed(63), ..PcpTuning::default() };
    let drained = |cache_frames, held| {
        let mut cpu = Cpu::new(&PcpTuning { cache_frames, ..tuning });
        cpu.free_frames(1000);
        let list = ListIndex::serving(Order::PAGEBLOCK, MigrateType::Movable).unwrap();
        assert!(!list.is_high_order());
        cpu.free(1, false);
        let order = Order::new(1).unwrap();
        let list = ListIndex::serving(order, MigrateType::Movable).unwrap();
        cpu.sizing.on_free(&cpu.traffic, (list, order), false, || held)
    };
    assert_eq!(drained(0, 62), 62);
    assert_eq!(drained(1000, 62), 0);
    assert_eq!(drained(1000, 63), 63);
}

/// The rule, frame by frame. It updates its counts from a list of the frames since the last update.
struct Model {
    rule: HighOrderDrain,
    burst: i64,
    /// `true` for each frame allocated, `false` for each frame freed since the last update.
    since: Vec<bool>,
    in_a_row: i64,
    surplus: i64,
    previous_was_high_order: bool,
}

impl Model {
    fn update(&mut self, high: u32) {
        let allocated = self.since.iter().filter(|&&alloc| alloc).count() as i64;
        let freed = self.since.len() as i64 - allocated;
        self.since.clear();
        (0..allocated).for_each(|_| self.in_a_row /= 2);
        self.in_a_row = (self.in_a_row + (freed - allocated).max(0)).min(63 << 5);
        self.surplus = (self.surplus + freed - allocated).max(-i64::from(high)).min(self.burst);
    }

    /// Whether the burst is reached if `more` frames are freed in a row from now on.
    fn is_burst(&self, more: i64) -> bool {
        let counts = [self.in_a_row, self.surplus];
        let used = if self.rule == EVERY { &counts[..1] } else { &counts[..] };
        used.iter().all(|count| count + more >= self.burst)
    }

    /// Whether the free drains.
    fn free(&mut self, order: u8, spilled: bool, high: u32) -> bool {
        self.since.extend((0..1 << order).map(|_| false));
        let is_high_order = (1..=3).contains(&order);
        let freed = self.since.iter().filter(|&&alloc| !alloc).count() as i64;
        let may_drain = is_high_order && self.is_burst(freed);
        if may_drain || spilled {
            self.update(high);
        }
        let is_second = self.rule == EVERY || self.previous_was_high_order;
        self.previous_was_high_order = is_high_order;
        let drains = may_drain && is_second && self.is_burst(0);
        if drains && self.rule == SECOND {
            (self.in_a_row, self.surplus) = (0, 0);
        }
        drains
    }
}

/// Runs random allocations and frees, whose ratio changes now and then, and compares each result
/// with the model. Returns the number of drains.
fn compare_with_model(rule: HighOrderDrain, burst: u32, mut random: u64) -> u32 {
    let mut draw = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let mut cpu = Cpu::with_burst(rule, burst);
    let mut model = Model {
        rule,
        burst: burst.into(),
        since: Vec::new(),
        in_a_row: 0,
        surplus: 0,
        previous_was_high_order: false,
    };
    let (mut drains, mut frees_of_eight) = (0, 4);
    for step in 0..3000 {
        if draw(200) == 0 {
            frees_of_eight = [0, 3, 4, 5, 7, 8][draw(6) as usize];
        }
        let order = [0, 0, 0, 1, 2, 3, 3, 9][draw(8) as usize];
        let high = cpu.sizing.high();
        if draw(8) < frees_of_eight {
            let spilled = draw(16) == 0;
            let drained = cpu.free(order, spilled);
            assert_eq!(drained > 0, model.free(order, spilled, high), "step {step}");
            drains += u32::from(drained > 0);
        } else {
            cpu.alloc(order);
            model.since.extend((0..1 << order).map(|_| true));
            if draw(16) == 0 {
                cpu.refill();
                model.update(high);
            }
        }
        assert_eq!(i64::from(cpu.sizing.free_count), model.in_a_row, "step {step}");
        assert_eq!(cpu.sizing.surplus, model.surplus, "step {step}");
    }
    drains
}

#[test]
fn random_traffic_drains_as_the_model_says() {
    for rule in [EVERY, SECOND] {
        for burst in [1, 63, 500, 2016] {
            let runs = 1..=20u64;
            let drains: u32 = runs.map(|run| compare_with_model(rule, burst, run << 32)).sum();
            assert!(drains > 20, "{rule:?} with bursts of {burst}: only {drains} drains");
        }
    }
}
