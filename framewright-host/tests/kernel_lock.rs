//! Threads contend for the lock of `kernel/`, which has no test harness.

use std::sync::{
    Barrier,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use framewright::sync::RawLock;
use framewright_host::HostMachine as Machine;
use lock::QueuedLock;

#[path = "../../kernel/src/platform/lock.rs"]
mod lock;

/// A replacement for the kernel's waiting: threads yield.
mod wait {
    pub(crate) struct Event;

    impl Event {
        pub(crate) fn ticket(_: u64, _: u32) -> Self {
            Self
        }
    }

    pub(crate) fn once(_: Event, _: u32) {
        std::thread::yield_now();
    }

    pub(crate) fn wake(_: Event) {}
}

fn machine() -> Machine {
    Machine::builder().frames(512).build().unwrap()
}

#[test]
fn is_held_reports_the_state() {
    let machine = machine();
    let lock = QueuedLock::open();
    assert!(!lock.is_held(&machine));
    lock.lock(&machine);
    assert!(lock.is_held(&machine));
    // SAFETY: it was taken above.
    unsafe { lock.unlock(&machine) };
    assert!(!lock.is_held(&machine));
}

#[test]
fn threads_count_exactly() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 500;
    let machine = machine();
    let (lock, sum) = (QueuedLock::open(), AtomicU64::new(0));
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..TURNS {
                    lock.lock(&machine);
                    // A lock without mutual exclusion would lose increments between these two
                    // steps.
                    let old = sum.load(Relaxed);
                    std::thread::yield_now();
                    sum.store(old + 1, Relaxed);
                    // SAFETY: it was taken above.
                    unsafe { lock.unlock(&machine) };
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), THREADS * TURNS);
    assert!(!lock.is_held(&machine));
}
