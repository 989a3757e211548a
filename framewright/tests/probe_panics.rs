//! Simulation hooks that panic while a CPU works on its own lists: frames on the lists may be lost,
//! but no frame has two owners, and the memory still works.
#![cfg(not(any(framewright_loom, framewright_tso)))]

mod support;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, MigrateType, Order, Pfn, Platform, Request,
    observe::Corruption,
    platform::{Access, BarrierTarget, Cost, Line, Miss, OwnerLock, Probe, Section, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::Auto,
};

use support::toy::leaked;

const FRAMES: u64 = 8 * 512;
const CPU: CpuId = CpuId::new(0);

/// A machine on which a hook panics once, after some calls inside the lists of a CPU.
struct Machine {
    calls_left: AtomicU32,
    in_lists: AtomicBool,
    in_zone: AtomicBool,
    owner_lock: OwnerLock,
}

impl Machine {
    fn set(&self, section: Section, inside: bool) {
        match section {
            Section::Lists(..) => self.in_lists.store(inside, Relaxed),
            Section::Zone(_) => self.in_zone.store(inside, Relaxed),
            _ => {}
        }
    }

    fn call(&self) {
        if self.in_lists.load(Relaxed) && !self.in_zone.load(Relaxed) {
            assert!(self.calls_left.fetch_sub(1, Relaxed) != 1, "the hook panics");
        }
    }
}

impl Probe for Machine {
    const LISTENING: bool = true;

    fn cost(&self, _: Cost, _: u32) {
        self.call();
    }
    fn touch(&self, _: Line, _: Access, _: Miss) {
        self.call();
    }
    fn enter(&self, section: Section) {
        self.set(section, true);
    }
    fn leave(&self, section: Section) {
        self.set(section, false);
    }
}

// SAFETY: the lock is the library's own; there is one thread, which needs no barriers.
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}
    fn owner_lock(&self) -> OwnerLock {
        self.owner_lock
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, why: Wait, spins: u32) {
        assert!(spins < 1000, "waits for ever: {why:?}");
    }
    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        0
    }
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

type Held = Vec<Option<Block<'static>>>;

/// Allocates and frees, so that blocks go to the store behind the rings and come back.
fn work(token: &mut CpuToken<'_, 'static, Machine>, held: &mut Held) {
    let request =
        |order: u64| Request::new(Order::new(order as u8).unwrap(), MigrateType::Movable).no_wait();
    for round in 0..3 {
        for at in 0..400 {
            let order = if at % 8 == 0 { at / 8 % 4 } else { 0 };
            held.extend(token.alloc(request(order)).ok().map(Some));
        }
        // Neighbours are freed far apart in time.
        let len = held.len();
        for at in (0..7).flat_map(|first| (first..len).step_by(7)).skip(round * 40) {
            if let Some(block) = held[at].take() {
                token.free(block).unwrap();
            }
        }
        held.retain(Option::is_some);
    }
}

/// Whether the hook panicked at call number `at`. Asserts that no frame has two owners then.
fn panics(at: u32, owner_lock: OwnerLock) -> bool {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let (in_lists, in_zone) = (AtomicBool::new(false), AtomicBool::new(false));
    let machine = Machine { calls_left: AtomicU32::new(at), in_lists, in_zone, owner_lock };
    let memory = leaked(machine, &config);
    let mut held = Held::new();
    let mut token = memory.cpu(CPU).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| work(&mut token, &mut held))).is_err();
    memory.platform().calls_left.store(0, Relaxed);
    memory.platform().in_lists.store(false, Relaxed);
    work(&mut token, &mut held);
    drop(token);
    memory.drain_all();
    memory.check_zones().unwrap();
    let single = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
    let free = std::iter::from_fn(|| memory.alloc_bypassing_lists(single).ok());
    let frames = |block: &Block<'_>| block.pfn().get()..block.pfn().get() + block.order().frames();
    let free: Vec<_> = free.collect();
    let mut all: Vec<u64> = held.iter().flatten().chain(&free).flat_map(frames).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "a frame has two owners because of call {at}");
    assert!(panicked || count as u64 == FRAMES, "frames are lost without a panic");
    panicked
}

#[test]
fn a_frame_never_has_two_owners_though_a_hook_panics_inside_the_lists() {
    for owner_lock in [OwnerLock::Biased, OwnerLock::Trylock] {
        // All of the first calls, then some calls of all kinds of work.
        let some = (1..100).chain((100..).step_by(31));
        let calls = some.take_while(|&at| panics(at, owner_lock)).count();
        assert!(calls > 150, "{calls}");
    }
}
