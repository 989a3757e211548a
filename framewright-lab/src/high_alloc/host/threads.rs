//! Threads over real memory as a world.
//!
//! The run is that of a simulated machine, and takes as long by its clock; but the clock runs
//! [`FASTER`] times as fast as time goes by. What a program takes for its own work, its thread rests;
//! what the library takes is taken. Latencies are real.
//!
//! What is in frames: words that tell one page from every other, and each other.
//!
//! A page gets a value of its own when it is new, and its words count up from that. What value the page
//! in a frame has is known beside memory: when the kernel says that a page has moved, its value goes
//! with it, and every word has to be there. The library has copied them, or it has not.

use framewright::{
    CpuId, Pfn,
    tlb::{NoShootdown, Shootdown, Unmapping},
};
use framewright_host::HostMachine;
use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::lock::{self, Crew};
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

/// See the module. Used inside the kernel.
pub(super) struct Contents {
    /// The value of the page in each frame.
    values: Box<[AtomicU64]>,
    next: AtomicU64,
    /// Pages that were looked at, those of them that had moved, and words that were not what they should.
    pub(super) looked: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) wrong: AtomicU64,
}

impl Contents {
    pub(super) fn new(frames: u64) -> Self {
        Self {
            values: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(1),
            looked: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// A new page.
    pub(super) fn store(&self, machine: &HostMachine, frame: u32) {
        // No two pages have a word in common.
        let value = self.next.fetch_add(1, Relaxed) << 16;
        self.values[frame as usize].store(value, Relaxed);
        for (word, value) in machine.frame(pfn(frame)).iter().zip(value..) {
            word.store(value, Relaxed);
        }
    }

    /// Every word is looked at.
    pub(super) fn look(&self, machine: &HostMachine, frame: u32) {
        let value = self.values[frame as usize].load(Relaxed);
        let words = machine.frame(pfn(frame)).iter().zip(value..);
        let wrong = words.map(|(word, value)| u64::from(word.load(Relaxed) != value)).sum::<u64>();
        self.looked.fetch_add(1, Relaxed);
        self.wrong.fetch_add(wrong, Relaxed);
    }

    /// The page of one frame is in another. The old one is wiped, or a page that moves back there could
    /// pass for copied when it was not.
    pub(super) fn has_moved(&self, machine: &HostMachine, from: u32, to: u32) {
        let value = self.values[from as usize].load(Relaxed);
        self.values[to as usize].store(value, Relaxed);
        self.moved.fetch_add(1, Relaxed);
        self.look(machine, to);
        machine.frame(pfn(from)).iter().for_each(|word| word.store(0, Relaxed));
    }
}

fn pfn(frame: u32) -> Pfn {
    Pfn::new(frame.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::Platform;
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

    #[test]
    fn what_was_not_copied_is_found() {
        let machine = HostMachine::builder().frames(4).build().unwrap();
        let contents = Contents::new(4);
        contents.store(&machine, 0);
        contents.store(&machine, 1);
        machine.copy(pfn(2), pfn(0));
        contents.has_moved(&machine, 0, 2);
        assert_eq!(contents.wrong.load(Relaxed), 0);
        // Nor does it pass that what is to be copied back was there before.
        contents.has_moved(&machine, 2, 0);
        assert_eq!(contents.wrong.swap(0, Relaxed), 512);
        contents.store(&machine, 2);
        // All of another page, and a word of one that was copied otherwise.
        contents.has_moved(&machine, 2, 1);
        assert_eq!(contents.wrong.load(Relaxed), 512);
        contents.store(&machine, 2);
        machine.frame(pfn(2))[511].store(0, Relaxed);
        contents.look(&machine, 2);
        assert_eq!(contents.wrong.load(Relaxed), 513);
    }
}
