//! One allocator for a whole kernel, in a static.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::{cell::Cell, mem::MaybeUninit, sync::Barrier, thread};

use framewright::{
    Block, Config, CpuError, CpuId, FrameRange, FreeError, Global, InitError, Layout, MigrateType,
    Order, Pfn, Platform, Request,
    global::{GlobalError, GlobalInitError, OneCpu, Pinning},
    observe::Corruption,
    platform::{BarrierTarget, Need, OwnerLock, Probe, Relief, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::Auto,
};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
const FRAMES: u64 = 4096;

thread_local! {
    /// The CPU number of the thread.
    static CPU: Cell<u16> = const { Cell::new(0) };
    /// The number of calls of `pin` without `unpin`.
    static PINS: Cell<u32> = const { Cell::new(0) };
    /// Whether the machine panics when it is asked for its kind of owner lock.
    static FAILS: Cell<bool> = const { Cell::new(false) };
    /// The work of an interrupt handler during a request.
    static HANDLER: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// A machine with threads as its CPUs.
struct Threads;

// SAFETY: the lock is the library's. CPUs take try-locks to use their lists, and these need no
// barrier.
unsafe impl Platform for Threads {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}

    fn irq_restore(&self, (): ()) {}

    unsafe fn clear(&self, _: Pfn, _: Order) {}

    unsafe fn copy(&self, _: Pfn, _: Pfn) {}

    fn now(&self) -> u64 {
        0
    }

    fn owner_lock(&self) -> OwnerLock {
        assert!(!FAILS.get(), "the machine is not ready");
        OwnerLock::Trylock
    }

    fn remote_barrier(&self, _: BarrierTarget) {}

    fn wait(&self, _: Wait, _: u32) {
        thread::yield_now();
    }

    fn relief(&self) -> &dyn Relief {
        self
    }

    fn corruption(&self, _: &Corruption) {}
}

impl Probe for Threads {}

impl Relief for Threads {
    fn reclaim(&self, _: &Need, _: u64) -> u64 {
        if let Some(handler) = HANDLER.take() {
            handler();
        }
        0
    }
}

// SAFETY: the threads that share an allocator of these tests are different CPUs.
unsafe impl Pinning for Threads {
    type Pin = ();

    fn pin(&self) -> (CpuId, ()) {
        PINS.set(PINS.get() + 1);
        (CpuId::new(CPU.get()), ())
    }

    fn unpin(&self, (): ()) {
        PINS.set(PINS.get() - 1);
    }
}

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

fn start<const CPUS: usize>(
    global: &'static Global<Threads, CPUS>,
    cpus: u16,
) -> Result<(), GlobalInitError> {
    let map = [range(0, FRAMES).into()];
    let mut config = Config::new(&map, cpus);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let layout = Layout::new::<Threads>(&config).unwrap();
    let buffer = vec![MaybeUninit::<u8>::uninit(); layout.bytes() + layout.align()].leak();
    let start = buffer.as_ptr().align_offset(layout.align());
    global.init(Threads, &config, &mut buffer[start..])
}

/// Asserts that all frames are free again, and that no thread is pinned.
fn end<const CPUS: usize>(global: &'static Global<Threads, CPUS>) {
    let memory = global.memory().unwrap();
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), memory.managed());
    assert_eq!(PINS.get(), 0);
}

#[test]
fn nothing_works_before_it_is_initialised_and_once_is_enough() {
    static GLOBAL: Global<Threads, 2> = Global::new();
    static OTHER: Global<Threads, 1> = Global::new();
    assert_eq!(GLOBAL.alloc(PAGE).unwrap_err(), GlobalError::NotInitialised);
    assert!(matches!(GLOBAL.memory(), Err(GlobalError::NotInitialised)));
    // SAFETY: no handler runs.
    assert_eq!(unsafe { GLOBAL.release_cpu() }, Err(GlobalError::NotInitialised));
    // SAFETY: nothing is freed: the call is refused.
    let raw = unsafe { GLOBAL.free_raw(Pfn::new(0), Order::ZERO) };
    assert_eq!(raw, Err(FreeError::NotOurs));
    start(&OTHER, 1).unwrap();
    let foreign = GLOBAL.free(OTHER.alloc(PAGE).unwrap()).unwrap_err();
    // A failed call changes nothing.
    let many = GlobalInitError::TooManyCpus { declared: 2, given: 3 };
    assert_eq!(start(&GLOBAL, 3), Err(many));
    assert_eq!(many.to_string(), "the memory has 3 CPUs; the allocator was declared for 2");
    let map = [range(0, FRAMES).into()];
    let small = GLOBAL.init(Threads, &Config::new(&map, 2), &mut []);
    assert!(matches!(small, Err(GlobalInitError::Memory(InitError::MetadataTooSmall { .. }))));
    assert_eq!(GLOBAL.alloc(PAGE).unwrap_err(), GlobalError::NotInitialised);
    start(&GLOBAL, 2).unwrap();
    assert_eq!(start(&GLOBAL, 2), Err(GlobalInitError::AlreadyInitialised));
    let block = GLOBAL.alloc(PAGE).unwrap();
    let foreign = GLOBAL.free(foreign).unwrap_err();
    OTHER.free(foreign).unwrap();
    GLOBAL.free(block).unwrap();
    end(&GLOBAL);
    end(&OTHER);
}

#[test]
fn an_initialisation_that_panics_can_be_repeated() {
    static GLOBAL: Global<Threads, 1> = Global::new();
    FAILS.set(true);
    assert!(std::panic::catch_unwind(|| start(&GLOBAL, 1)).is_err());
    FAILS.set(false);
    assert_eq!(GLOBAL.alloc(PAGE).unwrap_err(), GlobalError::NotInitialised);
    start(&GLOBAL, 1).unwrap();
    GLOBAL.free(GLOBAL.alloc(PAGE).unwrap()).unwrap();
}

#[test]
fn of_several_cpus_one_initialises() {
    static GLOBAL: Global<Threads, 1> = Global::new();
    let barrier = Barrier::new(4);
    let results = thread::scope(|scope| {
        let init = || {
            barrier.wait();
            start(&GLOBAL, 1)
        };
        [(); 4].map(|()| scope.spawn(init)).map(|thread| thread.join().unwrap())
    });
    let refused = |result: &&_| **result == Err(GlobalInitError::AlreadyInitialised);
    assert_eq!(results.iter().filter(refused).count(), 3);
    assert!(results.contains(&Ok(())));
}

#[test]
fn a_cpu_that_was_not_declared_is_named_and_may_free() {
    static GLOBAL: Global<Threads, 4> = Global::new();
    start(&GLOBAL, 2).unwrap();
    let block = GLOBAL.alloc(PAGE).unwrap();
    for cpu in [2, 3, 4, 5] {
        CPU.set(cpu);
        let error = GLOBAL.alloc(PAGE).unwrap_err();
        assert_eq!(error.to_string(), format!("this memory has no CPU {cpu}"));
    }
    GLOBAL.free(block).unwrap();
    CPU.set(0);
    end(&GLOBAL);
}

#[test]
fn every_cpu_has_its_token() {
    const CPUS: u16 = 4;
    static GLOBAL: Global<Threads, { CPUS as usize }> = Global::new();
    start(&GLOBAL, CPUS).unwrap();
    let barrier = Barrier::new(usize::from(CPUS));
    thread::scope(|scope| {
        for cpu in 0..CPUS {
            let barrier = &barrier;
            scope.spawn(move || {
                CPU.set(cpu);
                barrier.wait();
                let mut held: Vec<Block<'static>> = Vec::new();
                for round in 0..if cfg!(miri) { 20 } else { 2000 } {
                    let order = Order::new((round % 4) as u8).unwrap();
                    held.extend(GLOBAL.alloc(PAGE.of_order(order)));
                    if round % 3 == 2 {
                        GLOBAL.free(held.swap_remove(round % held.len())).unwrap();
                    }
                    if held.len() > 60 {
                        held.drain(..40).for_each(|block| GLOBAL.free(block).unwrap());
                    }
                }
                held.into_iter().for_each(|block| GLOBAL.free(block).unwrap());
                // SAFETY: no handler runs.
                unsafe { GLOBAL.release_cpu() }.unwrap();
                assert_eq!(PINS.get(), 0);
            });
        }
    });
    let memory = GLOBAL.memory().unwrap();
    (1..CPUS).for_each(|cpu| memory.cpu_offline(CpuId::new(cpu)).unwrap());
    end(&GLOBAL);
}

static INTERRUPTED: Global<Threads, 1> = Global::new();

#[test]
fn a_handler_allocates_and_frees_while_the_token_is_in_use() {
    start(&INTERRUPTED, 1).unwrap();
    let mut held: Vec<_> = std::iter::from_fn(|| INTERRUPTED.alloc(PAGE.no_wait()).ok()).collect();
    assert_eq!(held.len() as u64, FRAMES);
    INTERRUPTED.free(held.pop().unwrap()).unwrap();
    INTERRUPTED.memory().unwrap().drain_all();
    HANDLER.set(Some(|| {
        // The request below waits while it uses the token of the CPU.
        let block = INTERRUPTED.alloc(PAGE.atomic()).unwrap();
        let claimed = INTERRUPTED.memory().unwrap().cpu(CpuId::new(0));
        assert!(claimed.is_err(), "the token was claimed although the interrupted request has it");
        // SAFETY: this is a hook of the request below, not a handler that has interrupted it anywhere.
        let released = unsafe { INTERRUPTED.release_cpu() };
        assert_eq!(released, Err(GlobalError::Cpu(CpuError::InUse(CpuId::new(0)))));
        INTERRUPTED.free(block).unwrap();
        let block = INTERRUPTED.alloc(PAGE.atomic()).unwrap();
        let (pfn, order) = block.into_raw();
        // SAFETY: the block belonged to this test.
        unsafe { INTERRUPTED.free_raw(pfn, order) }.unwrap();
        // SAFETY: violated on purpose. The call must refuse the free, and these frames do not exist.
        let twice = unsafe { INTERRUPTED.free_raw(pfn, order) };
        assert_eq!(twice, Err(FreeError::AlreadyFree));
    }));
    let pair = PAGE.of_order(Order::new(1).unwrap());
    assert!(matches!(INTERRUPTED.alloc(pair), Err(GlobalError::Alloc(_))));
    assert!(HANDLER.take().is_none(), "the handler did not run");
    held.into_iter().for_each(|block| INTERRUPTED.free(block).unwrap());
    end(&INTERRUPTED);
}

#[test]
fn an_error_names_a_cpu_whose_token_is_claimed() {
    static GLOBAL: Global<Threads, 1> = Global::new();
    start(&GLOBAL, 1).unwrap();
    let token = GLOBAL.memory().unwrap().cpu(CpuId::new(0)).unwrap();
    assert!(matches!(GLOBAL.alloc(PAGE), Err(GlobalError::Cpu(_))));
    drop(token);
    GLOBAL.free(GLOBAL.alloc(PAGE).unwrap()).unwrap();
    let memory = GLOBAL.memory().unwrap();
    assert!(memory.cpu(CpuId::new(0)).is_err(), "the token was claimed although the static has it");
    // SAFETY: no handler runs.
    unsafe { GLOBAL.release_cpu() }.unwrap();
    memory.cpu_offline(CpuId::new(0)).unwrap();
    let offline = GLOBAL.alloc(PAGE).unwrap_err();
    assert_eq!(offline.to_string(), "CPU 0 is offline");
    memory.cpu_online(CpuId::new(0)).unwrap();
    GLOBAL.free(GLOBAL.alloc(PAGE).unwrap()).unwrap();
    end(&GLOBAL);
}

/// Real memory of this process. Its frames are numbered as if physical address 0 were mapped at address 0.
fn ram(frames: u64) -> FrameRange {
    let bytes = (frames + 1) as usize * 4096;
    let start = vec![0u8; bytes].leak().as_mut_ptr().expose_provenance().next_multiple_of(4096);
    range(start as u64 / 4096, start as u64 / 4096 + frames)
}

#[test]
fn from_a_map_to_a_page_on_one_cpu() {
    static GLOBAL: Global<OneCpu, 1> = Global::new();
    let frames = ram(2048);
    let map = [frames.into()];
    // SAFETY: each frame is mapped at its own address, and only this thread uses the allocator.
    let machine = unsafe { OneCpu::new(0, |report| panic!("{report}")) };
    let config = Config::new(&map, 1);
    GLOBAL.init_in_map(machine, &config).unwrap();
    let page = GLOBAL.alloc(PAGE.zeroed()).unwrap();
    assert!(frames.contains(page.pfn()));
    let memory = GLOBAL.memory().unwrap();
    let metadata = memory.layout().bytes().div_ceil(4096) as u64;
    GLOBAL.free(page).unwrap();
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.managed(), 2048);
    assert_eq!(memory.free(), 2048 - metadata);
    let blocks: Vec<_> = std::iter::from_fn(|| GLOBAL.alloc(PAGE.zeroed()).ok()).collect();
    let end = frames.end().get() - metadata;
    assert!(blocks.iter().all(|block| block.pfn().get() < end), "metadata was handed out");
    memory.check().unwrap();
    blocks.into_iter().for_each(|block| GLOBAL.free(block).unwrap());
}

#[test]
fn a_map_without_space_for_metadata_is_refused() {
    static GLOBAL: Global<OneCpu, 1> = Global::new();
    let map = [range(0, 3).into(), framewright::MemoryRange::from(range(512, 5120)).in_use()];
    let config = Config::new(&map, 1);
    // SAFETY: no frame is mapped, but none is accessed, because the map has no space for the
    // metadata.
    let machine = unsafe { OneCpu::new(0, |report| panic!("{report}")) };
    let refused = GLOBAL.init_in_map(machine, &config);
    assert!(matches!(refused, Err(GlobalInitError::NoSpace { .. })), "{refused:?}");
    assert_eq!(GLOBAL.alloc(PAGE).unwrap_err(), GlobalError::NotInitialised);
}
