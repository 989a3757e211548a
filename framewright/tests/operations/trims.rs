//! A trim returns half of the frames to the zones that the lists of a CPU have not needed since the last one.

use crate::support::machine::{Machine, Metadata, cpu};
use framewright::{
    Block, Config, CpuToken, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    observe::DrainReason,
};

const FRAMES: u64 = 128 * 512;
/// Frames of a burst: more than rings hold, and fewer than the 4,096 that a CPU may hold.
const BURST: usize = 1500;
/// Frames that rings may hold, which trims leave alone.
const RINGS: u64 = 256;

type Token<'a, 'm> = CpuToken<'a, 'm, Machine>;

/// A memory with two CPUs, whose lists may hold an eighth of it.
fn with_trims(trims: &str, test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    for (key, value) in [
        ("zone.emptying_above", "512"),
        ("pcp.high_fraction", "8"),
        ("zone.min_free", "0"),
        ("pcp.trim_after", trims),
    ] {
        config.tuning.set(key, value).unwrap();
    }
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    test(&memory);
    memory.check().unwrap();
}

/// Allocates and frees `frames` frames.
fn burst(token: &mut Token<'_, '_>, frames: usize) {
    let page = Request::new(Order::ZERO, MigrateType::Movable);
    let blocks: Vec<Block<'_>> = (0..frames).map(|_| token.alloc(page).unwrap()).collect();
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
}

fn drains(memory: &Memory<'_, Machine>) -> u64 {
    memory.stats().drains[DrainReason::Trim as usize]
}

/// Trims until nothing is returned any more: each trim returns half.
fn trim_often(mut trim: impl FnMut()) {
    (0..16).for_each(|_| trim());
}

/// Bursts that spill once, until traffic trims the lists or a multiple of the traffic for that is over.
fn until_next_trim(memory: &Memory<'_, Machine>, token: &mut Token<'_, '_>) {
    let before = drains(memory);
    for _ in 0..2000 {
        if drains(memory) == before {
            burst(token, 70);
        }
    }
}

#[test]
fn each_trim_returns_half_of_what_a_past_burst_has_left() {
    with_trims("4", |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        burst(&mut token, BURST);
        let held = memory.held_by_cpus();
        assert!(held >= BURST as u64, "{held}");
        token.trim();
        assert_eq!((memory.held_by_cpus(), drains(memory)), (held, 0), "needed just before");
        token.trim();
        let half = memory.held_by_cpus();
        assert!((held / 2 - RINGS..=held / 2 + RINGS).contains(&half), "{half} of {held} are left");
        trim_often(|| token.trim());
        assert!(memory.held_by_cpus() <= RINGS, "{} are held", memory.held_by_cpus());
        let after = drains(memory);
        token.trim();
        assert_eq!(drains(memory), after, "nothing was left to return");
    });
}

/// Bursts of some sizes leave a part of a word in the store.
#[test]
fn needed_frames_stay() {
    for needed in (BURST / 2..BURST / 2 + 256).step_by(10) {
        with_trims("4", |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            burst(&mut token, BURST);
            trim_often(|| {
                burst(&mut token, needed);
                token.trim();
            });
            let held = memory.held_by_cpus();
            assert!(held < needed as u64 + 2 * RINGS, "{held} of {needed} are held");
            let refills = memory.stats().refills;
            burst(&mut token, needed);
            assert_eq!(memory.stats().refills, refills, "of {needed} frames some were missing");
        });
    }
}

#[test]
fn one_call_trims_all_cpus_whose_owners_sleep() {
    with_trims("4", |memory| {
        let mut tokens = [0, 1].map(|number| memory.cpu(cpu(number)).unwrap());
        tokens.iter_mut().for_each(|token| burst(token, BURST));
        memory.trim_all();
        assert_eq!(drains(memory), 0);
        trim_often(|| memory.trim_all());
        assert!(memory.held_by_cpus() <= 2 * RINGS, "{} are held", memory.held_by_cpus());
        for number in [0, 1] {
            let stats = memory.cpu_stats(cpu(number)).unwrap();
            assert!(stats.drains[DrainReason::Trim as usize] > 0, "CPU {number}");
        }
        drop(tokens);
    });
}

#[test]
fn trims_can_be_switched_off() {
    with_trims("0", |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        burst(&mut token, BURST);
        let held = memory.held_by_cpus();
        for _ in 0..3 {
            token.trim();
            memory.trim_all();
        }
        assert_eq!((memory.held_by_cpus(), drains(memory)), (held, 0));
    });
}

#[test]
fn lists_that_nobody_trims_return_what_traffic_does_not_need() {
    for (trims, returns) in [("4", true), ("0", false)] {
        with_trims(trims, |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            burst(&mut token, BURST);
            let held = memory.held_by_cpus();
            // A trim follows four times as many allocated frames as were not needed, and 256 more.
            let bursts = |token: &mut Token<'_, '_>, allocated: usize| {
                (0..allocated / (BURST / 4)).for_each(|_| burst(token, BURST / 4));
            };
            bursts(&mut token, 2 * BURST);
            assert_eq!(drains(memory), 0, "too early");
            until_next_trim(memory, &mut token);
            let stats = memory.stats();
            assert!(stats.drained_frames <= drains(memory) * (256 + 63), "{stats:?}");
            bursts(&mut token, 40 * 2048);
            assert_eq!(drains(memory) > 0, returns);
            let left = memory.held_by_cpus();
            assert_eq!(left < BURST as u64 / 4 + RINGS, returns, "{left} of {held} are left");
            let refills = memory.stats().refills;
            bursts(&mut token, BURST);
            assert_eq!(memory.stats().refills, refills, "needed frames were returned");
        });
    }
}

#[test]
fn a_trim_ends_when_frames_are_needed() {
    with_trims("16", |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        burst(&mut token, 4000);
        // From now on the minimum counts.
        token.trim();
        let requested = drains(memory);
        until_next_trim(memory, &mut token);
        let before = drains(memory);
        assert!(before > requested);
        burst(&mut token, 4000);
        assert_eq!(drains(memory), before);
    });
}
