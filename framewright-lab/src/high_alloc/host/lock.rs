//! The lock of the kernel around the library.
//!
//! The process has one lock, as a machine has one kernel: parallel runs take turns. The lock is
//! released during calls of the library that may take long or call back.
//!
//! The worker threads of a run start together or not at all.
//!
//! They wait until all of them are created. If one cannot be created, the others end. A panic of
//! one thread ends the others at their next check, without further messages.

use std::{
    cell::{Cell, RefCell},
    io,
    panic::resume_unwind,
    sync::{
        Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, Builder},
    time::{Duration, Instant},
};

static KERNEL: Mutex<()> = Mutex::new(());
/// Wakes the thread of the background work.
static WORK: Condvar = Condvar::new();
/// The wait queue of pauses.
static RESUMED: Condvar = Condvar::new();

thread_local! {
    /// The guard of this thread while it holds the lock.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
    /// Nanoseconds that this thread has waited for the lock.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Runs `body` with the lock held; takes it if this thread does not hold it.
pub(super) fn with_lock<R>(body: impl FnOnce() -> R) -> R {
    if HELD.with_borrow(Option::is_some) {
        return body();
    }
    let _left = Left;
    enter();
    body()
}

/// Runs `body` with the lock released, if this thread holds it.
pub(super) fn without_lock<R>(body: impl FnOnce() -> R) -> R {
    let held = HELD.take();
    if held.is_none() {
        return body();
    }
    drop(held);
    let _back = Back;
    body()
}

/// Releases the lock and waits until there is work, at most for the given time.
pub(super) fn wait_for_work(most: Duration) {
    wait_for(&WORK, most);
}

/// Releases the lock and waits on the queue of pauses, at most for the given time.
pub(super) fn wait_paused(most: Duration) {
    wait_for(&RESUMED, most);
}

fn wait_for(event: &Condvar, most: Duration) {
    if let Some(held) = HELD.take() {
        let (held, _) = event.wait_timeout(held, most).unwrap_or_else(PoisonError::into_inner);
        HELD.set(Some(held));
    }
}

/// Wakes all pauses. No wake-up is lost: the caller holds the lock, and a waiter holds it between
/// the check of its condition and the wait.
pub(super) fn wake_paused() {
    RESUMED.notify_all();
}

/// Wakes the thread of the background work.
pub(super) fn wake_worker() {
    WORK.notify_one();
}

/// Nanoseconds that this thread has waited for the lock.
pub(super) fn waited() -> u64 {
    WAITED.get()
}

fn enter() {
    // The panic of a thread is handled by `Workers`, so a poisoned lock is used as it is.
    let held = match KERNEL.try_lock() {
        Ok(held) => held,
        Err(TryLockError::Poisoned(held)) => held.into_inner(),
        Err(TryLockError::WouldBlock) => wait(),
    };
    HELD.set(Some(held));
}

fn wait() -> MutexGuard<'static, ()> {
    let since = Instant::now();
    let held = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    WAITED.set(WAITED.get() + since.elapsed().as_nanos() as u64);
    held
}

/// Releases the lock when it is dropped.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        drop(HELD.take());
    }
}

/// Takes the lock again when it is dropped.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        enter();
    }
}

/// The worker threads of a run.
#[derive(Default)]
pub(super) struct Workers {
    /// A thread has panicked: the others must not wait for it.
    broken: AtomicBool,
}

impl Workers {
    /// Runs `work` on this number of threads, each with its number; `builder` configures them.
    ///
    /// # Errors
    ///
    /// The system cannot create as many threads. Nothing was done.
    ///
    /// # Panics
    ///
    /// If a thread panics, once all have ended.
    pub(super) fn run(
        &self,
        count: u16,
        builder: impl Fn(u16) -> Builder,
        work: impl Fn(u16) + Sync,
    ) -> io::Result<()> {
        let all_there = OnceLock::new();
        let (all_there, work) = (&all_there, &work);
        thread::scope(|scope| {
            let _dismiss = Dismiss(all_there);
            for number in 0..count {
                builder(number).spawn_scoped(scope, move || {
                    let _broken = Broken(&self.broken);
                    if *all_there.wait() {
                        work(number);
                    }
                })?;
            }
            all_there.get_or_init(|| true);
            Ok(())
        })
    }

    /// Ends this thread if another has panicked.
    pub(super) fn check_alive(&self) {
        if self.broken.load(Relaxed) {
            resume_unwind(Box::new("another thread has panicked"));
        }
    }
}

/// Dismisses threads that still wait when it is dropped.
struct Dismiss<'h>(&'h OnceLock<bool>);

impl Drop for Dismiss<'_> {
    fn drop(&mut self) {
        self.0.get_or_init(|| false);
    }
}

/// Marks the workers as broken when it is dropped by a panic.
struct Broken<'b>(&'b AtomicBool);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(thread::panicking(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{Barrier, atomic::AtomicU16},
        thread,
    };

    #[test]
    fn one_thread_holds_the_lock_and_others_take_it_while_it_is_released() {
        let (met, done) = (Barrier::new(2), Barrier::new(2));
        let mut steps = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                met.wait();
                with_lock(|| with_lock(|| ()));
                done.wait();
            });
            with_lock(|| {
                steps.push("with_lock");
                // Would wait for ever if no other thread could take the lock.
                without_lock(|| {
                    met.wait();
                    done.wait();
                });
                steps.push("back");
                assert!(HELD.with_borrow(Option::is_some));
            });
        });
        assert!(HELD.with_borrow(Option::is_none));
        assert_eq!(steps, ["with_lock", "back"]);
    }

    #[test]
    fn waiting_for_the_lock_is_counted_and_holding_it_is_not() {
        const LONG: Duration = Duration::from_millis(20);
        let met = Barrier::new(2);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                met.wait();
                with_lock(waited)
            });
            let mine = with_lock(|| {
                let before = waited();
                met.wait();
                thread::sleep(LONG);
                waited() - before
            });
            assert_eq!(mine, 0);
            assert!(other.join().unwrap() > 0);
        });
    }

    #[test]
    fn without_one_of_the_threads_none_works() {
        let done = AtomicU16::new(0);
        let work = |_| {
            done.fetch_add(1, Relaxed);
        };
        // The last stack is larger than the address space.
        let builder = |number| match number {
            3 => Builder::new().stack_size(1 << 60),
            _ => Builder::new(),
        };
        assert!(Workers::default().run(4, builder, work).is_err());
        assert_eq!(done.load(Relaxed), 0);
        assert!(Workers::default().run(3, builder, work).is_ok());
        assert_eq!(done.load(Relaxed), 3);
    }

    #[test]
    fn a_thread_that_waits_for_one_that_panics_ends() {
        let workers = Workers::default();
        let work = |number| match number {
            0 => panic!("on purpose"),
            _ => loop {
                workers.check_alive();
                thread::yield_now();
            },
        };
        let run = || workers.run(3, |_| Builder::new(), work);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}
