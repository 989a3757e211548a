//! A platform may call any method from its trace hook, because no lock is held there. So tests use
//! the hook to run code at the worst moment.
#![cfg(not(feature = "loom"))]

#[path = "support/toy.rs"]
mod toy;

use framewright::{
    Block, Config, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Platform, Request,
    observe::Event,
    platform::{BarrierTarget, OwnerLock, Wait},
};
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use toy::{leaked, mostly_nothing};

type Traced = Memory<'static, Machine>;

/// A machine that runs `then` once, at the first event that `when` selects.
struct Machine {
    memory: OnceLock<&'static Traced>,
    armed: AtomicBool,
    when: fn(&Event) -> bool,
    then: fn(&'static Traced, &Event),
}

// SAFETY: `SpinFlag` excludes; there is one thread, which needs no barriers.
unsafe impl Platform for Machine {
    mostly_nothing!();
    const TRACING: bool = true;

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, why: Wait, spins: u32) {
        assert!(spins < 1000, "waits forever: {why:?}");
    }
    fn trace(&self, _: CpuId, event: &Event) {
        if let Some(memory) = self.memory.get()
            && (self.when)(event)
            && self.armed.swap(false, Ordering::Relaxed)
        {
            (self.then)(memory, event);
        }
    }
}

/// A memory of 64 pageblocks on two CPUs.
fn memory(when: fn(&Event) -> bool, then: fn(&'static Traced, &Event)) -> &'static Traced {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(64 * 512)).unwrap().into()];
    let config = Config::new(&map, 2);
    let machine = Machine { memory: OnceLock::new(), armed: AtomicBool::new(true), when, then };
    let memory = leaked(machine, &config);
    assert!(memory.platform().memory.set(memory).is_ok());
    memory
}

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

#[test]
fn an_isolated_pageblock_is_not_used_by_a_refill_in_progress() {
    let memory = memory(
        |event| matches!(event, Event::PageAllocZoneLocked { .. }),
        |memory, event| {
            let Event::PageAllocZoneLocked { pfn, .. } = event else { return };
            // The isolation lasts: only an undo would end it.
            let _withheld = memory.isolate(*pfn).unwrap();
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
            "handed out after isolation"
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
    assert!(memory.held_by_cpus() > 0, "frames of the pageblock are on a list");
    let isolated = memory.isolate(pfn).expect("no frame of the pageblock is in use");
    memory.undo_isolate(isolated).unwrap();
    memory.check().unwrap();
}
