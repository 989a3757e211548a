//! The whole library on processors with store buffers: an owner allocates and frees while its
//! lists are drained from elsewhere.
#![cfg(framewright_tso)]

#[path = "support/toy.rs"]
mod toy;

use framewright::{
    Block, Config, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Platform, Request,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::tso::{self, Barrier, Explorer},
    tuning::Auto,
};
use toy::{leaked, mostly_nothing};

/// A machine of model threads. Without barriers, the tests expect it to fail.
struct Machine {
    kind: OwnerLock,
    barriers: bool,
}

// SAFETY: the lock is the library's own. The remote barrier is that of the model; tests without it
// expect a failure.
unsafe impl Platform for Machine {
    mostly_nothing!();

    fn owner_lock(&self) -> OwnerLock {
        self.kind
    }

    fn remote_barrier(&self, _target: BarrierTarget) {
        if self.barriers {
            tso::remote_barrier(Barrier::All);
        }
    }

    fn wait(&self, _why: Wait, _spins: u32) {
        tso::yield_now();
    }
}

impl Probe for Machine {}

/// The frames of one whole pageblock. In a partial pageblock the owner's fast path would not be
/// taken.
const FRAMES: u64 = 512;

/// A memory that lives as long as the process. There are many executions, but the memory is small.
fn memory(machine: Machine) -> &'static Memory<'static, Machine> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.set("pcp.bundle_slots", "64").unwrap();
    leaked(machine, &config)
}

/// The owner allocates the frames on its list while the list is drained.
fn drained_at_work(kind: OwnerLock, barriers: bool) -> impl Fn() + Sync {
    move || {
        const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
        let memory = memory(Machine { kind, barriers });
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        drop(token);
        let owner = tso::spawn(move || {
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            token.alloc(PAGE).map(Block::into_raw).unwrap();
        });
        memory.drain_all();
        owner.join();
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), FRAMES - 1);
    }
}

#[test]
fn an_owner_is_drained_while_it_frees() {
    for kind in [OwnerLock::Biased, OwnerLock::Trylock] {
        let explored = Explorer::new().random(1).executions(4000).run(drained_at_work(kind, true));
        println!("{:?}", explored.unwrap_or_else(|failure| panic!("{failure}")));
    }
}

#[test]
fn without_remote_barriers_a_drain_races_with_the_owner() {
    let explored =
        Explorer::new().random(1).executions(4000).run(drained_at_work(OwnerLock::Biased, false));
    println!("{}", explored.expect_err("a failure must be found"));
}

/// The owner frees a frame of a pageblock that is being isolated. In every order of steps, the
/// frame returns to the zone.
#[test]
fn isolation_waits_for_owners_inside_their_lists() {
    for kind in [OwnerLock::Biased, OwnerLock::Trylock] {
        let explorer = Explorer::new().random(1).executions(4000);
        let explored = explorer.run(move || {
            let memory = memory(Machine { kind, barriers: true });
            let page = Request::new(Order::ZERO, MigrateType::Movable);
            let block = memory.cpu(CpuId::new(0)).unwrap().alloc(page).map(Block::into_raw);
            let (pfn, order) = block.unwrap();
            let owner = tso::spawn(move || {
                let mut token = memory.cpu(CpuId::new(0)).unwrap();
                // SAFETY: it was a block until `into_raw`.
                unsafe { token.free_raw(pfn, order) }.unwrap();
            });
            let isolated = memory.isolate(pfn).unwrap();
            owner.join();
            assert_eq!(memory.held_by_cpus(), 0, "a frame of the pageblock was left behind");
            memory.undo_isolate(isolated).unwrap();
            memory.check().unwrap();
            assert_eq!(memory.free(), FRAMES);
        });
        println!("{:?}", explored.unwrap_or_else(|failure| panic!("{failure}")));
    }
}

/// The owner frees a frame, and allocates one, while the memory is being removed. Either the
/// removal fails, or the owner has no frame of that memory left.
fn removed_at_work(kind: OwnerLock, barriers: bool) -> impl Fn() + Sync {
    move || {
        let memory = memory(Machine { kind, barriers });
        let page = Request::new(Order::ZERO, MigrateType::Movable);
        let block = memory.cpu(CpuId::new(0)).unwrap().alloc(page).map(Block::into_raw);
        let (pfn, order) = block.unwrap();
        let owner = tso::spawn(move || {
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            // SAFETY: it was a block until `into_raw`.
            unsafe { token.free_raw(pfn, order) }.unwrap();
            if let Ok(block) = token.alloc(page) {
                token.free(block).unwrap();
            }
        });
        let all = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap();
        let removed = memory.remove_memory(all, &mut |_| ()).is_ok();
        owner.join();
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), memory.managed());
        assert_eq!(memory.free(), if removed { 0 } else { FRAMES });
    }
}

#[test]
fn memory_is_removed_while_an_owner_frees() {
    for kind in [OwnerLock::Biased, OwnerLock::Trylock] {
        let explored = Explorer::new().random(1).executions(4000).run(removed_at_work(kind, true));
        println!("{:?}", explored.unwrap_or_else(|failure| panic!("{failure}")));
    }
}

#[test]
fn without_remote_barriers_a_removal_races_with_the_owner() {
    let explored =
        Explorer::new().random(1).executions(4000).run(removed_at_work(OwnerLock::Biased, false));
    println!("{}", explored.expect_err("a failure must be found"));
}
