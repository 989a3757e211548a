//! Lower bounds: a private stack of frames per CPU, without and with a try-lock per operation.
//!
//! No frame allocator with per-CPU lists can be faster than a pop of a number from a private array
//! ([`Floor`]). An allocator that excludes remote drains by an atomic try-lock needs at least one
//! locked instruction more ([`FloorTrylock`]). Neither bound shares frames between CPUs, splits or
//! merges.

use crate::{Metadata, Peer, Worker};
use spin::Mutex;

/// Initial stacks: an equal share of frames for each CPU, the lowest number on top.
fn stacks(frames: u64, cpus: usize) -> impl Iterator<Item = Vec<u64>> {
    let share = frames / cpus as u64;
    (0..cpus as u64).map(move |cpu| {
        // Capacity for every frame: a consumer collects frames that other CPUs allocated.
        let mut stack = Vec::with_capacity(usize::try_from(frames).expect("frames fit in memory"));
        stack.extend((cpu * share..(cpu + 1) * share).rev());
        stack
    })
}

/// A stack per CPU, no lock.
pub struct Floor {
    /// A worker takes the stack of its CPU, and returns it when dropped.
    stacks: Vec<Mutex<Option<Vec<u64>>>>,
}

/// The handle of one CPU's stack.
pub struct FloorWorker<'a> {
    stack: Vec<u64>,
    slot: &'a Mutex<Option<Vec<u64>>>,
}

impl Peer for Floor {
    const NAME: &'static str = "floor";
    const MERGES: bool = false;
    const MAX_ORDER: u8 = 0;
    type Worker<'a> = FloorWorker<'a>;

    fn new(frames: u64, cpus: usize) -> Self {
        Self { stacks: stacks(frames, cpus).map(|stack| Mutex::new(Some(stack))).collect() }
    }

    fn worker(&self, cpu: usize) -> FloorWorker<'_> {
        let slot = &self.stacks[cpu];
        let stack = slot.lock().take().expect("one worker per CPU");
        FloorWorker { stack, slot }
    }

    fn metadata(&self) -> Metadata {
        Metadata { bytes: 0, how: "the stacks are its CPU lists" }
    }

    fn cpu_list_bytes(&self) -> usize {
        self.stacks.iter().map(|s| s.lock().as_ref().map_or(0, |s| s.capacity() * 8)).sum()
    }
}

impl Worker for FloorWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        if order == 0 { self.stack.pop() } else { None }
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, _order: u8) {
        self.stack.push(frame);
    }
}

impl Drop for FloorWorker<'_> {
    fn drop(&mut self) {
        *self.slot.lock() = Some(core::mem::take(&mut self.stack));
    }
}

/// A stack per CPU, one try-lock (an atomic read-modify-write and a releasing store) per
/// operation.
pub struct FloorTrylock {
    stacks: Vec<Padded>,
}

/// Puts each lock on a cache line of its own.
#[repr(align(128))]
struct Padded(Mutex<Vec<u64>>);

/// The handle of one CPU's locked stack.
pub struct FloorTrylockWorker<'a>(&'a Mutex<Vec<u64>>);

impl Peer for FloorTrylock {
    const NAME: &'static str = "floor-trylock";
    const MERGES: bool = false;
    const MAX_ORDER: u8 = 0;
    type Worker<'a> = FloorTrylockWorker<'a>;

    fn new(frames: u64, cpus: usize) -> Self {
        Self { stacks: stacks(frames, cpus).map(|stack| Padded(Mutex::new(stack))).collect() }
    }

    fn worker(&self, cpu: usize) -> FloorTrylockWorker<'_> {
        FloorTrylockWorker(&self.stacks[cpu].0)
    }

    fn metadata(&self) -> Metadata {
        Metadata { bytes: 0, how: "the stacks are its CPU lists" }
    }

    fn cpu_list_bytes(&self) -> usize {
        self.stacks.iter().map(|s| s.0.lock().capacity() * 8).sum()
    }
}

impl Worker for FloorTrylockWorker<'_> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        if order == 0 { self.0.try_lock()?.pop() } else { None }
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, _order: u8) {
        // No other thread holds the lock while a worker lives, so the try-lock succeeds.
        if let Some(mut stack) = self.0.try_lock() {
            stack.push(frame);
        }
    }
}
