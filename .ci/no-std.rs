//! A program that embeds the library, without standard library, heap and C library.
//!
//! `.ci/no-std` links only `core`, `framewright` and this file, and runs the program. If the library used `std`,
//! linking would fail because of a second panic handler. If it used `alloc`, a global allocator would be missing. If it
//! called the C library, symbols would be undefined. The machine is the smallest possible one: it has one CPU, and its
//! frames are a static array.
//!
//! Exit code: 0 if all checks passed, otherwise the number of the failed check.

#![no_std]
#![no_main]

#[path = "freestanding.rs"]
mod freestanding;

use core::{cell::UnsafeCell, mem::MaybeUninit, ptr};

use freestanding::exit;

use framewright::{
    Config, CpuId, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Platform, Request,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, SpinFlag},
};

const FRAMES: usize = 1024;
const FRAME_BYTES: usize = 4096;
const METADATA_BYTES: usize = 64 * 1024;

#[repr(C, align(4096))]
struct Bytes<const N: usize>(UnsafeCell<[MaybeUninit<u8>; N]>);

// SAFETY: there is one thread.
unsafe impl<const N: usize> Sync for Bytes<N> {}

impl<const N: usize> Bytes<N> {
    const fn new() -> Self {
        Self(UnsafeCell::new([const { MaybeUninit::uninit() }; N]))
    }
}

static RAM: Bytes<{ FRAMES * FRAME_BYTES }> = Bytes::new();
static METADATA: Bytes<METADATA_BYTES> = Bytes::new();

/// A machine with one CPU and the frames of `RAM`.
struct Machine;

fn address(pfn: Pfn) -> *mut u8 {
    RAM.0.get().cast::<u8>().wrapping_add(pfn.get() as usize * FRAME_BYTES)
}

// SAFETY: the lock is the library's. There is only one CPU.
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, _: Wait, _: u32) {
        core::hint::spin_loop();
    }
    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        let bytes = order.frames() as usize * FRAME_BYTES;
        // SAFETY: the caller owns these frames, and frames are within `RAM`.
        unsafe { ptr::write_bytes(address(pfn), 0, bytes) }
    }
    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        // SAFETY: the caller owns both frames, and they are different.
        unsafe { ptr::copy_nonoverlapping(address(from), address(to), FRAME_BYTES) }
    }
    fn now(&self) -> u64 {
        0
    }
    fn corruption(&self, _: &Corruption) {
        // This does not panic, because that would look like a panic of the library.
        exit(254)
    }
}

impl Probe for Machine {}

/// Fails with this number if the condition is false.
fn check(number: u8, holds: bool) -> Result<(), u8> {
    if holds { Ok(()) } else { Err(number) }
}

fn run() -> Result<(), u8> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES as u64)).ok_or(1)?.into()];
    let config = Config::new(&map, 1);
    let layout = Layout::new::<Machine>(&config).map_err(|_| 2)?;
    check(3, layout.bytes() <= METADATA_BYTES)?;
    // SAFETY: there is no other reference to the static.
    let metadata = unsafe { &mut *METADATA.0.get() };
    let memory = Memory::new(Machine, &config, metadata).map_err(|_| 4)?;

    let mut cpu = memory.cpu(CpuId::new(0)).map_err(|_| 5)?;
    let page = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
    let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let mut frames = [const { None }; 100];
    check(6, cpu.alloc_bulk(page, &mut frames) == frames.len())?;
    for block in frames.iter().flatten() {
        // SAFETY: this program owns the block, so it can read the frame.
        check(7, unsafe { address(block.pfn()).read() } == 0)?;
    }
    cpu.free_bulk(&mut frames);
    let block = cpu.alloc(huge).map_err(|_| 8)?;
    cpu.free(block).map_err(|_| 9)?;
    cpu.drain();
    drop(cpu);
    check(10, memory.check().is_ok())?;
    check(11, memory.free() == FRAMES as u64)
}
