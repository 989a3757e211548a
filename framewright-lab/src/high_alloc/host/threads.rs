//! Threads over real memory as a world.
//!
//! The course is that of a simulated machine, and takes as long by its clock; but the clock runs
//! [`FASTER`] times as fast as time goes by. What a program takes for its own work, its thread rests;
//! what the library takes is taken. Latencies are real.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use framewright::{
    CpuId, Pfn,
    tlb::{FlushBatch, NoShootdown, Shootdown},
};
use framewright_host::HostMachine;

use super::{contents::Contents, lock};
use crate::high_alloc::world::{OnCpu, World};

/// How many times as fast as time the clock runs.
const FASTER: u64 = 16;
/// So far ahead of the clock a thread may work, in ticks: short rests are never short.
const AHEAD: u64 = 2_000_000 * FASTER;

thread_local! {
    /// The CPU that this thread is.
    static NUMBER: Cell<Option<u16>> = const { Cell::new(None) };
}

/// See the module. Ticks are nanoseconds of its clock.
pub(super) struct Threads<'t>(&'t Shared<'t>);

/// What its CPUs share.
pub(super) struct Shared<'t> {
    machine: &'t HostMachine,
    pub(super) contents: Contents,
    begun: Instant,
    /// Until when each CPU has worked.
    worked: Box<[AtomicU64]>,
    /// A thread has panicked: the others shall not wait for it.
    broken: AtomicBool,
}

impl<'t> Shared<'t> {
    pub(super) fn new(machine: &'t HostMachine) -> Self {
        Self {
            machine,
            contents: Contents::new(machine.frames().frames()),
            begun: Instant::now(),
            worked: (0..machine.cpus()).map(|_| AtomicU64::new(0)).collect(),
            broken: AtomicBool::new(false),
        }
    }

    fn clock(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64 * FASTER
    }
}

impl<'t> Threads<'t> {
    pub(super) fn new(shared: &'t Shared<'t>) -> Self {
        Self(shared)
    }

    /// This thread is that CPU while it is inside the kernel in `body`.
    pub(super) fn run(&self, number: u16, body: impl FnOnce(Thread<'t>)) {
        let _broken = Broken(&self.0.broken);
        NUMBER.set(Some(number));
        lock::inside(|| body(Thread { shared: self.0, number }));
        NUMBER.set(None);
    }
}

/// Says so if it is dropped by a panic.
struct Broken<'b>(&'b AtomicBool);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(thread::panicking(), Relaxed);
    }
}

impl<'t> World for Threads<'t> {
    type Platform = HostMachine;
    type Cpu = Thread<'t>;
    /// Frames are found by their numbers.
    type Space = ();

    fn current(&self) -> Option<Thread<'t>> {
        NUMBER.get().map(|number| Thread { shared: self.0, number })
    }

    fn ticks(&self, nanos: u64) -> u64 {
        nanos
    }

    fn watch(&self) -> u64 {
        self.0.begun.elapsed().as_nanos() as u64
    }

    fn elapsed(&self, since: u64) -> u64 {
        self.watch() - since
    }

    fn shootdown(&self) -> &dyn Shootdown {
        &NoShootdown
    }

    fn enter(&self, _: Thread<'t>, (): &()) {}

    /// No CPU has cached where a page is: who looks for it is inside, and finds the new frame.
    fn unmap(
        &self,
        _: Thread<'t>,
        (): &(),
        _: u32,
        _: Pfn,
        _: &mut FlushBatch<'_, '_, HostMachine>,
    ) {
    }

    fn wait_for_work(&self, _: Thread<'t>, time: u64) {
        lock::wait_for_work(Duration::from_nanos(time.saturating_sub(self.0.clock()) / FASTER));
    }

    fn wake_worker(&self, _: Thread<'t>) {
        lock::wake_worker();
    }

    fn outside<R>(&self, body: impl FnOnce() -> R) -> R {
        lock::outside(body)
    }

    fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        lock::inside(body)
    }

    fn store(&self, frame: u32) {
        self.0.contents.store(self.0.machine, frame);
    }

    fn look(&self, frame: u32) {
        self.0.contents.look(self.0.machine, frame);
    }

    fn has_moved(&self, from: u32, to: u32) {
        self.0.contents.has_moved(self.0.machine, from, to);
    }
}

/// A thread that is a CPU.
#[derive(Clone, Copy)]
pub(super) struct Thread<'t> {
    shared: &'t Shared<'t>,
    number: u16,
}

impl Thread<'_> {
    fn worked(&self) -> &AtomicU64 {
        &self.shared.worked[usize::from(self.number)]
    }
}

impl OnCpu for Thread<'_> {
    fn id(&self) -> CpuId {
        CpuId::new(self.number)
    }

    fn now(&self) -> u64 {
        self.shared.clock().max(self.worked().load(Relaxed))
    }

    fn work(&self, ticks: u64) {
        self.worked().store(self.now() + ticks, Relaxed);
    }

    fn step(&self) {}

    fn sleep_until(&self, time: u64) {
        assert!(!self.shared.broken.load(Relaxed), "another thread has panicked");
        let rest = time.saturating_sub(self.shared.clock());
        lock::outside(|| thread::sleep(Duration::from_nanos(rest / FASTER)));
    }

    fn keep_pace(&self) {
        let worked = self.worked().load(Relaxed);
        if worked > self.shared.clock() + AHEAD {
            self.sleep_until(worked);
        }
    }
}
