//! Lock-free parts of the library under the C11 memory model: the claim of a CPU, counters that are
//! read while they are written, drains while an owner frees, and racing frees of a block.

#![allow(unsafe_code)]

use std::{boxed::Box, mem::MaybeUninit, vec};

use crate::{
    Block, Config, CpuId, FrameRange, FreeError, Layout, Memory, MigrateType, Order, Pfn, Request,
    platform::model::Machine,
    tuning::{Auto, Hardening},
};
use loom::{cell::UnsafeCell, model::Builder, sync::Arc, thread};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
const CPU: CpuId = CpuId::new(0);

/// The frames of one whole pageblock. The owner's fast path is not taken in a partial pageblock.
const FRAMES: u64 = 512;

/// A small memory with one CPU that lives as long as the process.
fn memory() -> &'static Memory<'static, Machine> {
    memory_of(1, Hardening::default())
}

fn memory_of(cpus: u16, hardening: Hardening) -> &'static Memory<'static, Machine> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, cpus);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = hardening;
    config.tuning.set("pcp.bundle_slots", "64").unwrap();
    let machine = Machine { abused: hardening == Hardening::Tracked, ..Machine::TRYLOCK };
    let layout = Layout::new::<Machine>(&config).unwrap();
    let buffer = vec![MaybeUninit::<u8>::uninit(); layout.bytes() + layout.align()].leak();
    let start = buffer.as_ptr().align_offset(layout.align());
    Box::leak(Box::new(Memory::new(machine, &config, &mut buffer[start..]).unwrap()))
}

/// Words of the stack of a model thread. Loom's stack for the first thread is too small for the
/// slow path without optimisation.
const STACK: usize = 1 << 15;

fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> thread::JoinHandle<R> {
    thread::Builder::new().stack_size(STACK).spawn(body).unwrap()
}

fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let body = std::sync::Arc::new(body);
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let body = std::sync::Arc::clone(&body);
        spawn(move || body()).join().unwrap();
    });
}

/// The work of the owner of a CPU, watched by loom.
struct Work(UnsafeCell<u32>);
// SAFETY: only the holder of the claim uses the value; loom reports a violation.
unsafe impl Sync for Work {}
// SAFETY: as above.
unsafe impl Send for Work {}

#[test]
fn a_cpu_has_one_owner_at_a_time_and_hands_over_all_it_did() {
    explore(3, || {
        let memory = memory();
        let work = Arc::new(Work(UnsafeCell::new(0)));
        let own = |work: &Work| {
            let token = memory.cpu(CPU);
            if token.is_ok() {
                // SAFETY: this thread holds the claim, and there is one claim per CPU.
                work.0.with_mut(|done| unsafe { *done += 1 });
            }
            u32::from(token.is_ok())
        };
        let its_work = Arc::clone(&work);
        let other = spawn(move || own(&its_work));
        let claims = own(&work) + other.join().unwrap();
        // SAFETY: the other thread has ended.
        work.0.with(|done| assert_eq!(unsafe { *done }, claims));
        assert!(claims >= 1, "no thread got the claim");
    });
}

#[test]
fn counters_only_grow_while_others_read_them() {
    explore(2, || {
        let memory = memory();
        let block = memory.cpu(CPU).unwrap().alloc(PAGE).map(Block::into_raw).unwrap();
        let owner = spawn(move || {
            let mut token = memory.cpu(CPU).unwrap();
            // SAFETY: the frames were a block until `into_raw`.
            unsafe { token.free_raw(block.0, block.1) }.unwrap();
        });
        let (first, second) = (memory.stats().pgfree, memory.stats().pgfree);
        assert!(first <= second && second <= 1, "{first}, then {second}");
        owner.join().unwrap();
        assert_eq!(memory.stats().pgfree, 1);
        memory.check().unwrap();
    });
}

#[test]
fn an_owner_is_drained_while_it_frees() {
    explore(2, || {
        let memory = memory();
        let block = memory.cpu(CPU).unwrap().alloc(PAGE).map(Block::into_raw).unwrap();
        let owner = spawn(move || {
            let mut token = memory.cpu(CPU).unwrap();
            // SAFETY: the frames were a block until `into_raw`.
            unsafe { token.free_raw(block.0, block.1) }.unwrap();
        });
        memory.drain_all();
        owner.join().unwrap();
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), FRAMES);
    });
}

/// At `tracked`, one of two frees of a block is refused, on any two CPUs and with any concurrent
/// use of their lists.
#[test]
fn of_two_raw_frees_on_two_cpus_one_is_refused() {
    explore(2, || {
        let memory = memory_of(2, Hardening::Tracked);
        let (pfn, order) = memory.cpu(CPU).unwrap().alloc(PAGE).map(Block::into_raw).unwrap();
        let free = move |cpu: u16| {
            let mut token = memory.cpu(CpuId::new(cpu)).unwrap();
            // SAFETY: the first call owns the frames. The second one does not; the test shows that
            // it is refused.
            unsafe { token.free_raw(pfn, order) }
        };
        let other = spawn(move || free(1));
        let freed = [free(0), other.join().unwrap()];
        let refused = Err(FreeError::AlreadyFree);
        assert!(freed == [Ok(()), refused] || freed == [refused, Ok(())], "{freed:?}");
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), FRAMES);
    });
}
