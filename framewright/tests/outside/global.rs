//! An allocator in a static, in safe code.
#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use framewright::{
    Config, FrameRange, Global, Layout, Pfn,
    global::{GlobalError, GlobalInitError},
    tuning::Auto,
};

use crate::machine::{CPU, Machine, PAGE, assert_apart};

static GLOBAL: Global<Machine, 2> = Global::new();

fn start() -> Result<(), GlobalInitError> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let layout = Layout::new::<Machine>(&config).unwrap();
    let buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()].leak();
    let start = buffer.as_ptr().align_offset(layout.align());
    GLOBAL.init(Machine::default(), &config, &mut buffer[start..])
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
