//! A hook of the platform panics at one of its calls. The tests try each call. No frame is lost or
//! has two owners, and the memory still works.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::{
    Block, Config, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    tlb::{BatchSlot, Flusher, NoShootdown},
    tuning::Auto,
};

use framewright_fakes::{FailNth, FakePlatform, TracedPlatform, assert_apart, leaked, raw};

const FRAMES: u64 = 8 * 512;
const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

/// An allocator whose hooks panic at the selected call.
type Tested = Memory<'static, TracedPlatform>;

fn request(order: u8) -> Request {
    Request::new(Order::new(order).unwrap(), MigrateType::Movable).no_wait().zeroed()
}

fn pageblocks(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start * 512), Pfn::new(end * 512)).unwrap()
}

/// Blocks with an owner. They stay in this vector during bulk frees, so that a panic drops none of
/// them.
type Held = Vec<Option<Block<'static>>>;

/// An operation that calls hooks.
type Step = fn(&'static Tested, &mut Held);

const STEPS: [Step; 7] = [
    |memory, held| {
        let mut token = memory.cpu(CPU).unwrap();
        (0..40).for_each(|at| held.push(Some(token.alloc(request(at % 4)).unwrap())));
        let first = held.len();
        held.resize_with(first + 8, || None);
        token.alloc_bulk(request(0), &mut held[first..]);
        held.push(Some(memory.alloc_bypassing_lists(request(3)).unwrap()));
    },
    |memory, held| {
        let mut token = memory.cpu(CPU).unwrap();
        while held.len() > 20 {
            if let Some(block) = held.swap_remove(held.len() / 2) {
                token.free(block).unwrap();
            }
        }
        let first = held.len().saturating_sub(8);
        token.free_bulk(&mut held[first..]);
        if let Some(block) = held.first_mut().and_then(Option::take) {
            memory.free_bypassing_lists(block).unwrap();
        }
    },
    |memory, held| {
        let mut slots = [BatchSlot::default(); 16];
        let mut batch = flusher(memory).batch(&mut slots);
        for block in held.iter_mut() {
            if !batch.is_full() && block.as_ref().is_some_and(|block| block.order() == Order::ZERO)
            {
                batch.retire(block.take().unwrap()).unwrap();
            }
        }
        batch.finish(&mut |blocks| drop(blocks));
    },
    |memory, _| {
        let isolated = memory.isolate(Pfn::new(7 * 512)).unwrap();
        memory.undo_isolate(isolated).unwrap();
        memory.drain_all();
    },
    |memory, _| memory.cpu_offline(OTHER).unwrap(),
    |memory, _| {
        memory.cpu_online(OTHER).unwrap();
        let mut token = memory.cpu(OTHER).unwrap();
        let block = token.alloc(request(0)).unwrap();
        token.free(block).unwrap();
    },
    |memory, _| {
        // Blocks with an owner may prevent this.
        for block in 0..8 {
            let one = pageblocks(block, block + 1);
            if memory.remove_memory(one, &mut |_| ()).is_ok() {
                memory.add_memory(one).unwrap();
            }
            if let Ok(extent) = memory.alloc_range(one, MigrateType::Movable, &mut |_| ()) {
                memory.free_extent(extent).unwrap();
            }
        }
    },
];

fn flusher(memory: &'static Tested) -> Flusher<'static, 'static, TracedPlatform> {
    // SAFETY: no CPU caches translations to these frames.
    unsafe { memory.flusher(CPU, &NoShootdown) }
}

fn memory(fault: &'static FailNth) -> &'static Tested {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    // Lists so short that blocks leave them.
    config.tuning.pcp.high_fraction = 256;
    let platform = FakePlatform::default().traced();
    platform.on_clear(|_, _| fault.panic_at_nth());
    platform.on_trace(|_, _| fault.panic_at_nth());
    leaked(platform, &config)
}

/// Asserts that no frame has two owners: a frame is in at most one block of `held`, and is not also
/// free. Returns the number of frames that are neither.
fn lost_frames(memory: &'static Tested, held: &Held) -> u64 {
    flusher(memory).drain_deferred(&mut |blocks| drop(blocks));
    memory.drain_all();
    memory.check_zones().unwrap();
    let free = std::iter::from_fn(|| memory.alloc_bypassing_lists(request(0)).ok());
    FRAMES - assert_apart(held.iter().flatten().map(raw).chain(free.map(Block::into_raw)))
}

/// Runs all steps. The hook panics at call number `at`. Returns the number of lost frames; `None`
/// if there were fewer calls.
fn lost(at: u32) -> Option<u64> {
    let fault = Box::leak(Box::new(FailNth::new()));
    let (memory, mut held) = (memory(fault), Vec::new());
    fault.arm(at);
    let mut panics = 0;
    for step in STEPS {
        panics += u32::from(catch_unwind(AssertUnwindSafe(|| step(memory, &mut held))).is_err());
    }
    fault.disarm();
    let has_panicked = fault.has_fired();
    assert_eq!(panics, u32::from(has_panicked), "a step failed later, because of call {at}");
    Some(lost_frames(memory, &held)).filter(|_| has_panicked)
}

#[test]
fn a_frame_never_has_two_owners_whichever_hook_panics() {
    let all: Vec<u64> = (1..).map_while(lost).collect();
    assert!(all.len() > 100, "{}", all.len());
    assert!(all.iter().all(|&lost| lost == 0), "{all:?}");
}
