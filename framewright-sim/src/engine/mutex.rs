//! Values that programs share: a handle of the machine, and data under locks of the engine.

#![allow(unsafe_code)]

use super::{LockClass, LockId, Machine};
use crate::one_thread::OneThread;
use std::cell::{Cell, UnsafeCell};

/// A [`Sync`] handle of a simulated machine. Only the thread that made it can use it.
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
    /// On another thread than the one that made the handle.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> &Machine {
        self.0.get()
    }
}

/// Data under a lock of a simulated machine. Outside a run, no cycles are charged and nothing
/// waits.
pub struct Mutex<T> {
    inner: OneThread<Inner>,
    data: UnsafeCell<T>,
}

struct Inner {
    machine: Machine,
    lock: LockId,
    /// Whether a reference to the data exists.
    used: Cell<bool>,
}

// SAFETY: the data is accessed only through `inner`, which panics on any thread but the one that
// made it. On that thread, `used` records whether a reference exists, so at most one does. `T:
// Send`, because the mutex may be dropped on another thread.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free lock around `data`.
    pub fn new(machine: &Machine, class: LockClass, data: T) -> Self {
        let (machine, lock) = (machine.clone(), machine.new_lock(class));
        let inner = OneThread::new(Inner { machine, lock, used: Cell::new(false) });
        Self { inner, data: UnsafeCell::new(data) }
    }

    /// Runs `f` under the lock, and waits for the lock if it is held.
    ///
    /// # Panics
    ///
    /// On another thread than the machine's, or if `f` calls this for the same mutex.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let Inner { machine, lock, .. } = self.inner.get();
        if let Some(cpu) = machine.current() {
            cpu.lock(*lock);
        }
        self.locked(f)
    }

    /// Runs `f` under the lock if it is free. [`Machine::observe`] can call this for the lock of any program.
    ///
    /// # Panics
    ///
    /// As [`Mutex::with`].
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let Inner { machine, lock, used } = self.inner.get();
        let free = machine.current().map_or(!used.get(), |cpu| cpu.try_lock(*lock));
        free.then(|| self.locked(f))
    }

    fn locked<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let Inner { machine, lock, used } = self.inner.get();
        assert!(!used.replace(true), "the data of a simulated lock is in use");
        // SAFETY: `used` was not set, so no other reference exists, and none is created until it is
        // reset below. If `f` unwinds, `used` stays set.
        let result = f(unsafe { &mut *self.data.get() });
        used.set(false);
        if let Some(cpu) = machine.current() {
            cpu.unlock(*lock);
        }
        result
    }
}
