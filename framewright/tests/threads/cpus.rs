//! CPUs have one owner at a time, and go offline and online. Isolated pageblocks are isolated from
//! all CPUs.
#![cfg(not(framewright_loom))]

use framewright::{
    Config, CpuError, FrameRange, IsolateError, Memory, MigrateType, Order, Pfn, Request, ZoneId,
    tuning::Auto,
};
use framewright_fakes::{FakePlatform as Machine, Metadata, cpu};

/// Runs `test` on an allocator with two pageblocks, two CPUs, and batches of 63 frames.
fn on_memory(test: impl FnOnce(&Memory<'_, Machine>)) {
    on_memory_with(|_| (), test);
}

/// As [`on_memory`], with other settings.
fn on_memory_with(set: impl FnOnce(&mut Config<'_>), test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.pcp.batch = Auto::Fixed(63);
    set(&mut config);
    let mut metadata = Metadata::of::<Machine>(&config);
    test(&Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap());
}

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

#[test]
fn a_cpu_has_one_token_and_gets_it_back() {
    on_memory(|memory| {
        let token = memory.cpu(cpu(0)).unwrap();
        assert_eq!(memory.cpu(cpu(0)).err(), Some(CpuError::InUse(cpu(0))));
        drop(token);
        assert!(memory.cpu(cpu(0)).is_ok());
        assert_eq!(memory.cpu(cpu(2)).err(), Some(CpuError::NoSuchCpu(cpu(2))));
    });
}

#[test]
fn an_offline_cpu_holds_no_frames_and_has_no_token() {
    on_memory(|memory| {
        let mut token = memory.cpu(cpu(1)).unwrap();
        let block = token.alloc(PAGE).unwrap();
        assert!(memory.held_by_cpus() > 0, "the refill left no frames on the list");
        assert_eq!(memory.cpu_offline(cpu(1)), Err(CpuError::InUse(cpu(1))));
        drop(token);
        memory.cpu_offline(cpu(1)).unwrap();
        assert_eq!(memory.held_by_cpus(), 0);
        assert_eq!(memory.cpu(cpu(1)).err(), Some(CpuError::Offline(cpu(1))));

        memory.cpu(cpu(0)).unwrap().free(block).unwrap();
        memory.cpu_online(cpu(1)).unwrap();
        let mut token = memory.cpu(cpu(1)).unwrap();
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), 1024);
    });
}

/// The maximum number of frames of the first zone on the lists of each CPU.
fn highs(memory: &Memory<'_, Machine>) -> Vec<u64> {
    memory.pagesets(ZoneId::default()).map(|pageset| pageset.high).collect()
}

#[test]
fn online_cpus_share_the_capacity_of_lists() {
    let an_eighth = |config: &mut Config<'_>| {
        config.tuning.pcp.high_fraction = 8;
        config.tuning.pcp.batch = Auto::Fixed(8);
    };
    on_memory_with(an_eighth, |memory| {
        assert_eq!(highs(memory), [64, 64]);
        memory.cpu_offline(cpu(1)).unwrap();
        assert_eq!(highs(memory), [128, 0]);
        memory.cpu_online(cpu(1)).unwrap();
        assert_eq!(highs(memory), [64, 64]);
        // The CPU is online again, and its lists are in use again.
        let mut token = memory.cpu(cpu(1)).unwrap();
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        assert!(memory.held_by_cpus() > 1);
        token.drain();
    });
}

#[test]
fn a_drain_of_one_cpu_leaves_the_others_alone() {
    on_memory(|memory| {
        let (mut first, mut second) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
        let blocks = [first.alloc(PAGE).unwrap(), second.alloc(PAGE).unwrap()];
        let both = memory.held_by_cpus();
        memory.drain_cpu(cpu(0)).unwrap();
        let one = memory.held_by_cpus();
        assert!(0 < one && one < both);
        second.drain();
        assert_eq!(memory.held_by_cpus(), 0);
        for block in blocks {
            first.free(block).unwrap();
        }
        memory.check().unwrap();
    });
}

#[test]
fn an_isolated_pageblock_is_drained_and_serves_no_request() {
    on_memory(|memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let before = token.alloc(PAGE).unwrap();
        let isolated = memory.isolate(before.pfn()).unwrap();
        assert!(isolated.range().contains(before.pfn()));
        let twice = memory.isolate(before.pfn()).unwrap_err();
        assert_eq!(twice, IsolateError::AlreadyIsolated);
        // The list of the CPU contained neighbours of `before`.
        let blocks: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        assert_eq!(blocks.len(), 512);
        assert!(blocks.iter().all(|block| !isolated.range().contains(block.pfn())));
        // A block that is freed into the isolated pageblock stays there.
        token.free(before).unwrap();
        assert!(token.alloc(PAGE).is_err());
        memory.undo_isolate(isolated).unwrap();
        assert!(token.alloc(PAGE).map(|block| token.free(block)).is_ok());
        for block in blocks {
            token.free(block).unwrap();
        }
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.block_counts(ZoneId::default()).yields(Order::PAGEBLOCK), 2);
    });
}

#[test]
fn pinned_frames_forbid_isolation() {
    on_memory(|memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let pinned = token.alloc(Request::new(Order::ZERO, MigrateType::Unmovable)).unwrap();
        token.drain();
        let error = memory.isolate(pinned.pfn()).unwrap_err();
        assert_eq!(error, IsolateError::Unmovable { frames: 1 });
        token.free(pinned).unwrap();
        token.drain();
        let isolated = memory.isolate(Pfn::new(0)).unwrap();
        memory.undo_isolate(isolated).unwrap();
        memory.check().unwrap();
    });
}
