//! The lock of the kernel: who has it is inside.
//!
//! There is one for the process, as there is one kernel for a machine: runs at the same time take
//! turns. It is not held while the library is called where that may take long or call back.
//!
//! The threads of a run: they begin together or not at all, and none waits for one that has panicked.
//!
//! A thread that cannot be had is no reason to hang: those that are there wait until it is known that all
//! are, and go home if not. A panic ends the others at their next rest, without words: it has said what
//! was wrong.

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
/// There is work for who does it in the background.
static WORK: Condvar = Condvar::new();
/// The wait queue of pauses.
static RESUMED: Condvar = Condvar::new();

thread_local! {
    /// What this thread has while it is inside.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
    /// Nanoseconds that it has waited so far to get it.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Goes inside, if it is not there already, for as long as `body` takes.
pub(super) fn inside<R>(body: impl FnOnce() -> R) -> R {
    if HELD.with_borrow(Option::is_some) {
        return body();
    }
    let _left = Left;
    enter();
    body()
}

/// Goes outside for as long as `body` takes, if it is inside.
pub(super) fn outside<R>(body: impl FnOnce() -> R) -> R {
    let held = HELD.take();
    if held.is_none() {
        return body();
    }
    drop(held);
    let _back = Back;
    body()
}

/// Waits outside until there is work, but not for longer than that.
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

/// Wakes all pauses. The caller holds the lock, and waiters hold it from the check of their condition until
/// they wait, so no wake-up is lost.
pub(super) fn wake_paused() {
    RESUMED.notify_all();
}

/// There is some.
pub(super) fn wake_worker() {
    WORK.notify_one();
}

/// Nanoseconds that this thread has waited so far until it was inside.
pub(super) fn waited() -> u64 {
    WAITED.get()
}

fn enter() {
    // A thread that panics has told of it: see `Crew`.
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

/// Leaves when it is dropped.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        drop(HELD.take());
    }
}

/// Is inside again when it is dropped.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        enter();
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Crew {
    /// A thread has panicked: the others shall not wait for it.
    broken: AtomicBool,
}

impl Crew {
    /// Has so many threads do `work`, each with its number; `builder` makes them.
    ///
    /// # Errors
    ///
    /// The system does not give as many, and nothing was done.
    ///
    /// # Panics
    ///
    /// If a thread does, once all have ended.
    pub(super) fn run(
        &self,
        count: u16,
        builder: impl Fn(u16) -> Builder,
        work: impl Fn(u16) + Sync,
    ) -> io::Result<()> {
        let all_there = OnceLock::new();
        let (all_there, work) = (&all_there, &work);
        thread::scope(|scope| {
            let _home = Home(all_there);
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
    pub(super) fn go_on(&self) {
        if self.broken.load(Relaxed) {
            resume_unwind(Box::new("another thread has panicked"));
        }
    }
}

/// Sends threads home that wait still when it is dropped.
struct Home<'h>(&'h OnceLock<bool>);

impl Drop for Home<'_> {
    fn drop(&mut self) {
        self.0.get_or_init(|| false);
    }
}

/// Says so if it is dropped by a panic.
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
    fn one_is_inside_and_lets_others_in_while_it_is_outside() {
        let (met, done) = (Barrier::new(2), Barrier::new(2));
        let mut steps = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                met.wait();
                inside(|| inside(|| ()));
                done.wait();
            });
            inside(|| {
                steps.push("inside");
                // Would wait for ever if nobody else could be inside now.
                outside(|| {
                    met.wait();
                    done.wait();
                });
                steps.push("back");
                assert!(HELD.with_borrow(Option::is_some));
            });
        });
        assert!(HELD.with_borrow(Option::is_none));
        assert_eq!(steps, ["inside", "back"]);
    }

    #[test]
    fn waiting_is_counted_and_being_inside_is_not() {
        const LONG: Duration = Duration::from_millis(20);
        let met = Barrier::new(2);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                met.wait();
                inside(waited)
            });
            let mine = inside(|| {
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
    fn without_one_of_the_threads_none_does_anything() {
        let done = AtomicU16::new(0);
        let work = |_| {
            done.fetch_add(1, Relaxed);
        };
        // No address space has room for the last one's stack.
        let builder = |number| match number {
            3 => Builder::new().stack_size(1 << 60),
            _ => Builder::new(),
        };
        assert!(Crew::default().run(4, builder, work).is_err());
        assert_eq!(done.load(Relaxed), 0);
        assert!(Crew::default().run(3, builder, work).is_ok());
        assert_eq!(done.load(Relaxed), 3);
    }

    #[test]
    fn who_waits_for_one_that_panics_ends() {
        let crew = Crew::default();
        let work = |number| match number {
            0 => panic!("on purpose"),
            _ => loop {
                crew.go_on();
                thread::yield_now();
            },
        };
        let run = || crew.run(3, |_| Builder::new(), work);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}
