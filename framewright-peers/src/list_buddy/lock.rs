//! The interface of the classic design to the machine: locks, and reports of its work.
//!
//! The algorithms of the other modules are independent of threads and time. They work on plain
//! data; a [`Machine`] provides the exclusion. A simulator has its own `Machine` with its own
//! costs; [`Threads`] is for real threads.

use super::lists::{Descriptor, Page};

/// The machine below a [`ListBuddy`](super::ListBuddy).
pub trait Machine: Sync {
    /// A lock around a `T`.
    type Lock<T: Send>: Lock<T>;
    /// The data per frame: a [`Page`], as large as a real descriptor, unless the machine simulates
    /// the cache lines of descriptors.
    type Descriptor: Descriptor;

    /// An unlocked lock around `value`; `whose` is its name.
    fn new_lock<T: Send>(&self, whose: LockName, value: T) -> Self::Lock<T>;

    /// Reports the work done under a lock, while it is still held.
    #[inline(always)]
    fn work(&self, under: LockName, work: Work) {
        let _ = (under, work);
    }

    /// Reports an access to a descriptor, of a frame or of a list's head: a cache line each. The
    /// descriptors of the heads follow those of the frames.
    #[inline(always)]
    fn touch(&self, descriptor: u32, touch: Touch) {
        let _ = (descriptor, touch);
    }

    /// Announces the descriptor that is likely to be touched next. The host of a simulation can
    /// prefetch its own data about that descriptor, `kept`. The simulated machine is not affected;
    /// real machines do nothing.
    #[inline(always)]
    fn expect(&self, descriptor: u32, kept: &Self::Descriptor) {
        let _ = (descriptor, kept);
    }
}

/// A lock that owns its data.
pub trait Lock<T>: Sync {
    /// Waits for the lock, and runs `f` under it.
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;

    /// Runs `f` under the lock if it is free.
    fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R>;
}

/// The locks of the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockName {
    /// The zone's.
    Zone,
    /// The lock of one CPU's lists.
    Cpu(usize),
}

/// Work that was done under a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Blocks taken from the lists that the lock protects.
    pub taken: u32,
    /// Blocks given back to them.
    pub given: u32,
    /// Blocks selected on a CPU's lists, to be given back.
    pub chosen: u32,
    /// Splits and merges; each touches the descriptor of one more block.
    pub steps: u32,
}

/// The kind of an access to a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Read; the next step depends on the value.
    Read,
    /// Read and changed; the next step depends on the value.
    Change,
    /// Written without reading.
    Write,
    /// Loaded ahead of use.
    Prefetch,
}

/// Real threads and spinlocks. Interrupts do not exist here.
#[derive(Clone, Copy, Default, Debug)]
pub struct Threads;

impl Machine for Threads {
    type Lock<T: Send> = Padded<T>;
    type Descriptor = Page;

    fn new_lock<T: Send>(&self, _whose: LockName, value: T) -> Padded<T> {
        Padded(spin::Mutex::new(value))
    }
}

/// A spinlock that shares no cache line with anything else.
#[repr(align(128))]
pub struct Padded<T>(spin::Mutex<T>);

impl<T: Send> Lock<T> for Padded<T> {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock())
    }

    #[inline]
    fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_lock().map(|mut data| f(&mut data))
    }
}
