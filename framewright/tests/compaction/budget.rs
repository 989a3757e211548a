//! With `compact.method=index`, each request has one budget of migration work. Work beyond the
//! budget is left to the next request.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use framewright::{
    CpuId, MigrateType, Order, Request,
    platform::{Captured, CompactPriority, Compacted, Need, Relief},
};

use framewright_fakes::FakeMover;

use crate::{
    BASE, leaked_owner, leaked_owner_with_relief,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor, with_owner,
};

/// Requests a huge page without waiting, and frees it. Returns the result and the number of moved
/// pages.
fn form(owner: &FakeMover<'_, '_>) -> (Compacted, u64) {
    let moved = || owner.memory.compact_stats().pgmigrate_success;
    let before = moved();
    let (result, block) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
    block.into_iter().for_each(|block| owner.memory.free_bypassing_lists(block).unwrap());
    owner.check();
    (result, moved() - before)
}

/// A pageblock with 300 pages, and free frames for them in other pageblocks.
fn one_to_empty(owner: &FakeMover<'_, '_>) {
    fill(owner);
    free_targets(owner);
}

fn free_targets(owner: &FakeMover<'_, '_>) {
    thin_out(owner, 3, 300);
    (9..12).for_each(|pageblock| thin_out(owner, pageblock, 400));
    owner.memory.drain_all();
}

#[test]
fn by_index_work_beyond_one_budget_continues_with_the_next_request() {
    with_owner(&[("compact.migrate_budget", "200")], 1, |owner| {
        one_to_empty(owner);
        let (result, first) = form(owner);
        assert_eq!(result, Compacted::Contended);
        assert!((100..200).contains(&first), "{first}");
        let mut moved = first;
        let last = (0..4).map(|_| form(owner)).find(|&(result, count)| {
            assert!(count < 200, "{count}");
            moved += count;
            result == Compacted::Success
        });
        assert!(last.is_some());
        assert_eq!(moved, 300, "pages were moved twice or not at all");
    });
}

/// The drain is charged before any page moves.
#[test]
fn by_index_draining_is_charged_to_the_budget() {
    let first = |drained_before: bool| {
        let moved = Cell::new(0);
        with_owner(&[("compact.migrate_budget", "200")], 1, |owner| {
            fill(owner);
            // A pageblock with an earlier failure is tried last.
            thin_out(owner, 4, 100);
            pin_first(owner, 4);
            thin_out(owner, 9, 400);
            owner.memory.drain_all();
            assert_eq!(form(owner).1, 0);
            thin_out(owner, 3, 300);
            thin_out(owner, 10, 400);
            owner.memory.drain_all();
            thin_out(owner, 11, 400);
            if drained_before {
                owner.memory.drain_all();
            }
            moved.set(form(owner).1);
        });
        moved.get()
    };
    let (drained, undrained) = (first(true), first(false));
    assert!(0 < undrained && undrained + 40 < drained, "{drained} and {undrained}");
}

/// If the drain leaves no budget for moves, the next request makes the moves without another drain.
#[test]
fn by_index_a_budget_spent_on_draining_leaves_the_moves_to_the_next_request() {
    with_owner(&[("compact.migrate_budget", "50")], 1, |owner| {
        fill(owner);
        thin_out(owner, 3, 31);
        (9..12).for_each(|pageblock| thin_out(owner, pageblock, 400));
        owner.memory.drain_all();
        // One frame of the pageblock is on a CPU list.
        thin_out(owner, 3, 30);
        assert_eq!(form(owner), (Compacted::Contended, 0));
        assert_eq!(form(owner), (Compacted::Success, 30));
    });
}

/// All pages must be claimable, even if the budget covers the moves of only some.
#[test]
fn by_index_no_page_moves_unless_the_whole_pageblock_can_be_claimed() {
    with_owner(&[("compact.migrate_budget", "200")], 1, |owner| {
        one_to_empty(owner);
        let start = BASE + 3 * 512;
        owner.pages.borrow_mut().range_mut(start..start + 512).next_back().unwrap().1.pinned = true;
        assert_eq!(form(owner).1, 0);
    });
}

/// Compaction begins to form a block above order 9 only if the estimated cost is within the budget.
/// It then completes the block, even if the work exceeds the estimate: here two batches instead of
/// one.
#[test]
fn by_index_a_started_run_of_pageblocks_is_finished() {
    with_owner(&[("compact.migrate_budget", "240")], 1, |owner| {
        fill(owner);
        // Two pageblocks that can form one block.
        [5, 6].into_iter().for_each(|pageblock| thin_out(owner, pageblock, 200));
        (9..12).for_each(|pageblock| thin_out(owner, pageblock, 350));
        owner.memory.drain_all();
        let pair = Request::new(Order::new(10).unwrap(), MigrateType::Movable);
        let (result, block) =
            with_compactor(owner, 256, |c| c.form(pair, CompactPriority::SyncLight));
        let moved = owner.memory.compact_stats().pgmigrate_success;
        assert_eq!((result, moved), (Compacted::Success, 400));
        owner.memory.free_bypassing_lists(block.expect("it was captured")).unwrap();
        owner.check();
    });
}

/// Once compaction has drained the lists, the slow path does not drain them again at the end of the
/// request.
#[test]
fn lists_are_drained_once_per_request() {
    let owner = leaked_owner_with_relief(&[], 1);
    fill(owner);
    for pageblock in [3, 9, 20] {
        thin_out(owner, pageblock, 100);
        pin_first(owner, pageblock);
    }
    owner.memory.drain_all();
    // Each page that is allocated and freed leaves its frame on a CPU list.
    owner.allocates_while_claiming.set(true);
    let drains = || owner.memory.stats().drains.iter().sum::<u64>();
    let before = drains();
    let mut token = owner.memory.cpu(CpuId::new(1)).unwrap();
    assert!(token.alloc(HUGE).is_err());
    drop(token);
    assert_eq!(drains() - before, 1);
    owner.check();
}

/// A request without budget to form a block does not reclaim memory for it; a request with budget
/// does.
#[test]
fn a_request_without_budget_does_not_reclaim() {
    for (budget, times) in [("200", 0), ("1600", 1)] {
        let owner = leaked_owner_with_relief(&[("compact.migrate_budget", budget)], 1);
        one_to_empty(owner);
        // With the larger budget, the pageblock fails because of a pinned page.
        pin_first(owner, if times == 0 { 9 } else { 3 });
        let mut token = owner.memory.cpu(CpuId::new(1)).unwrap();
        assert!(token.alloc(HUGE).is_err());
        drop(token);
        assert_eq!(owner.memory.stats().allocstall, times, "{budget}");
        owner.check();
    }
}

/// The first call of `reclaim` frees the target frames for a pageblock, and reports `frees` frames
/// as reclaimed.
struct Reclaiming {
    owner: &'static FakeMover<'static, 'static>,
    frees: u64,
    was_called: AtomicBool,
}

// SAFETY: a test has one thread.
unsafe impl Sync for Reclaiming {}

impl Relief for Reclaiming {
    fn reclaim(&self, _: &Need, _: u64) -> u64 {
        if self.was_called.swap(true, Relaxed) {
            return 0;
        }
        free_targets(self.owner);
        self.frees
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        with_compactor(self.owner, 512, |c| c.compact(need, priority, captured))
    }
}

/// The reclaim of a request is charged to its budget.
#[test]
fn reclaim_is_charged_to_the_budget() {
    let moved = |frees| {
        let owner = leaked_owner(&[("compact.migrate_budget", "200")], 1);
        fill(owner);
        let relief = Reclaiming { owner, frees, was_called: false.into() };
        owner.memory.platform().set_relief(relief);
        assert!(owner.memory.cpu(CpuId::new(1)).unwrap().alloc(HUGE).is_err());
        owner.check();
        owner.memory.compact_stats().pgmigrate_success
    };
    let (little, much) = (moved(1), moved(51));
    assert_eq!(little - much, 50, "{little} and {much}");
}
