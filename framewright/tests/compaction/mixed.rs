//! With `compact.method=index`, pageblocks that have or seem to have unmovable frames are targets
//! for the pages of other pageblocks. Full pageblocks are emptied last.

use framewright::{
    MigrateType, NodeId, Order, Pfn, Request, ZoneKind,
    platform::{CompactPriority, Compacted},
};

use framewright_fakes::FakeMover;

use crate::{
    BASE,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor, with_owner,
};

/// Allocates an unmovable frame in each of these movable pageblocks, and then frees pages there
/// until the given number is left. Memory must be full, and all other pageblocks stay full.
fn mix(owner: &FakeMover<'_, '_>, pageblocks: &[(u64, usize)], pinned: bool) {
    let mut odd = Vec::new();
    for &(pageblock, _) in pageblocks {
        // With so few free frames, the pageblock does not change its type.
        thin_out(owner, pageblock, 400);
        owner.memory.drain_all();
        let at = owner.alloc(0, MigrateType::Unmovable, pinned).expect("there are free frames");
        assert_eq!((at - BASE) / 512, pageblock);
        odd.push(at);
        owner.memory.drain_all();
        fill(owner);
    }
    for &(pageblock, left) in pageblocks {
        let start = BASE + pageblock * 512;
        let pages: Vec<_> =
            owner.pages.borrow().range(start..start + 512).map(|(&at, _)| at).collect();
        let others = pages.into_iter().filter(|at| !odd.contains(at));
        others.skip(left - 1).for_each(|at| owner.free(at));
        assert_eq!(owner.memory.pageblock_type(Pfn::new(start)), Some(MigrateType::Movable));
    }
    owner.memory.drain_all();
}

fn form(owner: &FakeMover<'_, '_>, priority: CompactPriority) -> Compacted {
    let (result, block) = with_compactor(owner, 512, |c| c.form(HUGE, priority));
    owner.check_but(Order::PAGEBLOCK, block.as_ref());
    block.into_iter().for_each(|block| owner.memory.free_bypassing_lists(block).unwrap());
    result
}

#[test]
fn by_index_pages_may_move_into_emptier_pageblocks_with_unmovable_frames() {
    for left in [100, 140] {
        with_owner(&[], 1, |owner| {
            fill(owner);
            mix(owner, &[(7, left)], true);
            // The pageblock with the unmovable frame has 412 or 372 free frames.
            thin_out(owner, 20, 400);
            owner.memory.drain_all();
            let fits = left == 100;
            assert_eq!(form(owner, CompactPriority::Async) == Compacted::Success, fits);
            assert_eq!(
                owner.scanned.get(),
                if fits { 400 } else { 0 },
                "the lack of targets is known before any claim"
            );
        });
    }
}

/// A formerly mixed pageblock may have only movable pages now.
#[test]
fn by_index_a_mixed_pageblock_is_emptied_if_there_is_no_all_movable_one() {
    with_owner(&[], 1, |owner| {
        fill(owner);
        mix(owner, &[(7, 100), (20, 400)], false);
        owner.fuller_only.set(true);
        assert_eq!(form(owner, CompactPriority::Async), Compacted::Success);
        assert_eq!(owner.scanned.get(), 100, "only the emptier one is scanned");
    });
}

/// Full pageblocks are on no list.
#[test]
fn by_index_full_pageblocks_are_emptied_last_into_pageblocks_with_unmovable_frames() {
    let priorities = [CompactPriority::Async, CompactPriority::SyncLight, CompactPriority::Sync];
    for priority in priorities {
        with_owner(&[("compact.migrate_budget", "2048")], 1, |owner| {
            fill(owner);
            mix(owner, &[(3, 200), (7, 200)], true);
            let before = owner.memory.compact_stats().compact_pageblocks_emptied;
            // The first attempts find the unmovable pages.
            let results: Vec<_> = (0..8).map(|_| form(owner, priority)).collect();
            assert!(results.contains(&Compacted::Success), "{priority:?}: {results:?}");
            assert_eq!(owner.memory.compact_stats().compact_pageblocks_emptied - before, 1);
        });
    }
}

/// Emptying a full pageblock needs a move for each of its frames. That is too much for background
/// compaction, but not for compaction of a node on demand.
#[test]
fn by_index_background_compaction_does_not_empty_full_pageblocks() {
    for by_hand in [false, true] {
        with_owner(&[("compact.proactiveness", "100")], 1, |owner| {
            fill(owner);
            mix(owner, &[(3, 200), (7, 200)], true);
            let node = NodeId::default();
            with_compactor(owner, 512, |c| {
                if by_hand {
                    c.compact_node(node);
                } else {
                    c.background(node, Order::PAGEBLOCK, ZoneKind::Movable);
                    c.proactive(node);
                }
            });
            assert_eq!(owner.memory.compact_stats().compact_pageblocks_emptied, u64::from(by_hand));
            owner.check();
        });
    }
}

/// A block as large as its pageblock could move only into a wholly free pageblock.
#[test]
fn by_index_a_pageblock_that_is_one_block_is_not_emptied() {
    with_owner(&[], 1, |owner| {
        let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable).no_wait();
        while let Ok(block) = owner.memory.alloc_bypassing_lists(huge) {
            owner.add_page(block, false);
        }
        for pageblock in [3, 7] {
            owner.free(BASE + pageblock * 512);
        }
        owner.memory.drain_all();
        fill(owner);
        mix(owner, &[(3, 200), (7, 200)], true);
        [3, 7].into_iter().for_each(|pageblock| pin_first(owner, pageblock));
        (0..8).for_each(|_| _ = form(owner, CompactPriority::Sync));
        // The two mixed pageblocks are scanned, and pageblocks that are one block are not.
        assert!(owner.scanned.get() < 512, "{} frames", owner.scanned.get());
    });
}
