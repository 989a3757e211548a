//! The implementation of [`World`] for threads over real memory.
//!
//! The run takes as long as on a simulated machine, by a clock that is [`FASTER`] times as fast as
//! real time. A thread sleeps for the time of a program's own work; the library's work takes real
//! time. Latencies are real. The words of a new page count up from a value that is unique to the
//! page. The values of all frames are stored outside the frames. When the kernel reports the move
//! of a page, the value moves, too, and every word is verified. This detects pages that the library
//! did not copy.

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

use super::lock::{self, Workers};
use crate::high_alloc::world::{OnCpu, World};

/// Ratio of the clock's speed to real time.
const FASTER: u64 = 16;
/// A thread may work ahead of the clock by this number of ticks, because sleeps always take longer
/// than requested.
const AHEAD: u64 = 2_000_000 * FASTER;

thread_local! {
    /// The CPU number of this thread.
    static NUMBER: Cell<Option<u16>> = const { Cell::new(None) };
}

/// Threads as the world of the kernel. Ticks are nanoseconds of its clock.
pub(super) struct Threads<'t>(&'t Shared<'t>);

/// The state that CPUs share.
pub(super) struct Shared<'t> {
    machine: &'t HostMachine,
    pub(super) contents: Contents,
    begun: Instant,
    /// The time up to which each CPU has worked.
    worked: Box<[AtomicU64]>,
    /// The threads.
    pub(super) workers: Workers,
}

impl<'t> Shared<'t> {
    pub(super) fn new(machine: &'t HostMachine) -> Self {
        Self {
            machine,
            contents: Contents::new(machine.frames().frames()),
            begun: Instant::now(),
            worked: (0..machine.cpus()).map(|_| AtomicU64::new(0)).collect(),
            workers: Workers::default(),
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

    /// Makes this thread the CPU `number` and runs `body` with the lock.
    pub(super) fn run(&self, number: u16, body: impl FnOnce(Thread<'t>)) {
        NUMBER.set(Some(number));
        lock::with_lock(|| body(Thread { shared: self.0, number }));
        NUMBER.set(None);
    }
}

impl Threads<'_> {
    /// The real time until `time`.
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

    /// CPUs cache no translations: they look pages up with the lock held.
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
        self.0.workers.check_alive();
    }

    fn wake_worker(&self, _: Thread<'t>) {
        lock::wake_worker();
    }

    fn wait_paused(&self, _: Thread<'t>, time: u64) {
        lock::wait_paused(self.until(time));
        self.0.workers.check_alive();
    }

    fn wake_paused(&self, _: Thread<'t>) {
        lock::wake_paused();
    }

    fn without_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        lock::without_lock(body)
    }

    fn with_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        lock::with_lock(body)
    }

    fn store(&self, frame: u32) {
        self.0.contents.store(self.0.machine, frame);
    }

    fn verify(&self, frame: u32) {
        self.0.contents.verify(self.0.machine, frame);
    }

    fn has_moved(&self, from: u32, to: u32) {
        self.0.contents.has_moved(self.0.machine, from, to);
    }
}

/// A thread that acts as a CPU.
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
        self.shared.workers.check_alive();
        let rest = time.saturating_sub(self.shared.clock());
        lock::without_lock(|| thread::sleep(Duration::from_nanos(rest / FASTER)));
    }

    fn keep_pace(&self) {
        self.shared.workers.check_alive();
        let worked = self.worked().load(Relaxed);
        if worked > self.shared.clock() + AHEAD {
            self.sleep_until(worked);
        }
    }
}

/// The contents of pages. Used with the lock held.
pub(super) struct Contents {
    /// The value of the page in each frame.
    values: Box<[AtomicU64]>,
    next: AtomicU64,
    /// Verified pages, verified pages that had moved, and wrong words.
    pub(super) verified: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) wrong: AtomicU64,
}

impl Contents {
    pub(super) fn new(frames: u64) -> Self {
        Self {
            values: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(1),
            verified: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// Writes the words of a new page.
    pub(super) fn store(&self, machine: &HostMachine, frame: u32) {
        // No two pages have a word in common.
        let value = self.next.fetch_add(1, Relaxed) << 16;
        self.values[frame as usize].store(value, Relaxed);
        for (word, value) in machine.frame(pfn(frame)).iter().zip(value..) {
            word.store(value, Relaxed);
        }
    }

    /// Verifies every word.
    pub(super) fn verify(&self, machine: &HostMachine, frame: u32) {
        let value = self.values[frame as usize].load(Relaxed);
        let words = machine.frame(pfn(frame)).iter().zip(value..);
        let wrong = words.map(|(word, value)| u64::from(word.load(Relaxed) != value)).sum::<u64>();
        self.verified.fetch_add(1, Relaxed);
        self.wrong.fetch_add(wrong, Relaxed);
    }

    /// Notes that a page has moved, and verifies it. The old frame is cleared: otherwise a page
    /// that moves back without a copy would seem correct.
    pub(super) fn has_moved(&self, machine: &HostMachine, from: u32, to: u32) {
        let value = self.values[from as usize].load(Relaxed);
        self.values[to as usize].store(value, Relaxed);
        self.moved.fetch_add(1, Relaxed);
        self.verify(machine, to);
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
            assert_ne!(number, 3, "on purpose, before it becomes a CPU");
            world.run(number, |cpu| {
                loop {
                    match number {
                        0 => cpu.keep_pace(),
                        1 => cpu.sleep_until(soon(cpu)),
                        _ => world.wait_for_work(cpu, soon(cpu)),
                    }
                    // Other threads run: a thread that is not ahead of the clock does not sleep in
                    // `keep_pace`.
                    lock::without_lock(thread::yield_now);
                }
            });
        };
        let run = || shared.workers.run(4, |_| thread::Builder::new(), work);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }

    #[test]
    fn missing_copies_are_detected() {
        let machine = HostMachine::builder().frames(4).build().unwrap();
        let contents = Contents::new(4);
        contents.store(&machine, 0);
        contents.store(&machine, 1);
        // SAFETY: no allocator manages these frames: the test owns them.
        unsafe { machine.copy(pfn(2), pfn(0)) };
        contents.has_moved(&machine, 0, 2);
        assert_eq!(contents.wrong.load(Relaxed), 0);
        // The old contents of the target frame are not taken for a copy.
        contents.has_moved(&machine, 2, 0);
        assert_eq!(contents.wrong.swap(0, Relaxed), 512);
        contents.store(&machine, 2);
        // All words of another page, and one word of a copied page.
        contents.has_moved(&machine, 2, 1);
        assert_eq!(contents.wrong.load(Relaxed), 512);
        contents.store(&machine, 2);
        machine.frame(pfn(2))[511].store(0, Relaxed);
        contents.verify(&machine, 2);
        assert_eq!(contents.wrong.load(Relaxed), 513);
    }
}
