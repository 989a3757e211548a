//! An allocator in a static, in safe code.
#![forbid(unsafe_code)]

use std::{
    mem::MaybeUninit,
    sync::atomic::{AtomicU32, Ordering},
};

use framewright::{
    Config, FrameRange, Global, Layout, Pfn,
    global::{GlobalError, GlobalInitError, Pinning},
    observe::Event,
    tuning::Auto,
};
use framewright_fakes::TracedPlatform;

use crate::machine::{CPU, Machine, PAGE, assert_apart};

static GLOBAL: Global<Machine, 2> = Global::new();

fn start() -> Result<(), GlobalInitError> {
    start_on(&GLOBAL, Machine::default(), 2)
}

fn start_on<P: Pinning, const CPUS: usize>(
    global: &'static Global<P, CPUS>,
    machine: P,
    cpus: u16,
) -> Result<(), GlobalInitError> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap().into()];
    let mut config = Config::new(&map, cpus);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let layout = Layout::new::<P>(&config).unwrap();
    let buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()].leak();
    let start = buffer.as_ptr().align_offset(layout.align());
    global.init(machine, &config, &mut buffer[start..])
}

#[test]
fn a_static_gives_each_frame_one_owner() {
    assert_eq!(GLOBAL.alloc(PAGE).unwrap_err(), GlobalError::NotInitialised);
    start().unwrap();
    assert_eq!(start(), Err(GlobalInitError::AlreadyInitialised));
    let memory = GLOBAL.memory().unwrap();
    // The token of the CPU has one owner, too.
    let mut token = memory.cpu(CPU).unwrap();
    assert!(matches!(GLOBAL.alloc(PAGE), Err(GlobalError::Cpu(_))));
    let mut held = vec![token.alloc(PAGE).unwrap()];
    drop(token);
    held.extend(std::iter::from_fn(|| GLOBAL.alloc(PAGE).ok()));
    assert!(memory.cpu(CPU).is_err());
    assert_eq!(held.len(), 1024 - memory.held_by_cpus() as usize);
    assert_apart(&held);
    held.into_iter().for_each(|block| GLOBAL.free(block).unwrap());
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), 1024);
}

static INTERRUPTED: Global<TracedPlatform, 1> = Global::new();

/// The hook runs while the token of the CPU is in use, as an interrupt handler may.
#[test]
fn a_handler_uses_the_static_that_it_has_interrupted() {
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    start_on(&INTERRUPTED, Machine::default().traced(), 1).unwrap();
    let memory = INTERRUPTED.memory().unwrap();
    memory.platform().on_trace(|_, event| {
        if matches!(event, Event::PageAllocZoneLocked { .. })
            && HANDLED.fetch_add(1, Ordering::Relaxed) == 0
        {
            let twice = start_on(&INTERRUPTED, Machine::default().traced(), 1);
            assert_eq!(twice, Err(GlobalInitError::AlreadyInitialised));
            let kept = INTERRUPTED.alloc(PAGE.atomic()).unwrap();
            let block = INTERRUPTED.alloc(PAGE.atomic()).unwrap();
            let both = [kept, block];
            assert_apart(&both);
            both.into_iter().for_each(|block| INTERRUPTED.free(block).unwrap());
        }
    });
    let block = INTERRUPTED.alloc(PAGE).unwrap();
    assert!(HANDLED.load(Ordering::Relaxed) > 0, "the handler did not run");
    INTERRUPTED.free(block).unwrap();
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), 1024);
}
