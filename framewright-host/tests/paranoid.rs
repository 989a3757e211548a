//! Hardening `tracked` and `paranoid` on real threads. One of two racing frees is refused. At
//! `paranoid`, with real memory, writes through stale pointers are detected.

use framewright::{
    Block, Config, CpuToken, FreeError, Layout, Memory, MigrateType, Order, Request,
    frame::FRAME_SIZE,
    observe::{Corruption, Finding},
    tuning::{Auto, Hardening},
};
use framewright_host::{HostMachine, Metadata};
use std::{
    sync::{Barrier, Mutex, atomic::Ordering::Relaxed},
    thread,
};

const FRAMES: u64 = 1024;
const CPUS: u16 = 2;

type Token<'a, 'm> = CpuToken<'a, 'm, HostMachine>;

fn on_memory(hardening: Hardening, test: impl FnOnce(&Memory<'_, HostMachine>)) {
    let machine = HostMachine::builder().frames(FRAMES).cpus(CPUS).build().unwrap();
    let map = [machine.frames().into()];
    let mut config = Config::new(&map, machine.cpus());
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = hardening;
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::for_layout(&layout).unwrap();
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    test(&memory);
}

fn on_cpu(test: impl FnOnce(&Memory<'_, HostMachine>, &mut Token<'_, '_>)) {
    on_memory(Hardening::Paranoid, |memory| {
        let me = memory.platform().register().unwrap();
        test(memory, &mut memory.cpu(me.id()).unwrap());
    });
}

/// Allocates all memory and frees it.
fn allocate_and_free_everything(memory: &Memory<'_, HostMachine>, token: &mut Token<'_, '_>) {
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let blocks: Vec<Block<'_>> = std::iter::from_fn(|| token.alloc(request).ok()).collect();
    assert_eq!(blocks.len() as u64, FRAMES);
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
    memory.check().unwrap();
}

#[test]
fn a_write_after_the_free_is_found_with_frame_and_offset() {
    on_cpu(|memory, token| {
        let request = Request::new(Order::new(3).unwrap(), MigrateType::Unmovable);
        let block = token.alloc(request).unwrap();
        let (pfn, order) = (block.pfn(), block.order());
        let stale = memory.platform().pointer(pfn, order).unwrap();
        memory.platform().words(&block)[0].store(7, Relaxed);
        token.free(block).unwrap();
        // SAFETY: the address is inside the mapping, and no other thread uses it. Only the
        // allocator's rules are violated.
        unsafe { stale.add(5 * FRAME_SIZE + 1234).write(0) };

        allocate_and_free_everything(memory, token);
        assert_eq!(memory.platform().corruptions(), 1);
        let what = Finding::WrittenWhileFree { offset: 1234 };
        let expected = Corruption { pfn: pfn.offset(5), order: Order::ZERO, what, count: 1 };
        assert_eq!(memory.platform().first_corruption(), Some(expected));
        assert_eq!(memory.stats().damaged_frames, 1);
    });
}

#[test]
fn a_write_beyond_the_end_of_a_block_is_found() {
    on_cpu(|memory, token| {
        // A first round poisons all frames.
        allocate_and_free_everything(memory, token);
        memory.drain_all();
        let block = token.alloc(Request::new(Order::ZERO, MigrateType::Movable)).unwrap();
        let next = block.pfn().offset(1);
        let neighbour = memory.platform().pointer(next, Order::ZERO).unwrap();
        // SAFETY: the address is inside the mapping, and no other thread uses it.
        unsafe { neighbour.write(1) };
        token.free(block).unwrap();
        allocate_and_free_everything(memory, token);
        let found = memory.platform().first_corruption().unwrap();
        assert_eq!((found.pfn, found.what), (next, Finding::WrittenWhileFree { offset: 0 }));
        assert_eq!(memory.platform().corruptions(), 1);
    });
}

#[test]
fn stores_of_owners_are_no_damage_and_zeroed_frames_are_zero() {
    on_cpu(|memory, token| {
        for round in 0..3 {
            let request = Request::new(Order::new(2).unwrap(), MigrateType::Movable).zeroed();
            let blocks: Vec<_> = std::iter::from_fn(|| token.alloc(request).ok()).collect();
            for mut block in blocks {
                assert!(memory.platform().is_zero(&block), "round {round}");
                memory.platform().fill(&mut block, round);
                token.free(block).unwrap();
            }
        }
        assert_eq!(memory.platform().first_corruption(), None);
    });
}

#[test]
fn of_two_frees_that_race_one_is_refused_at_tracked() {
    of_two_frees_that_race_one_is_refused(Hardening::Tracked);
}

#[test]
fn of_two_frees_that_race_one_is_refused_at_paranoid() {
    of_two_frees_that_race_one_is_refused(Hardening::Paranoid);
}

fn of_two_frees_that_race_one_is_refused(hardening: Hardening) {
    const ROUNDS: usize = 200;
    const BLOCKS: usize = 64;
    let meet = Barrier::new(CPUS.into());
    on_memory(hardening, |memory| {
        let racer = |is_first: bool, taken: &Mutex<Vec<_>>| {
            let me = memory.platform().register().unwrap();
            let mut token = memory.cpu(me.id()).unwrap();
            let mut won = 0;
            for round in 0..ROUNDS {
                if is_first {
                    let order = Order::new((round % 4) as u8).unwrap();
                    let request = Request::new(order, MigrateType::Movable);
                    let blocks = (0..BLOCKS).map(|_| token.alloc(request).unwrap().into_raw());
                    *taken.lock().unwrap() = blocks.collect::<Vec<_>>();
                }
                meet.wait();
                let blocks = taken.lock().unwrap().clone();
                meet.wait();
                for (pfn, order) in blocks {
                    // SAFETY: the second of the two frees violates the contract, and the hardening
                    // level detects that.
                    match unsafe { token.free_raw(pfn, order) } {
                        Ok(()) => won += 1,
                        Err(error) => assert_eq!(error, FreeError::AlreadyFree),
                    }
                }
                meet.wait();
            }
            won
        };
        let taken = Mutex::new(Vec::new());
        let won = thread::scope(|scope| {
            let other = scope.spawn(|| racer(false, &taken));
            [racer(true, &taken), other.join().unwrap()]
        });
        println!("won: {won:?}");
        assert_eq!(won.iter().sum::<usize>(), ROUNDS * BLOCKS);
        assert_eq!(memory.platform().corruptions(), (ROUNDS * BLOCKS) as u64);
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), FRAMES);
    });
}
