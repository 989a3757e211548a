//! A machine for one thread, and memories that live as long as the process.

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    platform::OwnerLock,
    tlb::{Flusher, NoShootdown},
    tuning::{Auto, Tuning},
};

use framewright_fakes::{leaked, raw};

pub(crate) use framewright_fakes::FakePlatform as Machine;

pub(crate) const CPU: CpuId = CpuId::new(0);
pub(crate) const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

pub(crate) type TestMemory = Memory<'static, Machine>;

/// An allocator with `frames` frames and no reserves.
pub(crate) fn memory(frames: u64, tune: impl FnOnce(&mut Tuning)) -> &'static TestMemory {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(frames)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.side_tables.lru = true;
    tune(&mut config.tuning);
    leaked(Machine::new(OwnerLock::Trylock), &config)
}

/// Allocates every frame that is free.
pub(crate) fn take_all(
    memory: &TestMemory,
    token: &mut CpuToken<'_, 'static, Machine>,
) -> Vec<Block<'static>> {
    memory.drain_all();
    std::iter::from_fn(|| token.alloc(PAGE.no_wait()).ok()).collect()
}

/// Asserts that every frame is in only one of `blocks`.
pub(crate) fn assert_apart(blocks: &[Block<'_>]) {
    framewright_fakes::assert_apart(blocks.iter().map(raw));
}

/// Frees all blocks with the token. Checks that every frame of the memory is free then.
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
}

/// The flusher of CPU 0. There are no translations.
pub(crate) fn flusher(memory: &TestMemory) -> Flusher<'_, 'static, Machine> {
    // SAFETY: no CPU of this machine caches translations.
    unsafe { memory.flusher(CPU, &NoShootdown) }
}
