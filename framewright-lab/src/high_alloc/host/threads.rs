//! Threads over real memory as a world.
//!
//! The course is that of a simulated machine, and takes as long by its clock; but the clock runs
//! [`FASTER`] times as fast as time goes by. What a program takes for its own work, its thread rests;
//! what the library takes is taken. Latencies are real.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use framewright::{
    CpuId, Pfn,
    tlb::{NoShootdown, Shootdown, Unmapping},
};
use framewright_host::HostMachine;

use super::{contents::Contents, crew::Crew, lock};
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
    /// Its threads.
    pub(super) crew: Crew,
}

impl<'t> Shared<'t> {
    pub(super) fn new(machine: &'t HostMachine) -> Self {
        Self {
            machine,
            contents: Contents::new(machine.frames().frames()),
            begun: Instant::now(),
            worked: (0..machine.cpus()).map(|_| AtomicU64::new(0)).collect(),
            crew: Crew::default(),
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
        NUMBER.set(Some(number));
        lock::inside(|| body(Thread { shared: self.0, number }));
        NUMBER.set(None);
    }
}

impl Threads<'_> {
    /// The time left until then.
    fn until(&self, time: u64) -> Duration {
        Duration::from_nanos(time.saturating_sub(self.0.clock()) / FASTER)
    }
}

impl<'t> World for Threads<'t> {
    type Platform = HostMachine;
    type Cpu = Thread<'t>;
    /// Frames are found by their numbers.
    type Space = ();
    const IS_REAL_TIME: bool = true;

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

    fn waited(&self) -> u64 {
        lock::waited()
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
        _: &mut Unmapping<'_, '_, '_, HostMachine>,
    ) {
    }

    fn wait_for_work(&self, _: Thread<'t>, time: u64) {
        lock::wait_for_work(self.until(time));
        self.0.crew.go_on();
    }

    fn wake_worker(&self, _: Thread<'t>) {
        lock::wake_worker();
    }

    fn wait_paused(&self, _: Thread<'t>, time: u64) {
        lock::wait_paused(self.until(time));
        self.0.crew.go_on();
    }

    fn wake_paused(&self, _: Thread<'t>) {
        lock::wake_paused();
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
        self.shared.crew.go_on();
        let rest = time.saturating_sub(self.shared.clock());
        lock::outside(|| thread::sleep(Duration::from_nanos(rest / FASTER)));
    }

    fn keep_pace(&self) {
        self.shared.crew.go_on();
        let worked = self.worked().load(Relaxed);
        if worked > self.shared.clock() + AHEAD {
            self.sleep_until(worked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_thread_that_panics_ends_the_world() {
        let machine = HostMachine::builder().frames(4).cpus(4).build().unwrap();
        let shared = Shared::new(&machine);
        let world = Threads::new(&shared);
        let soon = |cpu: Thread<'_>| cpu.now() + FASTER * 100_000;
        let work = |number| {
            assert_ne!(number, 3, "on purpose, before it is a CPU");
            world.run(number, |cpu| {
                loop {
                    match number {
                        0 => cpu.keep_pace(),
                        1 => cpu.sleep_until(soon(cpu)),
                        _ => world.wait_for_work(cpu, soon(cpu)),
                    }
                    // Others have their turn: who keeps pace and is not ahead does not rest.
                    lock::outside(thread::yield_now);
                }
            });
        };
        let run = || shared.crew.run(4, |_| thread::Builder::new(), work);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}
