//! What programs share: a handle to the machine, and locks of the engine around data.

#![allow(unsafe_code)]

use super::{LockClass, LockId, Machine};
use crate::one_thread::OneThread;
use std::cell::{Cell, UnsafeCell};

/// A simulated machine for who has to be [`Sync`]: on any thread other than the one that made it, it
/// cannot be used.
pub struct Shared(OneThread<Machine>);

impl Shared {
    /// A handle to `machine`.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self(OneThread::new(machine.clone()))
    }

    /// The machine.
    ///
    /// # Panics
    ///
    /// On a thread that did not make the handle.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> &Machine {
        self.0.get()
    }
}

/// Data under a lock of a simulated machine. Outside a run nobody is charged and nobody waits.
pub struct Mutex<T> {
    inner: OneThread<Inner>,
    data: UnsafeCell<T>,
}

struct Inner {
    machine: Machine,
    lock: LockId,
    /// The data is in use.
    used: Cell<bool>,
}

// SAFETY: the data is reached through `inner` only, which panics on any thread but the one that
// made it; and there `used` says whether somebody has it, so that nobody gets it twice. `T: Send`
// because the mutex may be dropped elsewhere.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An open lock around `data`.
    pub fn new(machine: &Machine, class: LockClass, data: T) -> Self {
        let (machine, lock) = (machine.clone(), machine.new_lock(class));
        let inner = OneThread::new(Inner { machine, lock, used: Cell::new(false) });
        Self { inner, data: UnsafeCell::new(data) }
    }

    /// Runs `f` under the lock, waiting for it as long as it takes.
    ///
    /// # Panics
    ///
    /// On a thread other than the machine's, or if `f` comes back here.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let Inner { machine, lock, .. } = self.inner.get();
        if let Some(cpu) = machine.current() {
            cpu.lock(*lock);
        }
        self.locked(f)
    }

    /// Runs `f` under the lock if it is free.
    ///
    /// # Panics
    ///
    /// As [`Mutex::with`].
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let Inner { machine, lock, .. } = self.inner.get();
        let free = machine.current().is_none_or(|cpu| cpu.try_lock(*lock));
        free.then(|| self.locked(f))
    }

    fn locked<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let Inner { machine, lock, used } = self.inner.get();
        assert!(!used.replace(true), "the data of a simulated lock is in use");
        // SAFETY: `used` was not set, so no other reference exists; nobody gets one until it is
        // reset below. If `f` unwinds it stays set for ever.
        let result = f(unsafe { &mut *self.data.get() });
        used.set(false);
        if let Some(cpu) = machine.current() {
            cpu.unlock(*lock);
        }
        result
    }
}
