//! The whole library on processors with store buffers. An owner allocates and frees while another
//! thread drains its lists.
#![cfg(framewright_tso)]

use std::hash::{BuildHasher, RandomState};

use framewright::{
    Block, Config, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    platform::{OwnerLock, Wait},
    sync::tso::{self, Barrier, Explorer},
    tuning::Auto,
};
use framewright_fakes::{FakePlatform, leaked};

/// The frames of one whole pageblock. In a partial pageblock, the owner would not use its fast
/// path.
const FRAMES: u64 = 512;

/// A leaked memory. There are many executions, but the memory is small.
fn memory(kind: OwnerLock, barriers: bool) -> &'static Memory<'static, FakePlatform> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.set("pcp.bundle_slots", "64").unwrap();
    let platform = FakePlatform::new(kind);
    platform.on_wait(|why, _| {
        // An allocation pauses between its rounds, for a bounded number of rounds. No location has to change for it
        // to continue.
        if why != Wait::Memory {
            tso::yield_now();
        }
    });
    let barrier = move |_| {
        if barriers {
            tso::remote_barrier(Barrier::All);
        }
    };
    // SAFETY: the barrier is that of the model. Mutants have none, and the model must detect that.
    unsafe { platform.on_barrier(barrier) };
    leaked(platform, &config)
}

/// Explores a program with both kinds of owner lock. No execution may fail. Each test run draws other executions; a
/// failure prints its own, for a replay.
fn holds<P: Fn() + Sync>(program: impl Fn(OwnerLock) -> P) {
    let seed = RandomState::new().hash_one(0);
    for kind in [OwnerLock::Biased, OwnerLock::Trylock] {
        let explored = Explorer::new().random(seed).executions(4000).run(program(kind));
        println!("seed {seed}: {:?}", explored.unwrap_or_else(|failure| panic!("{failure}")));
    }
}

/// Explores a mutant. Some execution must fail. Most mutants fail soon; the rarest race needs many executions.
fn fails(mutant: impl Fn() + Sync) {
    let explored = Explorer::new().random(1).executions(60_000).run(mutant);
    println!("{}", explored.expect_err("no execution of the mutant failed"));
}

/// The owner allocates a frame from its list while the list is drained.
fn drained_at_work(kind: OwnerLock, barriers: bool) -> impl Fn() + Sync {
    move || {
        const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
        let memory = memory(kind, barriers);
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
fn an_owner_is_drained_while_it_allocates() {
    holds(|kind| drained_at_work(kind, true));
}

#[test]
fn without_remote_barriers_a_drain_races_with_the_owner() {
    fails(drained_at_work(OwnerLock::Biased, false));
}

/// The owner frees a frame of a pageblock during its isolation. In every order of steps, the frame
/// returns to the zone.
#[test]
fn isolation_waits_for_owners_inside_their_lists() {
    holds(|kind| {
        move || {
            let memory = memory(kind, true);
            let page = Request::new(Order::ZERO, MigrateType::Movable);
            let block = memory.cpu(CpuId::new(0)).unwrap().alloc(page).map(Block::into_raw);
            let (pfn, order) = block.unwrap();
            let owner = tso::spawn(move || {
                let mut token = memory.cpu(CpuId::new(0)).unwrap();
                // SAFETY: the frames were a block until `into_raw`.
                unsafe { token.free_raw(pfn, order) }.unwrap();
            });
            let isolated = memory.isolate(pfn).unwrap();
            owner.join();
            assert_eq!(memory.held_by_cpus(), 0, "a frame of the pageblock was left behind");
            memory.undo_isolate(isolated).unwrap();
            memory.check().unwrap();
            assert_eq!(memory.free(), FRAMES);
        }
    });
}

/// The owner frees a frame and allocates a frame while the memory is being removed. Either the
/// removal fails, or the owner has no frame of the removed memory.
fn removed_at_work(kind: OwnerLock, barriers: bool) -> impl Fn() + Sync {
    move || {
        let memory = memory(kind, barriers);
        let page = Request::new(Order::ZERO, MigrateType::Movable);
        let block = memory.cpu(CpuId::new(0)).unwrap().alloc(page).map(Block::into_raw);
        let (pfn, order) = block.unwrap();
        let owner = tso::spawn(move || {
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            // SAFETY: the frames were a block until `into_raw`.
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
    holds(|kind| removed_at_work(kind, true));
}

#[test]
fn without_remote_barriers_a_removal_races_with_the_owner() {
    fails(removed_at_work(OwnerLock::Biased, false));
}
