//! Tracing changes nothing: with and without events, the same operations leave the same state, and make the same calls
//! of the machine. And the events are complete.
#![cfg(not(framewright_tso))]

use std::{
    cell::Cell,
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use framewright::{
    Block, Config, CpuId, FrameRange, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn,
    Platform, Request, ZoneKind,
    observe::Event,
    platform::OwnerLock,
    tuning::{Auto, Hardening},
};

use framewright_fakes::{FailNth, FakePlatform, TracedPlatform, leaked};

const CPUS: u16 = 3;
const FRAMES: u64 = 16 * 512;

/// The calls of a machine.
#[derive(Default)]
struct Calls {
    barriers: AtomicU64,
    waits: AtomicU64,
    reports: Mutex<String>,
    /// The frames in events of drains.
    drained: AtomicU64,
}

/// Counts the calls of a machine.
fn counted<const TRACED: bool>(
    platform: FakePlatform<TRACED>,
) -> (FakePlatform<TRACED>, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let counts = Arc::clone(&calls);
    // SAFETY: one thread needs no barriers.
    unsafe {
        platform.on_barrier(move |_| {
            counts.barriers.fetch_add(1, Relaxed);
        });
    }
    let counts = Arc::clone(&calls);
    platform.on_wait(move |_, _| {
        counts.waits.fetch_add(1, Relaxed);
    });
    let counts = Arc::clone(&calls);
    platform.on_corruption(move |report| {
        writeln!(counts.reports.lock().unwrap(), "{report}").unwrap();
    });
    (platform, calls)
}

/// Counts the calls of a machine with tracing.
fn traced(kind: OwnerLock) -> (TracedPlatform, Arc<Calls>) {
    let (platform, calls) = counted(FakePlatform::new(kind).traced());
    let counts = Arc::clone(&calls);
    platform.on_trace(move |_, event| {
        if let Event::PagePcpuDrain { order, .. } = event {
            counts.drained.fetch_add(order.frames(), Relaxed);
        }
    });
    (platform, calls)
}

fn memory<P: Platform>(machine: P, hardening: Hardening) -> &'static Memory<'static, P> {
    let zone = |start: u64, kind| {
        let frames = FrameRange::new(Pfn::new(start), Pfn::new(start + FRAMES)).unwrap();
        MemoryRange::new(frames, NodeId::default(), kind)
    };
    let map = [zone(0, ZoneKind::Dma32), zone(FRAMES, ZoneKind::Normal)];
    let mut config = Config::new(&map, CPUS);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = hardening;
    leaked(machine, &config)
}

/// A random number below `end`.
fn below(seed: &Cell<u64>, end: u64) -> u64 {
    let mut x = seed.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    seed.set(x);
    (x >> 11) % end
}

fn request(seed: &Cell<u64>) -> Request {
    let order = Order::new([0, 0, 0, 1, 2, 3, 9][below(seed, 7) as usize]).unwrap();
    let of = [MigrateType::Movable, MigrateType::Unmovable][below(seed, 2) as usize];
    let request = Request::new(order, of).no_wait();
    if below(seed, 3) == 0 { request.zone(ZoneKind::Dma32) } else { request }
}

/// Frees a block on a CPU and on the next CPU, and drains both. One of the two frees is refused.
fn free_twice<P: Platform>(memory: &Memory<'_, P>, cpu: CpuId, block: Block<'_>) {
    let (pfn, order) = block.into_raw();
    for cpu in [cpu, CpuId::new((cpu.get() + 1) % CPUS)] {
        let mut token = memory.cpu(cpu).unwrap();
        // SAFETY: the caller owns the block for the first free. The second free violates the contract. It is refused at
        // once, or by the following drain.
        let _ = unsafe { token.free_raw(pfn, order) };
    }
    memory.drain_all();
}

/// One random operation.
fn step<P: Platform>(
    memory: &'static Memory<'static, P>,
    held: &mut Vec<Block<'static>>,
    seed: &Cell<u64>,
) {
    let cpu = CpuId::new(below(seed, CPUS.into()) as u16);
    let start = below(seed, 2 * FRAMES / 512) * 512;
    let pageblock = FrameRange::new(Pfn::new(start), Pfn::new(start + 512)).unwrap();
    match below(seed, 40) {
        0 => memory.drain_all(),
        1 => memory.drain_cpu(cpu).unwrap(),
        2 => {
            memory.cpu_offline(cpu).unwrap();
            memory.cpu_online(cpu).unwrap();
        }
        3 => {
            if let Ok(isolated) = memory.isolate(pageblock.start()) {
                memory.undo_isolate(isolated).unwrap();
            }
        }
        4 => {
            if let Ok(extent) = memory.alloc_range(pageblock, MigrateType::Movable, &mut |_| ()) {
                memory.free_extent(extent).unwrap();
            }
        }
        5 => {
            if memory.remove_memory(pageblock, &mut |_| ()).is_ok() {
                memory.add_memory(pageblock).unwrap();
            }
        }
        6 => {
            let block = memory.cpu(cpu).unwrap().alloc(request(seed));
            if let Ok(block) = block {
                free_twice(memory, cpu, block);
            }
        }
        at if at < 24 => {
            let mut token = memory.cpu(cpu).unwrap();
            let request = request(seed);
            held.extend(std::iter::from_fn(|| token.alloc(request).ok()).take(40));
        }
        _ => {
            let mut token = memory.cpu(cpu).unwrap();
            for _ in 0..60.min(held.len()) {
                let block = held.swap_remove(below(seed, held.len() as u64) as usize);
                token.free(block).unwrap();
            }
        }
    }
}

/// All visible state of an allocator after some operations.
fn state_after<P: Platform>(
    memory: &'static Memory<'static, P>,
    seed: u64,
    steps: u32,
) -> (String, u64) {
    let seed = Cell::new(seed);
    let mut held = Vec::new();
    (0..steps).for_each(|_| step(memory, &mut held, &seed));
    let mut text = String::new();
    memory.write_zoneinfo(&mut text).unwrap();
    memory.write_buddyinfo(&mut text).unwrap();
    memory.write_pagetypeinfo(&mut text).unwrap();
    writeln!(text, "{:?} {:?}", memory.check(), memory.stats()).unwrap();
    for cpu in (0..CPUS).map(CpuId::new) {
        writeln!(text, "{:?}", memory.cpu_stats(cpu)).unwrap();
    }
    held.iter().for_each(|block| writeln!(text, "{block:?}").unwrap());
    // The next allocations also show the order of free blocks.
    let request = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
    for cpu in (0..CPUS).map(CpuId::new) {
        let mut token = memory.cpu(cpu).unwrap();
        for _ in 0..500 {
            writeln!(text, "{:?}", token.alloc(request).map(|block| block.into_raw())).unwrap();
        }
    }
    (text, memory.stats().drained_frames)
}

#[test]
fn tracing_leaves_the_same_state_as_no_tracing() {
    for seed in 1..=12 {
        for hardening in [Hardening::Checked, Hardening::Tracked, Hardening::Paranoid] {
            let kind = [OwnerLock::Biased, OwnerLock::Trylock][seed as usize % 2];
            let (quiet, quiet_calls) = counted(FakePlatform::new(kind));
            let (traced, traced_calls) = traced(kind);
            let (text, _) = state_after(memory(quiet, hardening), seed * 7919, 200);
            let (other, drained) = state_after(memory(traced, hardening), seed * 7919, 200);
            assert_eq!(text, other, "seed {seed}, {hardening:?}");
            let counts = |calls: &Calls| (calls.barriers.load(Relaxed), calls.waits.load(Relaxed));
            assert_eq!(
                counts(&quiet_calls),
                counts(&traced_calls),
                "barriers and waits with seed {seed}, {hardening:?}"
            );
            let reports = traced_calls.reports.lock().unwrap();
            assert_eq!(
                *quiet_calls.reports.lock().unwrap(),
                *reports,
                "seed {seed}, {hardening:?}"
            );
            let traced = traced_calls.drained.load(Relaxed);
            assert_eq!(traced, drained, "the events do not match the drained frames");
        }
    }
}

/// A drain handles up to 64 lists of CPUs together, so here the lists of all CPUs for both zones are one group.
#[test]
fn a_refused_block_is_reported_with_its_own_frame() {
    let (platform, calls) = counted(FakePlatform::default());
    let memory = memory(platform, Hardening::Checked);
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let block = memory.cpu(CpuId::new(1)).unwrap().alloc(request).unwrap();
    let pfn = block.pfn();
    // The first lists of the group are those of the first zone.
    let mut token = memory.cpu(CpuId::new(0)).unwrap();
    let other = token.alloc(request.zone(ZoneKind::Dma32)).unwrap();
    token.free(other).unwrap();
    drop(token);
    assert!(pfn.get() >= FRAMES, "the frame is not of the second zone");
    free_twice(memory, CpuId::new(1), block);
    let reports = calls.reports.lock().unwrap();
    assert!(reports.contains(&format!("{pfn}")), "{pfn}: {reports}");
}

type Traced = Memory<'static, TracedPlatform>;

/// A trace hook that allocates, frees and drains during traces of a drain, and panics at one of these events.
#[derive(Default)]
struct ReentrantHook {
    memory: OnceLock<&'static Traced>,
    /// The number of events at which the hook acts.
    left: AtomicU32,
    fault: FailNth,
    drained: AtomicU64,
}

impl ReentrantHook {
    fn trace(&self, event: &Event) {
        let Event::PagePcpuDrain { order, .. } = event else { return };
        self.drained.fetch_add(order.frames(), Relaxed);
        self.fault.panic_at_nth();
        let memory = self.memory.get().unwrap();
        // The hook ignores events that it causes.
        let left = self.left.swap(0, Relaxed);
        if left > 0 {
            fill_lists(memory);
            memory.drain_all();
            self.left.store(left - 1, Relaxed);
        }
    }
}

/// Leaves many single frames on the lists of each CPU. Few of these are neighbours.
fn fill_lists(memory: &Traced) {
    for cpu in (0..CPUS).map(CpuId::new) {
        let mut token = memory.cpu(cpu).unwrap();
        let request = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
        let blocks: Vec<_> = (0..400).map(|_| token.alloc(request).unwrap()).collect();
        blocks.into_iter().for_each(|block| token.free(block).unwrap());
    }
}

/// A hook may drain a list again although some events of its previous drain are not emitted yet. If it panics, at most
/// the events of one batch are lost.
#[test]
fn each_drained_frame_is_traced_once_whatever_the_hook_does() {
    for panics_at in [0, 1, 5, 50, 300] {
        let hook = Arc::new(ReentrantHook::default());
        let platform = FakePlatform::default().traced();
        platform.on_trace({
            let hook = Arc::clone(&hook);
            move |_, event| hook.trace(event)
        });
        let memory = memory(platform, Hardening::Checked);
        assert!(hook.memory.set(memory).is_ok());
        fill_lists(memory);
        hook.left.store(4, Relaxed);
        hook.fault.arm(panics_at);
        let result = catch_unwind(AssertUnwindSafe(|| memory.drain_all()));
        assert_eq!(result.is_err(), panics_at > 0);
        hook.left.store(0, Relaxed);
        fill_lists(memory);
        memory.drain_all();
        memory.check().unwrap();
        let (traced, drained) = (hook.drained.load(Relaxed), memory.stats().drained_frames);
        // After a panic in the trace of a batch, the rest of that batch is not traced.
        assert!(drained - traced < if panics_at > 0 { 64 * 64 } else { 1 }, "{traced} {drained}");
        assert!(drained > 2000, "{drained}");
    }
}
