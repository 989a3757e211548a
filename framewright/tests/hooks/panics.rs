//! Simulation hooks panic while a CPU works on its own lists. Frames on the lists may be lost, but
//! no frame has two owners, and the memory still works.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, MigrateType, Order, Pfn, Request,
    platform::{OwnerLock, Section},
    tuning::Auto,
};

use framewright_fakes::{
    FailNth, FakePlatform, ProbeCall, ProbedPlatform, assert_apart, leaked, raw,
};

const FRAMES: u64 = 8 * 512;
const CPU: CpuId = CpuId::new(0);

/// The entered sections. The hooks panic once, after some calls inside the lists of a CPU.
#[derive(Default)]
struct Inside {
    lists: AtomicBool,
    zone: AtomicBool,
}

impl Inside {
    fn set(&self, section: Section, inside: bool) {
        match section {
            Section::Lists(..) => self.lists.store(inside, Relaxed),
            Section::Zone(_) => self.zone.store(inside, Relaxed),
            _ => {}
        }
    }

    fn only_lists(&self) -> bool {
        self.lists.load(Relaxed) && !self.zone.load(Relaxed)
    }
}

type Held = Vec<Option<Block<'static>>>;

/// Allocates and frees so many blocks that some move to the store behind the rings and back.
fn work(token: &mut CpuToken<'_, 'static, ProbedPlatform>, held: &mut Held) {
    let request =
        |order: u64| Request::new(Order::new(order as u8).unwrap(), MigrateType::Movable).no_wait();
    for round in 0..3 {
        for at in 0..400 {
            let order = if at % 8 == 0 { at / 8 % 4 } else { 0 };
            held.extend(token.alloc(request(order)).ok().map(Some));
        }
        // This order frees neighbours far apart in time.
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
    let (fault, inside) =
        (Box::leak(Box::new(FailNth::new())), Box::leak(Box::new(Inside::default())));
    let (fault, inside): (&'static FailNth, &'static Inside) = (fault, inside);
    fault.arm(at);
    let machine = FakePlatform::new(owner_lock).probed();
    machine.on_probe(|call| match call {
        ProbeCall::Enter(section) => inside.set(section, true),
        ProbeCall::Leave(section) => inside.set(section, false),
        ProbeCall::Cost(..) | ProbeCall::Touch(..) if inside.only_lists() => fault.panic_at_nth(),
        _ => {}
    });
    let memory = leaked(machine, &config);
    let mut held = Held::new();
    let mut token = memory.cpu(CPU).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| work(&mut token, &mut held))).is_err();
    fault.disarm();
    inside.lists.store(false, Relaxed);
    work(&mut token, &mut held);
    drop(token);
    memory.drain_all();
    memory.check_zones().unwrap();
    let single = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
    let free = std::iter::from_fn(|| memory.alloc_bypassing_lists(single).ok());
    let count = assert_apart(held.iter().flatten().map(raw).chain(free.map(Block::into_raw)));
    assert!(panicked || count == FRAMES, "frames are lost without a panic");
    panicked
}

#[test]
fn a_frame_never_has_two_owners_though_a_hook_panics_inside_the_lists() {
    for owner_lock in [OwnerLock::Biased, OwnerLock::Trylock] {
        // Tries each of the first calls, and then some calls of all kinds of work.
        let some = (1..100).chain((100..).step_by(31));
        let calls = some.take_while(|&at| panics(at, owner_lock)).count();
        assert!(calls > 150, "{calls}");
    }
}
