//! Traces of frees that panic while reclaim frees frames: no frame is lost or has two owners.
#![cfg(not(any(framewright_loom, framewright_tso)))]

mod support;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, Memory, MigrateType, NodeId, Order, Pfn, Platform,
    Request, SideTables, ZoneKind,
    observe::Event,
    platform::{BarrierTarget, Need, OwnerLock, Probe, Relief, Wait},
    reclaim::{
        PageKind, PageOwner, PageState, Reclaim, Reference, Released, Shadow, Unmapped, WriteOut,
    },
    tlb::{NoShootdown, Unmapping},
    tuning::Auto,
};

use support::toy::{leaked, mostly_nothing};

const FRAMES: u64 = 4 * 512;
const CPU: CpuId = CpuId::new(0);
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

/// A machine on which the trace of a free panics once, after some frees. It is also the owner of
/// pages, which are clean and unused.
#[derive(Default)]
struct Machine {
    frees_left: AtomicU32,
    memory: OnceLock<&'static Memory<'static, Machine>>,
    /// Frames with pages.
    pages: Mutex<BTreeSet<Pfn>>,
}

impl Machine {
    fn reclaim_of_memory(&self) -> Reclaim<'static, 'static, Machine> {
        let memory = self.memory.get().unwrap();
        // SAFETY: only frames of pages are released, once each; they came from blocks of order 0 of this memory. No
        // CPU caches translations.
        unsafe { Reclaim::new(memory, memory.platform(), &NoShootdown) }.unwrap()
    }
}

impl Probe for Machine {}

// SAFETY: the lock is the library's own; there is one thread, which needs no barriers.
unsafe impl Platform for Machine {
    mostly_nothing!();
    const TRACING: bool = true;

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, why: Wait, spins: u32) {
        assert!(spins < 1000, "waits for ever: {why:?}");
    }
    fn relief(&self) -> &dyn Relief {
        self
    }
    fn trace(&self, _: CpuId, event: &Event) {
        if matches!(event, Event::PageFree { .. }) {
            assert!(self.frees_left.fetch_sub(1, Relaxed) != 1, "the trace panics");
        }
    }
}

impl Relief for Machine {
    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.reclaim_of_memory().direct(need, frames)
    }
}

// SAFETY: a frame is released when it is removed from the set, once each time that it was added.
unsafe impl PageOwner<Machine> for Machine {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        let pages = self.pages.lock().unwrap();
        for (frame, out) in frames.iter().zip(out) {
            *out = pages.contains(frame).then(PageState::default);
        }
    }
    fn unlock(&self, _: &[Pfn]) {}
    fn referenced(&self, _: &[Pfn], _: &mut [Reference]) {}
    fn unmap(&self, _: &[Pfn], _: &mut Unmapping<'_, '_, '_, Machine>, out: &mut [Unmapped]) {
        out.fill(Unmapped::Removed { dirty: false });
    }
    fn write_out(&self, _: &[Pfn], out: &mut [WriteOut]) {
        out.fill(WriteOut::Refused);
    }
    fn release(&self, frames: &[Pfn], _: &[Shadow], out: &mut [Released]) {
        let mut pages = self.pages.lock().unwrap();
        for (frame, out) in frames.iter().zip(out) {
            *out = if pages.remove(frame) { Released::Released } else { Released::Busy };
        }
    }
}

/// An operation that frees pages: with a block for the caller, or in the background.
type Way = fn(&Machine, &mut CpuToken<'static, 'static, Machine>) -> Option<Block<'static>>;

const WAYS: [Way; 3] = [
    |_, token| token.alloc(PAGE).ok(),
    |machine, _| {
        machine.reclaim_of_memory().shrink_node(CPU, NodeId::default(), 100);
        None
    },
    |machine, token| {
        let reclaim = machine.reclaim_of_memory();
        let mut kswapd = reclaim.kswapd(NodeId::default()).unwrap();
        reclaim.wake(NodeId::default(), Order::ZERO, ZoneKind::Normal);
        (0..4).for_each(|_| _ = kswapd.step(token));
        None
    },
];

/// Fills the memory with pages and reclaims some of them. Free number `at` panics. Returns the
/// number of lost frames; `None` if there were fewer frees.
fn lost(at: u32, way: Way) -> Option<u64> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 1);
    config.side_tables = SideTables::default().with_lru();
    config.tuning.zone.min_free = Auto::Fixed(64);
    let memory = leaked(Machine::default(), &config);
    let machine = memory.platform();
    assert!(machine.memory.set(memory).is_ok());
    let (lru, mut token) = (memory.lru().unwrap(), memory.cpu(CPU).unwrap());
    while let Ok(block) = token.alloc(PAGE.no_wait()) {
        let (pfn, _) = block.into_raw();
        machine.pages.lock().unwrap().insert(pfn);
        lru.add(CPU, pfn, PageKind::File);
    }
    lru.drain_all();
    machine.frees_left.store(at, Relaxed);
    let mut held = Vec::new();
    let mut panics = 0;
    for _ in 0..3 {
        match catch_unwind(AssertUnwindSafe(|| way(machine, &mut token))) {
            Ok(block) => held.extend(block),
            Err(_) => panics += 1,
        }
    }
    machine.frees_left.store(0, Relaxed);
    drop(token);
    // SAFETY: no CPU caches translations.
    let flusher = unsafe { memory.flusher(CPU, &NoShootdown) };
    flusher.drain_deferred(&mut |blocks| drop(blocks));
    memory.drain_all();
    memory.check_zones().unwrap();
    let single = PAGE.no_wait().ignoring_watermarks();
    held.extend(std::iter::from_fn(|| memory.alloc_bypassing_lists(single).ok()));
    let mut all: Vec<Pfn> = held.iter().map(Block::pfn).collect();
    all.extend(machine.pages.lock().unwrap().iter());
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "a frame has two owners");
    assert!(panics <= 1, "a way failed later, because of free {at}");
    (panics == 1).then(|| FRAMES - count as u64)
}

#[test]
fn no_frame_that_reclaim_frees_is_lost_though_a_trace_panics() {
    for way in WAYS {
        let all: Vec<u64> = (1..).map_while(|at| lost(at, way)).collect();
        assert!(all.len() > 10, "{}", all.len());
        assert!(all.iter().all(|&lost| lost == 0), "{all:?}");
    }
}
