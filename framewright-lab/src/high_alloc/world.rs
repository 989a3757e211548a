//! What the kernel around the library runs on: simulated CPUs, or threads over real memory.
//!
//! The kernel is written as one for a single CPU: whoever runs its code has it to himself until he
//! rests, or calls the library where that may take long or call back ([`World::outside`]); what the
//! library calls back is the kernel again ([`World::inside`]). On a simulated machine one CPU runs at a
//! time anyway. Threads have one lock for all of the kernel, as kernels had when machines got their
//! second CPU: so they are in the library at once, which is what is tried here, and nowhere else.
//!
//! Times are in the ticks of a world's clock. What things take is told to the CPU ([`OnCpu::work`]).

use std::ops::Deref;

use framewright::{
    CpuId, Pfn, Platform,
    tlb::{Shootdown, Unmapping},
};

/// See the module.
pub(super) trait World: Sized {
    /// The library's machine.
    type Platform: Platform;
    /// A CPU that runs.
    type Cpu: OnCpu;
    /// What translates addresses of a program.
    type Space;
    /// Whether time passes also while there is nothing to do.
    const IS_REAL_TIME: bool;

    /// The CPU that runs; `None` when all is over.
    fn current(&self) -> Option<Self::Cpu>;

    /// Nanoseconds in ticks.
    fn ticks(&self, nanos: u64) -> u64;

    /// A moment, for [`World::elapsed`].
    fn watch(&self) -> u64;

    /// How long ago that was, in nanoseconds: on threads of time itself, not of the clock.
    fn elapsed(&self, since: u64) -> u64;

    /// Nanoseconds that this CPU has waited so far until it was inside.
    fn waited(&self) -> u64 {
        0
    }

    /// What flushes.
    fn shootdown(&self) -> &dyn Shootdown;

    /// This CPU runs that program from now on.
    fn enter(&self, cpu: Self::Cpu, space: &Self::Space);

    /// A page of a program is in no page table any more.
    fn unmap(
        &self,
        cpu: Self::Cpu,
        space: &Self::Space,
        page: u32,
        frame: Pfn,
        batch: &mut Unmapping<'_, '_, '_, Self::Platform>,
    );

    /// Waits until there may be something to do in the background, and no longer than until `time`.
    fn wait_for_work(&self, cpu: Self::Cpu, time: u64);

    /// There is something to do in the background.
    fn wake_worker(&self, cpu: Self::Cpu);

    /// Waits on the queue of pauses, at most until `time`.
    fn wait_paused(&self, cpu: Self::Cpu, time: u64);

    /// Wakes all pauses.
    fn wake_paused(&self, cpu: Self::Cpu);

    /// Others may run the kernel meanwhile, and the library may call back.
    fn outside<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }

    /// What the library has called back for.
    fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }

    /// A new page is in a frame: it has contents from now on.
    fn store(&self, _frame: u32) {}

    /// Somebody reads a page.
    fn look(&self, _frame: u32) {}

    /// The page of one frame is in another from now on.
    fn has_moved(&self, _from: u32, _to: u32) {}
}

/// A CPU that runs.
pub(super) trait OnCpu: Copy {
    /// Which it is.
    fn id(&self) -> CpuId;

    /// Its time.
    fn now(&self) -> u64;

    /// It is busy for so long.
    fn work(&self, ticks: u64);

    /// Others go first, if it is their turn.
    fn step(&self);

    /// It rests until then.
    fn sleep_until(&self, time: u64);

    /// It has done a bit: rests if it has done more than there was time for.
    fn keep_pace(&self) {}
}

/// What is used inside the kernel alone.
#[derive(Clone, Copy)]
pub(super) struct Inside<T>(T);

impl<T> Inside<T> {
    /// To be used by several threads.
    ///
    /// # Safety
    ///
    /// Whoever touches a cell in it is inside: runs the kernel, or has been called back and says so first
    /// ([`World::inside`]).
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Inside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[allow(unsafe_code)]
// SAFETY: its cells are touched by one thread at a time, as who made it has promised: on threads by who has the kernel's lock, which
// orders whatever one does before what the next one does; on a simulated machine there is one thread. What
// the library's calls back read of it before they take the lock (the memory, its lists, costs) is `Sync` by
// itself, or does not change.
unsafe impl<T> Send for Inside<T> {}
#[allow(unsafe_code)]
// SAFETY: as above.
unsafe impl<T> Sync for Inside<T> {}
