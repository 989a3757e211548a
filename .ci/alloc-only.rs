//! The smallest program with the library. It only allocates, falls back to another zone, frees and
//! drains. `.ci/no-std` links and runs it, and limits the size of its code.
//!
//! The machine has four CPUs and two zones. Its frames have no contents, and are neither read nor
//! written.
//!
//! Exit code: 0 if all checks passed, otherwise the number of the failed check.

#![no_std]
#![no_main]

#[path = "freestanding.rs"]
mod freestanding;

use core::{cell::UnsafeCell, mem::MaybeUninit};

use freestanding::exit;

use framewright::{
    Config, CpuId, FrameRange, Layout, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn,
    Platform, Request, ZoneKind,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, SpinFlag},
};

const CPUS: u16 = 4;
const ZONE_FRAMES: u64 = 8192;
const METADATA_BYTES: usize = 256 * 1024;

#[repr(C, align(4096))]
struct Bytes(UnsafeCell<[MaybeUninit<u8>; METADATA_BYTES]>);

// SAFETY: there is one thread.
unsafe impl Sync for Bytes {}

static METADATA: Bytes = Bytes(UnsafeCell::new([MaybeUninit::uninit(); METADATA_BYTES]));

struct Machine;

// SAFETY: the lock is the library's. There is only one thread.
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
    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        0
    }
    fn corruption(&self, _: &Corruption) {
        exit(254)
    }
}

impl Probe for Machine {}

/// Fails with this number if the condition is false.
fn check(number: u8, holds: bool) -> Result<(), u8> {
    if holds { Ok(()) } else { Err(number) }
}

fn zone(number: u64, kind: ZoneKind) -> Option<MemoryRange> {
    let start = Pfn::new(number * ZONE_FRAMES);
    let frames = FrameRange::new(start, start.offset(ZONE_FRAMES))?;
    Some(MemoryRange::new(frames, NodeId::default(), kind))
}

fn run() -> Result<(), u8> {
    let map = [zone(0, ZoneKind::Dma32).ok_or(1)?, zone(1, ZoneKind::Normal).ok_or(1)?];
    let config = Config::new(&map, CPUS);
    let layout = Layout::new::<Machine>(&config).map_err(|_| 2)?;
    check(3, layout.bytes() <= METADATA_BYTES)?;
    // SAFETY: there is no other reference to the static.
    let metadata = unsafe { &mut *METADATA.0.get() };
    let memory = Memory::new(Machine, &config, metadata).map_err(|_| 4)?;

    let mut cpu = memory.cpu(CpuId::new(0)).map_err(|_| 5)?;
    // The requests need more than one pageblock of this type, so they fall back to another type and
    // to the other zone.
    let request = Request::new(Order::ZERO, MigrateType::Unmovable);
    let mut blocks = [const { None }; ZONE_FRAMES as usize + 1024];
    for slot in &mut blocks {
        *slot = Some(cpu.alloc(request).map_err(|_| 6)?);
    }
    let lowest = blocks.iter().flatten().map(|block| block.pfn()).min();
    check(7, lowest.is_some_and(|pfn| pfn.get() < ZONE_FRAMES))?;
    for block in blocks.iter_mut().filter_map(Option::take) {
        cpu.free(block).map_err(|_| 8)?;
    }
    let huge = cpu.alloc(Request::new(Order::PAGEBLOCK, MigrateType::Movable)).map_err(|_| 9)?;
    cpu.free(huge).map_err(|_| 10)?;
    cpu.drain();
    drop(cpu);
    check(11, memory.free() == 2 * ZONE_FRAMES)
}
