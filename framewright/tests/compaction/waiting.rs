//! Emptying a given range waits for locks and isolated pageblocks, but not for ever.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use framewright::{
    Contiguous, FrameRange, HotplugError, IsolatedBlock, MigrateType, Order, Pfn, RangeError,
    observe::DrainReason,
    platform::{CompactPriority, Compacted, Wait},
};

use framewright_fakes::{FakeMover, FaultRates};

use crate::{
    frames, leaked_owner, rules::HUGE, scatter, with_compactor, with_owner, with_owner_sized,
};

/// Isolated pageblocks, which are released one by one while a caller waits.
struct IsolationHolder {
    owner: &'static FakeMover<'static, 'static>,
    blocks: Mutex<Vec<IsolatedBlock<'static>>>,
}

// SAFETY: a test has one thread.
unsafe impl Sync for IsolationHolder {}
// SAFETY: a test has one thread.
unsafe impl Send for IsolationHolder {}

impl IsolationHolder {
    /// Releases a pageblock of `owner` whenever a caller has waited for memory.
    fn begin(owner: &'static FakeMover<'static, 'static>) -> &'static Self {
        let this: &'static Self =
            Box::leak(Box::new(IsolationHolder { owner, blocks: Mutex::default() }));
        owner.memory.platform().on_wait(|why, _| this.release_one(why));
        this
    }

    fn isolate(&self, at: Pfn) {
        let block = self.owner.memory.isolate(at).expect("it has no pinned frames");
        self.blocks.lock().unwrap().push(block);
    }

    fn release_one(&self, why: Wait) {
        if why == Wait::Memory
            && let Some(block) = self.blocks.lock().unwrap().pop()
        {
            self.owner.memory.undo_isolate(block).unwrap();
        }
    }
}

#[test]
fn a_range_waits_for_an_isolated_pageblock() {
    let owner = leaked_owner(&[], 1);
    scatter(owner, 4);
    let others = IsolationHolder::begin(owner);
    for (pageblock, count, isolated) in [(4, 1024, 4..6), (9, 100, 9..10), (20, 2000, 21..24)] {
        isolated.for_each(|at| others.isolate(frames(at, 1).start()));
        let (range, of) = (frames(pageblock, count), MigrateType::Movable);
        let extent = with_compactor(owner, 512, |c| c.alloc_range(range, of, &mut |_| ()));
        owner.memory.free_extent(extent.expect("it is isolated only for a moment")).unwrap();
    }
    others.isolate(frames(9, 512).start());
    let gone = frames(8, 1024);
    with_compactor(owner, 512, |c| c.remove_memory(gone, &mut |_| ())).unwrap();
    owner.memory.add_memory(gone).unwrap();
    owner.check();
}

/// The request needs nearly all memory, so every run contains an isolated pageblock.
#[test]
fn a_contiguous_request_waits_for_isolated_pageblocks_if_no_other_run_exists() {
    let owner = leaked_owner(&[], 1);
    scatter(owner, 8);
    let others = IsolationHolder::begin(owner);
    [9, 10, 18].into_iter().for_each(|at| others.isolate(frames(at, 1).start()));
    let wanted = Contiguous::new(20 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
    let extent = with_compactor(owner, 512, |compactor| compactor.alloc_contiguous(&wanted));
    owner.memory.free_extent(extent.expect("it is isolated only for a moment")).unwrap();
    (0..3).for_each(|_| others.release_one(Wait::Memory));
    owner.check();
}

#[test]
fn the_wait_for_an_isolated_pageblock_is_bounded() {
    with_owner(&[], 1, |owner| {
        scatter(owner, 4);
        let at = frames(9, 1).start();
        let isolated = owner.memory.isolate(at).unwrap();
        let range = frames(8, 1024);
        let result = with_compactor(owner, 512, |compactor| {
            compactor.alloc_range(range, MigrateType::Movable, &mut |_| ())
        });
        assert_eq!(result.err(), Some(RangeError::Isolated { at }));
        let result = with_compactor(owner, 512, |c| c.remove_memory(range, &mut |_| ()));
        assert_eq!(result.err(), Some(HotplugError::Isolated { at }));
        let most = Contiguous::new(28 * 512, MigrateType::Movable);
        let result = with_compactor(owner, 512, |c| c.alloc_contiguous(&most));
        assert_eq!(result.err(), Some(RangeError::NotFound));
        owner.memory.undo_isolate(isolated).unwrap();
        owner.check();
    });
}

/// Emptying a given range waits for locks. An asynchronous request does not.
#[test]
fn a_range_is_emptied_despite_occasional_contention() {
    with_owner(&[], 5, |owner| {
        scatter(owner, 4);
        owner.fault_rates.set(FaultRates { contended: 1, ..FaultRates::default() });
        let result = with_compactor(owner, 512, |compactor| {
            compactor.alloc_range(frames(20, 512), MigrateType::Movable, &mut |_| ())
        });
        assert!(
            matches!(result, Err(RangeError::Busy { .. })),
            "the wait did not end with Busy: {result:?}"
        );
        let (formed, _) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_eq!(formed, Compacted::Contended);
        owner.fault_rates.set(FaultRates { contended: 4, ..FaultRates::default() });
        let range = frames(3, 4096);
        let extent = with_compactor(owner, 512, |compactor| {
            let of = MigrateType::Movable;
            compactor.alloc_range(range, of, &mut |in_the_way| panic!("{in_the_way:?}"))
        });
        owner.memory.free_extent(extent.unwrap()).unwrap();
        owner.check();
    });
}

/// Counts the waits for memory.
fn count_waits(owner: &FakeMover<'_, '_>) -> &'static AtomicU64 {
    let waited: &'static AtomicU64 = Box::leak(Box::default());
    let count = |why, _| _ = waited.fetch_add((why == Wait::Memory).into(), Relaxed);
    owner.memory.platform().on_wait(count);
    waited
}

/// The number of waits of an unsuccessful search for a run.
fn waits_without_success(owner: &FakeMover<'_, '_>, wanted: &Contiguous) -> u64 {
    let waited = count_waits(owner);
    let result = with_compactor(owner, 512, |compactor| compactor.alloc_contiguous(wanted));
    assert_eq!(result.err(), Some(RangeError::NotFound));
    owner.memory.check().unwrap();
    waited.load(Relaxed)
}

/// A lock holder that blocks one run probably blocks the next run, too. So all runs together wait
/// only as long as one.
#[test]
fn one_retry_budget_covers_all_runs() {
    let owner = leaked_owner(&[], 1);
    scatter(owner, 4);
    owner.fault_rates.set(FaultRates { contended: 1, ..FaultRates::default() });
    let wanted = Contiguous::new(1024, MigrateType::Movable).aligned(Order::PAGEBLOCK);
    let waited = waits_without_success(owner, &wanted);
    assert!((1..=4000).contains(&waited), "{waited}");
}

/// Pins a page in each of these pageblocks.
fn pin_one_in_each(owner: &FakeMover<'_, '_>, pageblocks: impl Iterator<Item = u64>) {
    for stuck in pageblocks {
        let start = frames(stuck, 512).start().get();
        let mut pages = owner.pages.borrow_mut();
        let (_, page) = pages.range_mut(start..start + 512).next().unwrap();
        page.pinned = true;
    }
}

#[test]
fn isolated_pageblocks_outside_the_bounds_cause_no_wait() {
    let owner = leaked_owner(&[], 1);
    scatter(owner, 4);
    pin_one_in_each(owner, [2, 6].into_iter());
    let isolated = owner.memory.isolate(frames(20, 1).start()).unwrap();
    let wanted = Contiguous::new(4 * 512, MigrateType::Movable).within(frames(0, 8 * 512));
    assert_eq!(waits_without_success(owner, &wanted), 0);
    owner.memory.undo_isolate(isolated).unwrap();
}

/// Each run with an isolated pageblock also has a pinned page.
#[test]
fn isolated_pageblocks_cause_no_wait_if_a_pinned_page_blocks_each_run() {
    let owner = leaked_owner(&[], 1);
    scatter(owner, 4);
    let pin = |pfn| {
        let range = FrameRange::new(pfn, pfn.offset(1)).unwrap();
        owner.memory.alloc_range(range, MigrateType::Unmovable, &mut |_| ()).ok()
    };
    let pinned = [5, 9].map(|at| {
        let start = frames(at, 1).start();
        (0..512).find_map(|i| pin(start.offset(i))).expect("a frame is free")
    });
    let isolated = owner.memory.isolate(frames(7, 1).start()).unwrap();
    let wanted = Contiguous::new(4 * 512, MigrateType::Movable).within(frames(4, 8 * 512));
    assert_eq!(waits_without_success(owner, &wanted), 0);
    owner.memory.undo_isolate(isolated).unwrap();
    pinned.into_iter().for_each(|extent| owner.memory.free_extent(extent).unwrap());
}

/// A search that has moved as many pages as it may tries no further run. So it does not wait for
/// one.
#[test]
fn a_search_that_has_moved_its_limit_does_not_wait() {
    with_owner_sized(256, &[], 3, |owner| {
        scatter(owner, 2);
        pin_one_in_each(owner, (5..256).step_by(4));
        let isolated = owner.memory.isolate(frames(2, 1).start()).unwrap();
        let wanted =
            Contiguous::new(4 * 512, MigrateType::Movable).aligned(Order::new(11).unwrap());
        assert_eq!(waits_without_success(owner, &wanted), 0);
        owner.memory.undo_isolate(isolated).unwrap();
    });
}

/// A search drains the lists of CPUs only once for all pageblocks of a run, because each drain
/// disturbs every CPU.
#[test]
fn lists_are_drained_once_per_run_and_not_per_pageblock() {
    with_owner(&[], 3, |owner| {
        scatter(owner, 4);
        let drains = || owner.memory.stats().drains[DrainReason::Remote as usize];
        let before = drains();
        owner.allocates_while_claiming.set(true);
        owner.fault_rates.set(FaultRates { refused: 10, ..FaultRates::default() });
        let wanted = Contiguous::new(16 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
        let extent = with_compactor(owner, 512, |compactor| compactor.alloc_contiguous(&wanted));
        owner.memory.free_extent(extent.unwrap()).unwrap();
        assert!(drains() - before <= 2, "{} drains", drains() - before);
        owner.check();
    });
}
