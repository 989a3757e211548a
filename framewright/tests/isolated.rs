//! Frames that one thread has isolated are not taken by another thread, at any point in between.
#![cfg(not(framewright_loom))]

mod support;

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use framewright::{
    Config, Contiguous, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Platform,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::Auto,
};
use support::machine::{Metadata, cpu};

/// A machine that lets another thread run right after a zone lock was released.
struct Interrupted {
    /// Releases of a lock until the other thread runs.
    left: AtomicU32,
    barrier: Barrier,
}

// SAFETY: the lock is the library's own; without biased owners no barrier is needed.
unsafe impl Platform for Interrupted {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}

    fn irq_restore(&self, (): ()) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.barrier.wait();
            self.barrier.wait();
        }
    }

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Trylock
    }

    fn remote_barrier(&self, _target: BarrierTarget) {
        unreachable!("no owner is biased");
    }

    fn wait(&self, _why: Wait, _spins: u32) {
        thread::yield_now();
    }

    unsafe fn clear(&self, _pfn: Pfn, _order: Order) {}

    unsafe fn copy(&self, _to: Pfn, _from: Pfn) {}

    fn now(&self) -> u64 {
        0
    }

    fn corruption(&self, report: &Corruption) {
        panic!("{report:?}");
    }
}

impl Probe for Interrupted {}

/// Waits at the barrier when it is dropped.
struct BarrierOnDrop<'a>(&'a Barrier);

impl Drop for BarrierOnDrop<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Runs `first` on a memory of four pageblocks, and `second` once `first` has released a zone lock
/// `after` times.
fn in_between(
    after: u32,
    first: impl FnOnce(&Memory<'_, Interrupted>),
    second: impl FnOnce(&Memory<'_, Interrupted>) + Send,
) {
    let map = [range(0, 4).into()];
    let mut config = Config::new(&map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut metadata = Metadata::new(Layout::new::<Interrupted>(&config).unwrap().bytes());
    let machine = Interrupted { left: AtomicU32::new(0), barrier: Barrier::new(2) };
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    memory.platform().left.store(after, Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| {
            memory.platform().barrier.wait();
            // The other thread must end even if `second` panics.
            let _guard = BarrierOnDrop(&memory.platform().barrier);
            second(&memory);
        });
        first(&memory);
    });
    memory.check().unwrap();
}

fn range(from: u64, to: u64) -> FrameRange {
    FrameRange::new(Pfn::new(from * 512), Pfn::new(to * 512)).unwrap()
}

#[test]
fn a_run_that_was_found_may_be_isolated_before_it_is_taken() {
    in_between(
        1,
        |memory| {
            // With bounds the run is searched for, and taken in a second hold of the lock.
            let wanted = Contiguous::new(700, MigrateType::Unmovable).within(range(0, 4));
            let extent = memory.alloc_contiguous(&wanted).unwrap();
            assert!(extent.range().start() >= Pfn::new(512), "{extent:?} is isolated");
            memory.free_extent(extent).unwrap();
        },
        |memory| {
            let _stays = memory.isolate(Pfn::new(0)).unwrap();
        },
    );
}

#[test]
fn a_run_that_was_found_may_be_removed_before_it_is_taken() {
    in_between(
        1,
        |memory| {
            // With bounds the run is searched for, and taken in a second hold of the lock.
            let wanted = Contiguous::new(700, MigrateType::Unmovable).within(range(0, 4));
            let extent = memory.alloc_contiguous(&wanted).unwrap();
            assert!(extent.range().start() >= Pfn::new(512), "{extent:?} was removed");
            memory.free_extent(extent).unwrap();
            assert_eq!(memory.free(), 3 * 512);
        },
        |memory| memory.remove_memory(range(0, 1), &mut |_| ()).unwrap(),
    );
}

#[test]
fn frames_under_removal_cannot_be_allocated_by_number() {
    // The first hold isolates the pageblock, the second looks for allocated frames.
    in_between(
        2,
        |memory| {
            memory.remove_memory(range(0, 1), &mut |_| ()).unwrap();
            assert_eq!(memory.managed(), 3 * 512);
        },
        |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let order = Order::new(3).unwrap();
            assert!(token.alloc_at(Pfn::new(64), order, MigrateType::Movable).is_err());
        },
    );
}
