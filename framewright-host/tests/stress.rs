//! All operations at once on real threads and real memory.
//!
//! Workers allocate blocks of all orders and types, singly and in bulk, and write a pattern into
//! every word of every frame. They send blocks to each other, split them, and verify each word
//! before they free a block. So if a frame was allocated twice, or was cleared or freed while in
//! use, a worker finds a wrong word. At the same time, a disturber drains CPUs, makes them go
//! offline and online, and isolates pageblocks. At the end, all frames are free, in blocks as large
//! as at the beginning.
//!
//! The test runs for a few seconds. `FRAMEWRIGHT_STRESS_SECONDS` sets its length,
//! `FRAMEWRIGHT_STRESS_SEED` the random seed.

mod stress {
    pub(crate) mod disturber;
    pub(crate) mod pool;
    pub(crate) mod worker;
}

use framewright::{
    Config, Layout, Memory, Order, Tuning, ZoneId,
    platform::OwnerLock,
    tuning::{Auto, BulkFree, Hardening, HighOrderDrain},
};
use framewright_host::{HostMachine, Metadata, PageSize};
use std::time::Duration;

use stress::{
    disturber::disturb,
    pool::{number, run_workers},
};

/// An allocator so small that it is sometimes exhausted, and always fragmented.
const PAGEBLOCKS: u64 = 24;
const FRAMES: u64 = PAGEBLOCKS * 512;

/// The parameters of a test.
struct Setting {
    workers: u16,
    membarrier: bool,
    bulk_free: BulkFree,
    high_order_drain: HighOrderDrain,
    hardening: Hardening,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            workers: 2,
            membarrier: true,
            bulk_free: BulkFree::SelectBeforeLock,
            high_order_drain: HighOrderDrain::SecondConsecutive,
            hardening: Hardening::Checked,
        }
    }
}

#[test]
fn two_workers_biased() {
    stress(&Setting::default());
}

#[test]
fn eight_workers_biased() {
    stress(&Setting {
        workers: 8,
        bulk_free: BulkFree::SelectUnderLock,
        high_order_drain: HighOrderDrain::EveryFree,
        ..Setting::default()
    });
}

#[test]
fn two_workers_trylock() {
    stress(&Setting {
        membarrier: false,
        bulk_free: BulkFree::SelectUnderLock,
        ..Setting::default()
    });
}

#[test]
fn eight_workers_trylock() {
    stress(&Setting {
        workers: 8,
        membarrier: false,
        high_order_drain: HighOrderDrain::EveryFree,
        ..Setting::default()
    });
}

#[test]
fn four_paranoid_workers_biased() {
    stress(&Setting { workers: 4, hardening: Hardening::Paranoid, ..Setting::default() });
}

#[test]
fn four_paranoid_workers_trylock() {
    stress(&Setting {
        workers: 4,
        membarrier: false,
        bulk_free: BulkFree::SelectUnderLock,
        hardening: Hardening::Paranoid,
        ..Setting::default()
    });
}

#[test]
fn four_tracked_workers() {
    stress(&Setting { workers: 4, hardening: Hardening::Tracked, ..Setting::default() });
}

fn stress(setting: &Setting) {
    let machine = HostMachine::builder()
        .frames(FRAMES)
        .cpus(setting.workers)
        .membarrier(setting.membarrier)
        .build()
        .unwrap();
    let map = [machine.frames().into()];
    let mut tuning = Tuning::default();
    tuning.pcp.bulk_free = setting.bulk_free;
    tuning.pcp.high_order_drain = setting.high_order_drain;
    tuning.hardening = setting.hardening;
    // By default, an allocator with so few CPUs has no depot.
    tuning.zone.depot_divisor = Auto::Fixed(16);
    let config = Config::new(&map, setting.workers).with_tuning(tuning);
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::new(layout.bytes(), PageSize::Small).unwrap();
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    if !setting.membarrier {
        assert_eq!(memory.owner_lock(), OwnerLock::Trylock);
    }
    run(&memory, setting.workers);
    check_all_is_free(&memory);
}

fn run(memory: &Memory<'_, HostMachine>, workers: u16) {
    let seconds = number("FRAMEWRIGHT_STRESS_SECONDS").unwrap_or(2);
    let seed = number("FRAMEWRIGHT_STRESS_SEED").unwrap_or(1);
    println!("{workers} workers, {:?}, {seconds} s, seed {seed}", memory.owner_lock());
    run_workers(Duration::from_secs(seconds), memory, workers, seed, |stop| {
        disturb(memory, seed, stop);
    });
}

fn check_all_is_free(memory: &Memory<'_, HostMachine>) {
    memory.drain_all();
    memory.check().unwrap();
    let (stats, zone) = (memory.stats(), memory.zone(ZoneId::default()).unwrap());
    println!("{stats:?}");
    assert_eq!(memory.platform().first_corruption(), None);
    assert_eq!(stats.refused_frees, 0);
    assert_eq!(stats.pgalloc, stats.pgfree);
    assert_eq!(zone.held_by_cpus, 0);
    assert_eq!(zone.free, FRAMES);
    assert_eq!(memory.largest_free_order(), Order::new(FRAMES.ilog2() as u8));
    assert_eq!(memory.block_counts(ZoneId::default()).yields(Order::PAGEBLOCK), PAGEBLOCKS);
}
