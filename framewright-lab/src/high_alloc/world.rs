//! The interface between the experiment's kernel, which embeds the library, and its machine:
//! simulated CPUs, or threads over real memory.
//!
//! The kernel's code runs on one CPU at a time, until that CPU sleeps or calls the library for work
//! that may take long or call back ([`World::without_lock`]). Callbacks of the library run kernel
//! code again ([`World::with_lock`]). On a simulated machine only one CPU runs at a time anyway.
//! Threads use one lock for the whole kernel, like the big kernel lock of early multiprocessor
//! kernels. Threads therefore run in parallel only in the library, which is the part under test.
//!
//! Times are in the ticks of a world's clock. The cost of work is charged to the CPU
//! ([`OnCpu::work`]).

use std::ops::Deref;

use framewright::{
    CpuId, Pfn, Platform,
    tlb::{Shootdown, Unmapping},
};
use framewright_sim::engine::Activity;

/// A machine for the kernel.
pub(super) trait World: Sized {
    /// The library's machine.
    type Platform: Platform;
    /// A running CPU.
    type Cpu: OnCpu;
    /// The address space of a program.
    type Space;
    /// Whether time passes without work.
    const IS_REAL_TIME: bool;

    /// The CPU that runs this code; `None` after the end.
    fn current(&self) -> Option<Self::Cpu>;

    /// Converts nanoseconds to ticks.
    fn ticks(&self, nanos: u64) -> u64;

    /// The start of an interval for [`World::elapsed`].
    fn watch(&self) -> u64;

    /// Nanoseconds since `since`. On threads this is real time, not that of the CPU's clock.
    fn elapsed(&self, since: u64) -> u64;

    /// Nanoseconds that this CPU has waited for the lock.
    fn waited(&self) -> u64 {
        0
    }

    /// The flushes of translations.
    fn shootdown(&self) -> &dyn Shootdown;

    /// Switches this CPU to that program.
    fn enter(&self, cpu: Self::Cpu, space: &Self::Space);

    /// Removes a page of a program from its page table.
    fn unmap(
        &self,
        cpu: Self::Cpu,
        space: &Self::Space,
        page: u32,
        frame: Pfn,
        batch: &mut Unmapping<'_, '_, '_, Self::Platform>,
    );

    /// Waits until there may be background work, at most until `time`.
    fn wait_for_work(&self, cpu: Self::Cpu, time: u64);

    /// Wakes the thread of the background work.
    fn wake_worker(&self, cpu: Self::Cpu);

    /// Waits on the queue of pauses, at most until `time`.
    fn wait_paused(&self, cpu: Self::Cpu, time: u64);

    /// Wakes all pauses.
    fn wake_paused(&self, cpu: Self::Cpu);

    /// Runs `look`, which only reads. On a simulated machine it has no effect on the run, and the result is `None`
    /// while another CPU changes the library's data.
    fn observe<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        Some(look())
    }

    /// Runs `body`. An observer of a simulated machine sees it as this activity of the running CPU.
    fn during<R>(&self, _: Activity, body: impl FnOnce() -> R) -> R {
        body()
    }

    /// Runs `body` without the lock: other CPUs may run kernel code meanwhile, and the library may
    /// call back.
    fn without_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }

    /// Runs a callback of the library with the lock.
    fn with_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }

    /// Writes the contents of a new page.
    fn store(&self, _frame: u32) {}

    /// Verifies a page that is read.
    fn verify(&self, _frame: u32) {}

    /// Verifies a page that has moved.
    fn has_moved(&self, _from: u32, _to: u32) {}
}

/// A running CPU.
pub(super) trait OnCpu: Copy {
    /// Its number.
    fn id(&self) -> CpuId;

    /// Its time.
    fn now(&self) -> u64;

    /// Charges work to it.
    fn work(&self, ticks: u64);

    /// Lets CPUs with earlier clocks run.
    fn step(&self);

    /// Sleeps until `time`.
    fn sleep_until(&self, time: u64);

    /// Sleeps if the CPU has worked ahead of the clock.
    fn keep_pace(&self) {}
}

/// A value that may be used only under the kernel's lock.
#[derive(Clone, Copy)]
pub(super) struct Locked<T>(T);

impl<T> Locked<T> {
    /// Wraps a value that several threads use.
    ///
    /// # Safety
    ///
    /// Every access to a cell in it happens with the lock held: in kernel code, or in a callback
    /// that has called [`World::with_lock`] first.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[allow(unsafe_code)]
// SAFETY: by the contract of the constructor, one thread at a time accesses the cells. On threads
// the lock of the kernel orders these accesses; a simulated machine has one thread. Data that
// callbacks of the library read before they take the lock (the memory, its lists, costs) is `Sync`
// itself, or constant.
unsafe impl<T> Send for Locked<T> {}
#[allow(unsafe_code)]
// SAFETY: as above.
unsafe impl<T> Sync for Locked<T> {}
