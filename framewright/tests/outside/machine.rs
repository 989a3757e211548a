//! A machine with one thread, and memories that live as long as the process.

use std::sync::{Mutex, OnceLock};

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, Memory, MigrateType, Order, Pfn, Platform, Request,
    global::Pinning,
    observe::Corruption,
    platform::{BarrierTarget, NoRelief, OwnerLock, Probe, Relief, Wait},
    tlb::{Flusher, NoShootdown},
    tuning::{Auto, Tuning},
};

use crate::toy::{leaked, mostly_nothing};

#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) relief: OnceLock<&'static (dyn Relief + Sync)>,
    reports: Mutex<Vec<Corruption>>,
}

impl Machine {
    /// Reports of hardening.
    pub(crate) fn reports(&self) -> Vec<Corruption> {
        self.reports.lock().unwrap().clone()
    }
}

// SAFETY: the lock is the library's own; owners use try-locks, which need no barrier.
unsafe impl Platform for Machine {
    mostly_nothing!(but corruption);

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Trylock
    }

    fn remote_barrier(&self, _: BarrierTarget) {}

    fn wait(&self, why: Wait, spins: u32) {
        assert!(spins < 1000, "waits for ever: {why:?}");
    }

    fn relief(&self) -> &dyn Relief {
        match self.relief.get() {
            Some(relief) => *relief,
            None => &NoRelief,
        }
    }

    fn corruption(&self, report: &Corruption) {
        self.reports.lock().unwrap().push(*report);
    }
}

impl Probe for Machine {}

// SAFETY: each memory of these tests is used by one thread, which plays CPU 0.
unsafe impl Pinning for Machine {
    type Pin = ();

    fn pin(&self) -> (CpuId, ()) {
        (CPU, ())
    }

    fn unpin(&self, (): ()) {}
}

pub(crate) const CPU: CpuId = CpuId::new(0);
pub(crate) const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

pub(crate) type TestMemory = Memory<'static, Machine>;

/// A memory of `frames` frames without reserves.
pub(crate) fn memory(frames: u64, tune: impl FnOnce(&mut Tuning)) -> &'static TestMemory {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(frames)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.side_tables.lru = true;
    tune(&mut config.tuning);
    leaked(Machine::default(), &config)
}

/// Allocates every frame that is free.
pub(crate) fn take_all(
    memory: &TestMemory,
    token: &mut CpuToken<'_, 'static, Machine>,
) -> Vec<Block<'static>> {
    memory.drain_all();
    std::iter::from_fn(|| token.alloc(PAGE.no_wait()).ok()).collect()
}

/// Every frame of `blocks` once.
pub(crate) fn assert_apart(blocks: &[Block<'_>]) {
    let frames = |block: &Block<'_>| block.pfn().get()..block.pfn().get() + block.order().frames();
    let mut all: Vec<u64> = blocks.iter().flat_map(frames).collect();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "a frame has two owners");
}

/// Frees all blocks by the token, and checks that every frame of the memory is free then.
pub(crate) fn assert_complete(
    memory: &TestMemory,
    token: &mut CpuToken<'_, 'static, Machine>,
    blocks: Vec<Block<'static>>,
) {
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
    memory.drain_all();
    memory.check().unwrap();
    let managed: u64 = memory.zones().map(|zone| zone.managed).sum();
    assert_eq!(memory.free(), managed, "a frame is lost");
    assert_eq!(memory.platform().reports(), []);
}

/// The flusher of CPU 0. There are no translations.
pub(crate) fn flusher(memory: &TestMemory) -> Flusher<'_, 'static, Machine> {
    // SAFETY: no CPU of this machine caches translations.
    unsafe { memory.flusher(CPU, &NoShootdown) }
}
