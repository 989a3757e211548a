//! A platform may call any method from its trace hook, because the library holds no lock there. So
//! the tests use the hook to run code at the worst moment.

use framewright::{
    Block, Config, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Request, observe::Event,
};
use std::{
    ops::Deref,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use framewright_fakes::{FakePlatform, TracedPlatform, leaked};

/// An allocator, and whether its hook must still run.
struct Traced {
    memory: &'static Memory<'static, TracedPlatform>,
    armed: AtomicBool,
}

impl Deref for Traced {
    type Target = Memory<'static, TracedPlatform>;

    fn deref(&self) -> &Self::Target {
        self.memory
    }
}

/// An allocator with 64 pageblocks on two CPUs. The hook runs `then` once, at the first event that `when` selects.
fn memory(when: fn(&Event) -> bool, then: fn(&'static Traced, &Event)) -> &'static Traced {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(64 * 512)).unwrap().into()];
    let config = Config::new(&map, 2);
    let memory = leaked(FakePlatform::default().traced(), &config);
    let traced: &'static Traced = Box::leak(Box::new(Traced { memory, armed: true.into() }));
    memory.platform().on_trace(move |_, event| {
        if when(event) && traced.armed.swap(false, Ordering::Relaxed) {
            then(traced, event);
        }
    });
    traced
}

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

#[test]
fn an_isolated_pageblock_is_not_used_by_a_refill_in_progress() {
    let memory = memory(
        |event| matches!(event, Event::PageAllocZoneLocked { .. }),
        |memory, event| {
            let Event::PageAllocZoneLocked { pfn, .. } = event else { return };
            // The pageblock stays isolated, because the isolation is not undone.
            let _isolated = memory.isolate(*pfn).unwrap();
        },
    );
    let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
    let first = cpu.alloc(PAGE).unwrap();
    let isolated = first.pfn().align_down(Order::PAGEBLOCK);
    for _ in 0..200 {
        let block = cpu.alloc(PAGE).unwrap();
        assert_ne!(
            block.pfn().align_down(Order::PAGEBLOCK),
            isolated,
            "allocated after its isolation"
        );
    }
    memory.check().unwrap();
}

#[test]
fn a_tracer_may_drain_while_a_drain_is_traced() {
    let memory = memory(
        |event| matches!(event, Event::PagePcpuDrain { .. }),
        |memory, _| {
            memory.drain_cpu(CpuId::new(1)).unwrap();
            memory.drain_all();
        },
    );
    for id in [0, 1] {
        let mut cpu = memory.cpu(CpuId::new(id)).unwrap();
        let blocks: Vec<Block<'_>> = (0..100).map(|_| cpu.alloc(PAGE).unwrap()).collect();
        for block in blocks {
            cpu.free(block).unwrap();
        }
    }
    memory.drain_all();
    assert_eq!(memory.held_by_cpus(), 0);
    memory.check().unwrap();
}

#[test]
fn a_pageblock_whose_free_frames_lie_on_lists_can_be_isolated() {
    let memory = memory(|_| false, |_, _| ());
    let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
    let request = Request::new(Order::ZERO, MigrateType::Unmovable);
    let block = cpu.alloc(request).unwrap();
    let pfn = block.pfn();
    cpu.free(block).unwrap();
    assert!(memory.held_by_cpus() > 0, "no frames of the pageblock are on a list");
    let isolated = memory.isolate(pfn).expect("no frame of the pageblock is in use");
    memory.undo_isolate(isolated).unwrap();
    memory.check().unwrap();
}

/// Leaves frames on the lists of a CPU.
fn fill_lists(memory: &'static Traced, cpu: u16) {
    let mut cpu = memory.cpu(CpuId::new(cpu)).unwrap();
    let block = cpu.alloc(PAGE).unwrap();
    cpu.free(block).unwrap();
    assert!(memory.held_by_cpus() > 0);
}

fn pageblocks(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start * 512), Pfn::new(end * 512)).unwrap()
}

#[test]
fn a_tracer_may_add_and_remove_memory_while_a_removal_drains_lists() {
    let memory = memory(
        |event| matches!(event, Event::PagePcpuDrain { .. }),
        |memory, _| {
            memory.remove_memory(pageblocks(8, 16), &mut |_| ()).unwrap();
            memory.add_memory(pageblocks(8, 12)).unwrap();
        },
    );
    fill_lists(memory, 0);
    memory.remove_memory(pageblocks(0, 8), &mut |_| ()).unwrap();
    assert!(!memory.armed.load(Ordering::Relaxed), "no drain was traced");
    assert_eq!(memory.managed(), 52 * 512);
    memory.check().unwrap();
}

/// Runs an operation that drains lists. The trace hook panics during the drain.
fn interrupted(run: impl FnOnce(&'static Traced)) -> &'static Traced {
    let when = |event: &Event| matches!(event, Event::PagePcpuDrain { .. });
    let memory = memory(when, |_, _| panic!("the trace hook panics"));
    fill_lists(memory, 0);
    let run = std::panic::AssertUnwindSafe(|| run(memory));
    assert!(std::panic::catch_unwind(run).is_err());
    memory
}

#[test]
fn an_isolation_that_panics_is_undone() {
    // The number of trace events before the one that panics: those of the drain before the
    // isolation. So the panic is in the drain after the isolation.
    static LEFT: AtomicU64 = AtomicU64::new(0);
    let memory = memory(
        |event| matches!(event, Event::PagePcpuDrain { .. }),
        |memory, _| {
            let left = LEFT.fetch_sub(1, Ordering::Relaxed);
            assert!(left > 0, "the trace hook panics");
            if left == 1 {
                // The drain after the isolation needs these frames.
                fill_lists(memory, 0);
            }
            memory.armed.store(true, Ordering::Relaxed);
        },
    );
    fill_lists(memory, 1);
    LEFT.store(memory.held_by_cpus(), Ordering::Relaxed);
    let isolate = std::panic::AssertUnwindSafe(|| memory.isolate(Pfn::new(63 * 512)).map(drop));
    assert!(std::panic::catch_unwind(isolate).is_err());
    memory.drain_all();
    assert_eq!(memory.free(), 64 * 512, "a frame is isolated or lost");
    let isolated = memory.isolate(Pfn::new(63 * 512)).expect("the pageblock is still isolated");
    memory.undo_isolate(isolated).unwrap();
    memory.check().unwrap();
}

#[test]
fn a_cpu_is_not_claimed_after_a_panic_while_it_goes_offline() {
    let memory = interrupted(|memory| memory.cpu_offline(CpuId::new(0)).unwrap());
    memory.cpu_offline(CpuId::new(0)).unwrap();
    memory.cpu_online(CpuId::new(0)).unwrap();
    fill_lists(memory, 0);
    memory.drain_all();
    assert_eq!(memory.free(), 64 * 512, "a frame is lost");
    memory.check().unwrap();
}

#[test]
fn a_removal_that_panics_isolates_nothing() {
    let memory = interrupted(|memory| {
        memory.remove_memory(pageblocks(0, 64), &mut |_| ()).unwrap();
    });
    memory.drain_all();
    assert_eq!(memory.free(), 64 * 512, "a frame is lost");
    memory.remove_memory(pageblocks(0, 8), &mut |_| ()).unwrap();
    memory.check().unwrap();
}
