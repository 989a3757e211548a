//! One thread isolates or removes frames between two holds of the zone lock by another thread. The
//! other thread does not get these frames.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use framewright::{Config, Contiguous, FrameRange, Memory, MigrateType, Order, Pfn, tuning::Auto};
use framewright_fakes::{FailNth, FakePlatform, Metadata, cpu};

/// Waits at the barrier when it is dropped.
struct BarrierOnDrop<'a>(&'a Barrier);

impl Drop for BarrierOnDrop<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Runs `first` on an allocator with four pageblocks. Runs `second` after `first` has released a zone
/// lock `after` times.
fn in_between(
    after: u32,
    first: impl FnOnce(&Memory<'_, FakePlatform>),
    second: impl FnOnce(&Memory<'_, FakePlatform>) + Send,
) {
    let map = [range(0, 4).into()];
    let mut config = Config::new(&map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut metadata = Metadata::of::<FakePlatform>(&config);
    let (release, barrier) = (Arc::new(FailNth::new()), Arc::new(Barrier::new(2)));
    let machine = FakePlatform::threaded();
    // The other thread runs right after a release of the zone lock.
    machine.on_irq_restore({
        let (release, barrier) = (Arc::clone(&release), Arc::clone(&barrier));
        move || {
            if release.is_nth() {
                barrier.wait();
                barrier.wait();
            }
        }
    });
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    release.arm(after);
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            // The other thread must end even if `second` panics.
            let _guard = BarrierOnDrop(&barrier);
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
            // With bounds, one hold of the lock finds the run, and a second hold allocates it.
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
            // With bounds, one hold of the lock finds the run, and a second hold allocates it.
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
    // The first hold isolates the pageblock, and the second searches for allocated frames.
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
