//! Memory hotplug and contiguous ranges of any length, while threads allocate.
//!
//! The workers of the stress test allocate, write, verify and free blocks on two nodes with zones
//! of several kinds. Some zones share a pageblock or lie within another zone. Another thread
//! removes and adds pageblocks, allocates given ranges and contiguous runs, reports free frames,
//! and drains. After each round, all frames are free again.
//!
//! The test runs for some seconds. `FRAMEWRIGHT_STRESS_SECONDS` sets the length of each attempt of a
//! round, `FRAMEWRIGHT_STRESS_SEED` the random seed.

mod stress {
    pub(crate) mod driver;
    pub(crate) mod pool;
    pub(crate) mod worker;
}

use framewright::{
    Config, CpuId, FrameRange, Layout, Memory, MemoryRange, NodeId, Pfn, ZoneKind,
    platform::OwnerLock,
};
use framewright_host::{HostMachine, Metadata, PageSize};
use std::time::Duration;

use stress::{
    driver::{OperationCounts, StressDriver},
    pool::{number, run_workers},
};

const PAGEBLOCKS: u64 = 40;
const ROUNDS: u64 = 3;
/// The maximum number of attempts of a round. On a busy machine, an attempt may fail to remove any
/// memory.
const TURNS: u64 = 60;

#[test]
fn two_workers_biased() {
    stress(2, true);
}

#[test]
fn four_workers_trylock() {
    stress(4, false);
}

fn stress(workers: u16, membarrier: bool) {
    let machine = HostMachine::builder()
        .frames(PAGEBLOCKS * 512)
        .cpus(workers + 1)
        .membarrier(membarrier)
        .build()
        .unwrap();
    let map = map(machine.frames().start());
    let cpu_nodes: Vec<NodeId> = (0..=workers).map(|cpu| node(cpu % 2)).collect();
    let config = Config::new(&map, workers + 1).with_cpu_nodes(&cpu_nodes);
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::new(layout.bytes(), PageSize::Small).unwrap();
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    if !membarrier {
        assert_eq!(memory.owner_lock(), OwnerLock::Trylock);
    }
    let start = memory.platform().frames().start();
    for round in 0..ROUNDS {
        let mut counts = OperationCounts::default();
        for turn in 0..TURNS {
            counts += run(&memory, workers, round + turn * ROUNDS);
            check_all_is_free(&memory);
            if counts.is_enough() {
                break;
            }
        }
        println!("{workers} workers, {:?}: {counts:?}", memory.owner_lock());
        assert!(counts.is_enough(), "hardly any memory was removed: {counts:?}");
        // Absent memory of the first round is added for the other rounds.
        if round == 0 {
            memory.add_memory(pageblocks(start, 34, 40)).unwrap();
        }
    }
}

/// Two nodes, with a pageblock that two zones share, a zone within another, and absent memory.
fn map(start: Pfn) -> [MemoryRange; 6] {
    let shared = |from: u64, to: u64| frames(start, 8 * 512 + from, 8 * 512 + to);
    let normal = ZoneKind::Normal;
    [
        MemoryRange::new(frames(start, 0, 8 * 512), node(0), normal),
        MemoryRange::new(shared(0, 200), node(0), normal),
        MemoryRange::new(shared(200, 8 * 512), node(0), ZoneKind::Movable),
        MemoryRange::new(pageblocks(start, 16, 24), node(1), normal),
        MemoryRange::new(pageblocks(start, 24, 34), node(0), ZoneKind::Movable),
        MemoryRange::new(pageblocks(start, 34, 40), node(1), ZoneKind::Movable).absent(),
    ]
}

fn run(memory: &Memory<'_, HostMachine>, workers: u16, round: u64) -> OperationCounts {
    let time = number("FRAMEWRIGHT_STRESS_SECONDS")
        .map_or(Duration::from_millis(700), Duration::from_secs);
    let seed = number("FRAMEWRIGHT_STRESS_SEED").unwrap_or(1) + round;
    run_workers(time, memory, workers, seed, |stop| {
        let cpu = CpuId::new(workers);
        let _registered = memory.platform().register_as(cpu).unwrap();
        StressDriver::new(memory, cpu, seed).run(stop)
    })
}

fn check_all_is_free(memory: &Memory<'_, HostMachine>) {
    memory.drain_all();
    memory.check().unwrap();
    let stats = memory.stats();
    assert_eq!(memory.platform().first_corruption(), None);
    assert_eq!(stats.refused_frees, 0);
    assert_eq!(stats.pgalloc, stats.pgfree);
    assert_eq!(memory.held_by_cpus(), 0);
    for zone in memory.zones() {
        assert_eq!(zone.free, zone.managed, "{zone:?}");
    }
}

fn node(number: u16) -> NodeId {
    NodeId::new(number as u8).unwrap()
}

fn frames(start: Pfn, from: u64, to: u64) -> FrameRange {
    FrameRange::new(start.offset(from), start.offset(to)).unwrap()
}

fn pageblocks(start: Pfn, from: u64, to: u64) -> FrameRange {
    frames(start, from * 512, to * 512)
}
