//! By index, what one request waits for: all of it is on one account, and what that does not pay for goes on
//! with the next request.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use framewright::{
    CpuId, MigrateType, Order, Request,
    platform::{Captured, CompactPriority, Compacted, Need, Relief},
};

use crate::{
    BASE,
    house::House,
    house_that_stays, house_with_relief, in_house,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor,
};

/// Asks without waiting; what came of it, and how many pages moved. The block is given back.
fn form(house: &House<'_, '_>) -> (Compacted, u64) {
    let moved = || house.memory.compact_stats().pgmigrate_success;
    let before = moved();
    let (result, block) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
    block.into_iter().for_each(|block| house.memory.free_bypassing_lists(block).unwrap());
    house.check();
    (result, moved() - before)
}

/// A pageblock with 300 pages, for which there is room in others.
fn one_to_empty(house: &House<'_, '_>) {
    fill(house);
    make_room(house);
}

fn make_room(house: &House<'_, '_>) {
    thin_out(house, 3, 300);
    (9..12).for_each(|pageblock| thin_out(house, pageblock, 400));
    house.memory.drain_all();
}

#[test]
fn by_index_what_takes_longer_than_one_request_waits_goes_on_with_the_next() {
    in_house(&[("compact.frames", "200")], 1, |house| {
        one_to_empty(house);
        let (result, first) = form(house);
        assert_eq!(result, Compacted::Contended);
        assert!((100..200).contains(&first), "{first}");
        let mut moved = first;
        let last = (0..4).map(|_| form(house)).find(|&(result, count)| {
            assert!(count < 200, "{count}");
            moved += count;
            result == Compacted::Success
        });
        assert!(last.is_some());
        assert_eq!(moved, 300, "nothing twice");
    });
}

/// Before anything moves: it takes its time as well.
#[test]
fn by_index_what_is_brought_home_is_paid_for() {
    let first = |is_home: bool| {
        let moved = Cell::new(0);
        in_house(&[("compact.frames", "200")], 1, |house| {
            fill(house);
            // What was tried in vain is tried last.
            thin_out(house, 4, 100);
            pin_first(house, 4);
            thin_out(house, 9, 400);
            house.memory.drain_all();
            assert_eq!(form(house).1, 0);
            thin_out(house, 3, 300);
            thin_out(house, 10, 400);
            house.memory.drain_all();
            thin_out(house, 11, 400);
            if is_home {
                house.memory.drain_all();
            }
            moved.set(form(house).1);
        });
        moved.get()
    };
    let (home, abroad) = (first(true), first(false));
    assert!(0 < abroad && abroad + 40 < home, "{home} and {abroad}");
}

/// And is not forgotten if nothing is left then for what it was brought home for.
#[test]
fn by_index_who_has_just_enough_to_bring_home_leaves_the_rest_to_the_next() {
    in_house(&[("compact.frames", "50")], 1, |house| {
        fill(house);
        thin_out(house, 3, 31);
        (9..12).for_each(|pageblock| thin_out(house, pageblock, 400));
        house.memory.drain_all();
        // One frame of it lies on a list.
        thin_out(house, 3, 30);
        assert_eq!(form(house), (Compacted::Contended, 0));
        assert_eq!(form(house), (Compacted::Success, 30));
    });
}

/// Also where only a part of it could move.
#[test]
fn by_index_nothing_is_begun_that_cannot_be_claimed_to_its_end() {
    in_house(&[("compact.frames", "200")], 1, |house| {
        one_to_empty(house);
        let start = BASE + 3 * 512;
        house.pages.borrow_mut().range_mut(start..start + 512).next_back().unwrap().1.pinned = true;
        assert_eq!(form(house).1, 0);
    });
}

/// What is larger than a pageblock is begun only if it can be paid for. That two batches take longer than one
/// does not end it then.
#[test]
fn by_index_a_run_of_pageblocks_that_was_begun_is_emptied_to_its_end() {
    in_house(&[("compact.frames", "240")], 1, |house| {
        fill(house);
        // Where two pageblocks can be one block.
        [5, 6].into_iter().for_each(|pageblock| thin_out(house, pageblock, 200));
        (9..12).for_each(|pageblock| thin_out(house, pageblock, 350));
        house.memory.drain_all();
        let pair = Request::new(Order::new(10).unwrap(), MigrateType::Movable);
        let (result, block) =
            with_compactor(house, 256, |c| c.form(pair, CompactPriority::SyncLight));
        let moved = house.memory.compact_stats().pgmigrate_success;
        assert_eq!((result, moved), (Compacted::Success, 400));
        house.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
        house.check();
    });
}

/// Whoever has it done first: compaction does not leave it to the end of the request, too.
#[test]
fn what_lies_on_lists_is_brought_home_once_for_a_request() {
    let house = house_with_relief(&[], 1);
    fill(house);
    for pageblock in [3, 9, 20] {
        thin_out(house, pageblock, 100);
        pin_first(house, pageblock);
    }
    house.memory.drain_all();
    // Whoever has a page for a moment leaves its frame on a list.
    house.comes_and_goes.set(true);
    let drains = || house.memory.stats().drains.iter().sum::<u64>();
    let before = drains();
    let mut token = house.memory.cpu(CpuId::new(1)).unwrap();
    assert!(token.alloc(HUGE).is_err());
    drop(token);
    assert_eq!(drains() - before, 1);
    house.check();
}

/// Who has no time left to have a block formed has no room made for it either, and who has does.
#[test]
fn who_has_spent_the_account_does_not_reclaim() {
    for (account, times) in [("200", 0), ("1600", 1)] {
        let house = house_with_relief(&[("compact.frames", account)], 1);
        one_to_empty(house);
        // Where there is time for all of it, it is in vain.
        pin_first(house, if times == 0 { 9 } else { 3 });
        let mut token = house.memory.cpu(CpuId::new(1)).unwrap();
        assert!(token.alloc(HUGE).is_err());
        drop(token);
        assert_eq!(house.memory.stats().allocstall, times, "{account}");
        house.check();
    }
}

/// Makes room for a pageblock when it is asked for the first time, and says that it freed so many frames.
struct Reclaiming {
    house: &'static House<'static, 'static>,
    frees: u64,
    asked: AtomicBool,
}

// SAFETY: a test has one thread.
unsafe impl Sync for Reclaiming {}

impl Relief for Reclaiming {
    fn reclaim(&self, _: &Need, _: u64) -> u64 {
        if self.asked.swap(true, Relaxed) {
            return 0;
        }
        make_room(self.house);
        self.frees
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        with_compactor(self.house, 512, |c| c.compact(need, priority, captured))
    }
}

/// What was reclaimed for a request is time that it has waited, too.
#[test]
fn what_is_reclaimed_is_paid_for() {
    let moved = |frees| {
        let house = house_that_stays(&[("compact.frames", "200")], 1);
        fill(house);
        let relief = Box::leak(Box::new(Reclaiming { house, frees, asked: false.into() }));
        assert!(house.memory.platform().relief.set(relief).is_ok());
        assert!(house.memory.cpu(CpuId::new(1)).unwrap().alloc(HUGE).is_err());
        house.check();
        house.memory.compact_stats().pgmigrate_success
    };
    let (little, much) = (moved(1), moved(51));
    assert_eq!(little - much, 50, "{little} and {much}");
}
