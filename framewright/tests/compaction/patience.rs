//! What somebody has in hand for a moment is waited for, where a given range is emptied; but not for ever.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use framewright::{
    Contiguous, FrameRange, HotplugError, IsolatedBlock, MigrateType, Order, Pfn, RangeError,
    observe::DrainReason,
    platform::{CompactPriority, Compacted, Wait},
};

use crate::{
    frames,
    house::{House, Mishaps},
    house_that_stays, in_house, in_house_of,
    rules::HUGE,
    scatter, with_compactor,
};

/// Pageblocks that somebody withholds, and lets go of while others wait.
struct Withholder {
    house: &'static House<'static, 'static>,
    blocks: Mutex<Vec<IsolatedBlock<'static>>>,
}

// SAFETY: a test has one thread.
unsafe impl Sync for Withholder {}
// SAFETY: a test has one thread.
unsafe impl Send for Withholder {}

impl Withholder {
    /// Withholds the pageblock of a frame in a house, until somebody has waited for memory.
    fn begin(house: &'static House<'static, 'static>) -> &'static Self {
        let this: &'static Self =
            Box::leak(Box::new(Withholder { house, blocks: Mutex::default() }));
        let others = Box::leak(Box::new(move |why| this.let_go(why)));
        assert!(house.memory.platform().others.set(others).is_ok());
        this
    }

    fn withhold(&self, at: Pfn) {
        let block = self.house.memory.isolate(at).expect("nothing in it is pinned");
        self.blocks.lock().unwrap().push(block);
    }

    fn let_go(&self, why: Wait) {
        if why == Wait::Memory
            && let Some(block) = self.blocks.lock().unwrap().pop()
        {
            self.house.memory.undo_isolate(block).unwrap();
        }
    }
}

#[test]
fn a_withheld_pageblock_of_a_range_is_waited_for() {
    let house = house_that_stays(&[], 1);
    scatter(house, 4);
    let others = Withholder::begin(house);
    for (pageblock, count, withheld) in [(4, 1024, 4..6), (9, 100, 9..10), (20, 2000, 21..24)] {
        withheld.for_each(|at| others.withhold(frames(at, 1).start()));
        let (range, of) = (frames(pageblock, count), MigrateType::Movable);
        let extent = with_compactor(house, 512, |c| c.alloc_range(range, of, &mut |_| ()));
        house.memory.free_extent(extent.expect("it is withheld for a moment")).unwrap();
    }
    others.withhold(frames(9, 512).start());
    let gone = frames(8, 1024);
    with_compactor(house, 512, |c| c.remove_memory(gone, &mut |_| ())).unwrap();
    house.memory.add_memory(gone).unwrap();
    house.check();
}

/// All of memory but little is wanted: there is no run without what is withheld.
#[test]
fn a_contiguous_run_waits_for_what_is_withheld_where_there_is_no_other() {
    let house = house_that_stays(&[], 1);
    scatter(house, 8);
    let others = Withholder::begin(house);
    [9, 10, 18].into_iter().for_each(|at| others.withhold(frames(at, 1).start()));
    let wanted = Contiguous::new(20 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
    let extent = with_compactor(house, 512, |compactor| compactor.alloc_contiguous(&wanted));
    house.memory.free_extent(extent.expect("it is withheld for a moment")).unwrap();
    (0..3).for_each(|_| others.let_go(Wait::Memory));
    house.check();
}

#[test]
fn what_is_withheld_for_good_is_not_waited_for_for_ever() {
    in_house(&[], 1, |house| {
        scatter(house, 4);
        let at = frames(9, 1).start();
        let withheld = house.memory.isolate(at).unwrap();
        let range = frames(8, 1024);
        let result = with_compactor(house, 512, |compactor| {
            compactor.alloc_range(range, MigrateType::Movable, &mut |_| ())
        });
        assert_eq!(result.err(), Some(RangeError::Isolated { at }));
        let result = with_compactor(house, 512, |c| c.remove_memory(range, &mut |_| ()));
        assert_eq!(result.err(), Some(HotplugError::Isolated { at }));
        let most = Contiguous::new(28 * 512, MigrateType::Movable);
        let result = with_compactor(house, 512, |c| c.alloc_contiguous(&most));
        assert_eq!(result.err(), Some(RangeError::NotFound));
        house.memory.undo_isolate(withheld).unwrap();
        house.check();
    });
}

/// Who empties a given range may wait, and does; a request that waits for nothing does not.
#[test]
fn a_range_is_emptied_although_others_are_in_the_way_now_and_then() {
    in_house(&[], 5, |house| {
        scatter(house, 4);
        house.mishaps.set(Mishaps { contended: 1, ..Mishaps::default() });
        let result = with_compactor(house, 512, |compactor| {
            compactor.alloc_range(frames(20, 512), MigrateType::Movable, &mut |_| ())
        });
        assert!(matches!(result, Err(RangeError::Busy { .. })), "not for ever: {result:?}");
        let (formed, _) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
        assert_eq!(formed, Compacted::Contended);
        house.mishaps.set(Mishaps { contended: 4, ..Mishaps::default() });
        let range = frames(3, 4096);
        let extent = with_compactor(house, 512, |compactor| {
            let of = MigrateType::Movable;
            compactor.alloc_range(range, of, &mut |in_the_way| panic!("{in_the_way:?}"))
        });
        house.memory.free_extent(extent.unwrap()).unwrap();
        house.check();
    });
}

/// Counts how often somebody in a house that stays waits for memory.
fn count_waits(house: &House<'_, '_>) -> &'static AtomicU64 {
    let waited: &'static AtomicU64 = Box::leak(Box::default());
    let count = |why| _ = waited.fetch_add((why == Wait::Memory).into(), Relaxed);
    assert!(house.memory.platform().others.set(Box::leak(Box::new(count))).is_ok());
    waited
}

/// How often somebody waits who looks for a run in vain.
fn waits_in_vain(house: &House<'_, '_>, wanted: &Contiguous) -> u64 {
    let waited = count_waits(house);
    let result = with_compactor(house, 512, |compactor| compactor.alloc_contiguous(wanted));
    assert_eq!(result.err(), Some(RangeError::NotFound));
    house.memory.check().unwrap();
    waited.load(Relaxed)
}

/// Who is in the way in one run is so in the next: all that are tried are waited for as long as one is.
#[test]
fn runs_are_not_waited_for_one_after_the_other() {
    let house = house_that_stays(&[], 1);
    scatter(house, 4);
    house.mishaps.set(Mishaps { contended: 1, ..Mishaps::default() });
    let wanted = Contiguous::new(1024, MigrateType::Movable).aligned(Order::PAGEBLOCK);
    let waited = waits_in_vain(house, &wanted);
    assert!((1..=4000).contains(&waited), "{waited}");
}

/// A page in each of these pageblocks never moves.
fn stick(house: &House<'_, '_>, pageblocks: impl Iterator<Item = u64>) {
    for stuck in pageblocks {
        let start = frames(stuck, 512).start().get();
        let mut pages = house.pages.borrow_mut();
        let (_, page) = pages.range_mut(start..start + 512).next().unwrap();
        page.pinned = true;
    }
}

#[test]
fn what_is_withheld_where_the_run_may_not_lie_is_not_waited_for() {
    let house = house_that_stays(&[], 1);
    scatter(house, 4);
    stick(house, [2, 6].into_iter());
    let withheld = house.memory.isolate(frames(20, 1).start()).unwrap();
    let wanted = Contiguous::new(4 * 512, MigrateType::Movable).within(frames(0, 8 * 512));
    assert_eq!(waits_in_vain(house, &wanted), 0);
    house.memory.undo_isolate(withheld).unwrap();
}

/// In each run that holds what is withheld, something else will not move.
#[test]
fn what_is_withheld_beside_what_never_moves_is_not_waited_for() {
    let house = house_that_stays(&[], 1);
    scatter(house, 4);
    let pin = |pfn| {
        let range = FrameRange::new(pfn, pfn.offset(1)).unwrap();
        house.memory.alloc_range(range, MigrateType::Unmovable, &mut |_| ()).ok()
    };
    let pinned = [5, 9].map(|at| {
        let start = frames(at, 1).start();
        (0..512).find_map(|i| pin(start.offset(i))).expect("a frame is free")
    });
    let withheld = house.memory.isolate(frames(7, 1).start()).unwrap();
    let wanted = Contiguous::new(4 * 512, MigrateType::Movable).within(frames(4, 8 * 512));
    assert_eq!(waits_in_vain(house, &wanted), 0);
    house.memory.undo_isolate(withheld).unwrap();
    pinned.into_iter().for_each(|extent| house.memory.free_extent(extent).unwrap());
}

/// Nothing is tried any more when it has been waited for.
#[test]
fn who_has_moved_enough_in_vain_does_not_wait() {
    in_house_of(256, &[], 3, |house| {
        scatter(house, 2);
        stick(house, (5..256).step_by(4));
        let withheld = house.memory.isolate(frames(2, 1).start()).unwrap();
        let wanted =
            Contiguous::new(4 * 512, MigrateType::Movable).aligned(Order::new(11).unwrap());
        assert_eq!(waits_in_vain(house, &wanted), 0);
        house.memory.undo_isolate(withheld).unwrap();
    });
}

/// What lies on the lists of CPUs is fetched once for all of a run: each time disturbs every CPU.
#[test]
fn lists_are_drained_once_for_a_run_and_not_for_each_of_its_pageblocks() {
    in_house(&[], 3, |house| {
        scatter(house, 4);
        let drains = || house.memory.stats().drains[DrainReason::Remote as usize];
        let before = drains();
        house.comes_and_goes.set(true);
        house.mishaps.set(Mishaps { refused: 10, ..Mishaps::default() });
        let wanted = Contiguous::new(16 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
        let extent = with_compactor(house, 512, |compactor| compactor.alloc_contiguous(&wanted));
        house.memory.free_extent(extent.unwrap()).unwrap();
        assert!(drains() - before <= 2, "{} drains", drains() - before);
        house.check();
    });
}
