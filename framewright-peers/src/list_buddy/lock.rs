//! What the classic design needs of the machine: locks, and somewhere to report its work.
//!
//! The algorithms next door know neither threads nor time. They work on plain data; *this* file
//! decides how that data is excluded. A simulator brings its own [`Machine`] and charges its own
//! costs; [`Threads`] is the real one.

use super::lists::{Descriptor, Page};

/// The machine below a [`ListBuddy`](super::ListBuddy).
pub trait Machine: Sync {
    /// A lock around a `T`.
    type Lock<T: Send>: Lock<T>;
    /// What it keeps per frame: a [`Page`], as large as a real descriptor, unless the machine gives
    /// descriptors cache lines of its own making.
    type Descriptor: Descriptor;

    /// An open lock around `value`.
    fn new_lock<T: Send>(&self, whose: LockName, value: T) -> Self::Lock<T>;

    /// Hears how much was done under a lock, while it is still held.
    #[inline(always)]
    fn work(&self, under: LockName, work: Work) {
        let _ = (under, work);
    }

    /// Hears that the descriptor of a frame, or of a list's head behind those of the frames, is
    /// touched: a cache line each.
    #[inline(always)]
    fn touch(&self, descriptor: u32, touch: Touch) {
        let _ = (descriptor, touch);
    }

    /// Hears which descriptor is likely to be touched next, so that a machine that keeps more than
    /// `kept` about it can get hold of that ahead of use. This is for the host of a simulation: on
    /// the machine that is simulated nothing happens, and real ones do nothing.
    #[inline(always)]
    fn expect(&self, descriptor: u32, kept: &Self::Descriptor) {
        let _ = (descriptor, kept);
    }
}

/// A lock that owns its data.
pub trait Lock<T>: Sync {
    /// Runs `f` under the lock, waiting for it as long as it takes.
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;

    /// Runs `f` under the lock if it is free right now.
    fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R>;
}

/// Which lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockName {
    /// The zone's.
    Zone,
    /// That of one CPU's lists.
    Cpu(usize),
}

/// What was done under a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Blocks taken from the lists that the lock protects.
    pub taken: u32,
    /// Blocks given back to them.
    pub given: u32,
    /// Blocks chosen on a CPU's lists, to be given back.
    pub chosen: u32,
    /// Splits and merges on the way; each touches the descriptor of one more block.
    pub steps: u32,
}

/// How a descriptor is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Read: what comes next depends on it.
    Read,
    /// Read and changed: what comes next depends on it.
    Change,
    /// Only written to.
    Write,
    /// Asked for ahead of use.
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
