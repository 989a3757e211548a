//! Values that only one thread may use, although their type is `Send` and `Sync`.
//!
//! The `fragile` crate does the same. At every access it gets the current thread from the standard
//! library, which counts references with atomic instructions. These would cost as much as all other
//! work of a simulated allocation. A number per thread is sufficient.

#![allow(unsafe_code)]

use std::{
    cell::Cell,
    mem::ManuallyDrop,
    sync::atomic::{AtomicU64, Ordering},
};

/// The number of the next thread. Numbers are not reused.
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// This thread's number; 0 until it is first needed.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

#[inline(always)]
fn this_thread() -> u64 {
    match NUMBER.get() {
        0 => number_thread(),
        number => number,
    }
}

#[cold]
fn number_thread() -> u64 {
    NUMBER.set(THREADS.fetch_add(1, Ordering::Relaxed));
    NUMBER.get()
}

/// A value for the thread that made it. Other threads may hold it; if they drop it, the value is
/// leaked.
pub struct OneThread<T> {
    value: ManuallyDrop<T>,
    thread: u64,
}

// SAFETY: the value is accessed and dropped only on the thread that made it: numbers of threads are
// never reused, and both `get` and `drop` compare them.
unsafe impl<T> Send for OneThread<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for OneThread<T> {}

impl<T> OneThread<T> {
    /// Binds `value` to this thread.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), thread: this_thread() }
    }

    /// The value.
    ///
    /// # Panics
    ///
    /// On any other thread.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> &T {
        if NUMBER.get() != self.thread {
            refuse();
        }
        &self.value
    }
}

impl<T> Drop for OneThread<T> {
    fn drop(&mut self) {
        if this_thread() == self.thread {
            // SAFETY: dropped once, here, on its own thread.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cold]
#[inline(never)]
fn refuse() -> ! {
    panic!("a simulated machine can be used only by the thread that made it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        rc::Rc,
        thread,
    };

    #[test]
    fn other_threads_are_refused_and_drop_nothing() {
        let counted = Rc::new(());
        let shared = OneThread::new(Rc::clone(&counted));
        assert_eq!(Rc::strong_count(shared.get()), 2);
        let elsewhere = thread::spawn(move || {
            let refused =
                catch_unwind(AssertUnwindSafe(|| Rc::strong_count(shared.get()))).is_err();
            drop(shared);
            refused
        });
        assert!(elsewhere.join().unwrap());
        assert_eq!(Rc::strong_count(&counted), 2);
        drop(OneThread::new(Rc::clone(&counted)));
        assert_eq!(Rc::strong_count(&counted), 2);
    }
}
