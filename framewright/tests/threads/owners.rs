//! Owners on real threads work while another thread drains their lists. They use the try-lock
//! protocol, which needs no barrier of the machine. `framewright-host` tests the biased protocol on
//! a machine with barriers. Under Miri, which detects data races, the test is small.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::{
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
    thread,
};

use framewright::{
    Block, Config, FrameRange, Memory, MigrateType, Order, Pfn, Request, ZoneId, tuning::Auto,
};
use framewright_fakes::{FakePlatform, Metadata, cpu, order};

const FRAMES: usize = 2048;
const ROUNDS: u32 = if cfg!(miri) { 20 } else { 300_000 };

/// The owner of each frame, recorded by the owners.
struct Owned(Vec<AtomicU8>);

impl Owned {
    fn mark(&self, block: &Block<'_>, from: u8, to: u8) {
        let first = block.pfn().get() as usize;
        for frame in &self.0[first..first + block.order().frames() as usize] {
            let before = frame.swap(to, Ordering::Relaxed);
            assert_eq!(before, from, "{block:?} belongs to two owners");
        }
    }
}

/// Allocates and frees at random on CPU `number`. Owns at most about 100 blocks at a time.
fn work(memory: &Memory<'_, FakePlatform>, owned: &Owned, number: u16) {
    let mut token = memory.cpu(cpu(number)).unwrap();
    let me = number as u8 + 1;
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut state = u32::from(number) + 1;
    for _ in 0..ROUNDS {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 || blocks.len() > 100 {
            if let Some(i) = (state as usize >> 8).checked_rem(blocks.len()) {
                let block = blocks.swap_remove(i);
                owned.mark(&block, me, 0);
                token.free(block).unwrap();
            }
        } else {
            let of = MigrateType::REQUESTABLE[state as usize >> 12 & 1];
            let size = order([0, 0, 0, 0, 1, 2, 3, 5][state as usize >> 16 & 7]);
            if let Ok(block) = token.alloc(Request::new(size, of)) {
                owned.mark(&block, 0, me);
                blocks.push(block);
            }
        }
    }
    for block in blocks {
        owned.mark(&block, me, 0);
        token.free(block).unwrap();
    }
}

#[test]
fn owners_are_drained_while_they_work() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES as u64)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.pcp.batch = Auto::Fixed(15);
    let mut metadata = Metadata::of::<FakePlatform>(&config);
    let memory = Memory::new(FakePlatform::threaded(), &config, metadata.as_mut()).unwrap();
    let owned = Owned((0..FRAMES).map(|_| AtomicU8::new(0)).collect());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let drainer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                memory.drain_all();
                let _ = memory.drain_cpu(cpu(1));
                memory.trim_all();
                let _ = memory.stats();
                thread::yield_now();
            }
        });
        let workers = [0, 1].map(|number| {
            let (memory, owned) = (&memory, &owned);
            scope.spawn(move || work(memory, owned, number))
        });
        let results = workers.map(thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Relaxed);
        drainer.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), FRAMES as u64);
    assert_eq!(
        memory.block_counts(ZoneId::default()).yields(Order::PAGEBLOCK),
        FRAMES as u64 / 512
    );
}
