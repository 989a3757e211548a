//! The fake platform detects the misuses that it should detect.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
};

use framewright::{
    Config, FrameRange, Memory, MigrateType, Order, Pfn, Platform, Request,
    global::Pinning,
    platform::{OwnerLock, Wait},
};
use framewright_fakes::{FakePlatform, assert_apart, cpu, leaked, order};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

fn memory(platform: FakePlatform) -> &'static Memory<'static, FakePlatform> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(4096)).unwrap().into()];
    leaked(platform, &Config::new(&map, 2))
}

fn panics<R>(run: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

/// Whether a second thread may use the memory after the first.
fn admits_two_threads(platform: FakePlatform) -> bool {
    let memory = memory(platform);
    let block = memory.cpu(cpu(0)).unwrap().alloc(PAGE).unwrap();
    let second = thread::spawn(move || memory.cpu(cpu(1)).unwrap().free(block).unwrap());
    second.join().is_ok()
}

#[test]
fn a_second_thread_needs_a_barrier_or_try_locks() {
    assert!(!admits_two_threads(FakePlatform::default()));
    assert!(admits_two_threads(FakePlatform::new(OwnerLock::Trylock)));
    assert!(admits_two_threads(FakePlatform::threaded()));
    let with_barrier = FakePlatform::default();
    // SAFETY: the second thread starts after the first thread's last use of the memory.
    unsafe { with_barrier.on_barrier(|_| ()) };
    assert!(admits_two_threads(with_barrier));
}

/// Frees a block twice.
fn free_twice(memory: &Memory<'_, FakePlatform>) {
    let mut token = memory.cpu(cpu(0)).unwrap();
    let (pfn, order) = token.alloc(PAGE).unwrap().into_raw();
    for _ in 0..2 {
        // SAFETY: the library checks raw frees at this level, and the frames have no contents.
        let _ = unsafe { token.free_raw(pfn, order) };
    }
}

#[test]
fn a_report_panics_unless_a_test_takes_it() {
    assert!(panics(|| free_twice(memory(FakePlatform::default()))));
    let keeping = memory(FakePlatform::default().keeping_reports());
    free_twice(keeping);
    assert_eq!(keeping.platform().take_reports().len(), 1);
    assert_eq!(keeping.platform().take_reports(), []);
    let count = Arc::new(AtomicU32::new(0));
    let hooked = memory(FakePlatform::default());
    hooked.platform().on_corruption({
        let count = Arc::clone(&count);
        move |_| _ = count.fetch_add(1, Relaxed)
    });
    free_twice(hooked);
    assert_eq!(count.load(Relaxed), 1);
}

#[test]
fn a_callback_under_a_lock_panics() {
    let platform = FakePlatform::default();
    let irq = platform.irq_save();
    // SAFETY: the contents of frames are numbers.
    assert!(panics(|| unsafe { platform.clear(Pfn::new(0), Order::ZERO) }));
    platform.irq_restore(irq);
    // SAFETY: as above.
    unsafe { platform.clear(Pfn::new(0), Order::ZERO) };
}

#[test]
fn a_single_thread_does_not_wait_for_ever() {
    let platform = FakePlatform::default();
    platform.wait(Wait::Lock, 999);
    assert!(panics(|| platform.wait(Wait::Lock, 1000)));
    FakePlatform::threaded().wait(Wait::Lock, u32::MAX);
}

#[test]
fn a_hook_is_set_once() {
    let platform = FakePlatform::default();
    platform.on_wait(|_, _| ());
    assert!(panics(|| platform.on_wait(|_, _| ())));
}

#[test]
fn a_frame_in_two_blocks_is_noticed() {
    let blocks = [(Pfn::new(8), order(3)), (Pfn::new(0), order(3)), (Pfn::new(16), order(0))];
    assert_eq!(assert_apart(blocks), 17);
    assert!(panics(|| assert_apart([(Pfn::new(15), order(0)), blocks[0]])));
}

#[test]
fn a_second_thread_cannot_pin_itself() {
    let platform = FakePlatform::new(OwnerLock::Trylock);
    let (pinned, ()) = platform.pin();
    assert_eq!(pinned, cpu(0));
    thread::scope(|scope| {
        let second = scope.spawn(|| panics(|| _ = platform.pin()));
        assert!(second.join().unwrap());
    });
}
