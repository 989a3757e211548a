//! By index, pageblocks that hold what does not move, or look so, are room for what others hold; and full
//! ones are emptied into them in the end.

use framewright::{
    MigrateType, NodeId, Order, Pfn, Request, ZoneKind,
    platform::{CompactPriority, Compacted},
};

use crate::{
    BASE,
    house::House,
    in_house,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor,
};

/// Puts something else into full movable pageblocks, and thins them out: to so many pages. Memory is full.
fn mix(house: &House<'_, '_>, pageblocks: &[(u64, usize)], pinned: bool) {
    let mut odd = Vec::new();
    for &(pageblock, _) in pageblocks {
        // So little room that its type does not change.
        thin_out(house, pageblock, 400);
        house.memory.drain_all();
        let at = house.alloc(0, MigrateType::Unmovable, pinned).expect("room");
        assert_eq!((at - BASE) / 512, pageblock);
        odd.push(at);
        house.memory.drain_all();
        fill(house);
    }
    for &(pageblock, left) in pageblocks {
        let start = BASE + pageblock * 512;
        let pages: Vec<_> =
            house.pages.borrow().range(start..start + 512).map(|(&at, _)| at).collect();
        let others = pages.into_iter().filter(|at| !odd.contains(at));
        others.skip(left - 1).for_each(|at| house.free(at));
        assert_eq!(house.memory.pageblock_type(Pfn::new(start)), Some(MigrateType::Movable));
    }
    house.memory.drain_all();
}

fn form(house: &House<'_, '_>, priority: CompactPriority) -> Compacted {
    let (result, block) = with_compactor(house, 512, |c| c.form(HUGE, priority));
    house.check_but(Order::PAGEBLOCK, block.as_ref());
    block.into_iter().for_each(|block| house.memory.free_bypassing_lists(block).unwrap());
    result
}

#[test]
fn by_index_what_a_fuller_pageblock_holds_may_go_to_where_nothing_forms() {
    for left in [100, 140] {
        in_house(&[], 1, |house| {
            fill(house);
            mix(house, &[(7, left)], true);
            // 412 or 372 frames are free in the one that is emptier.
            thin_out(house, 20, 400);
            house.memory.drain_all();
            let fits = left == 100;
            assert_eq!(form(house, CompactPriority::Async) == Compacted::Success, fits);
            assert_eq!(house.asked.get(), if fits { 400 } else { 0 }, "it is known beforehand");
        });
    }
}

/// What was mixed once may all move.
#[test]
fn by_index_a_doubtful_pageblock_is_emptied_where_there_is_no_certain_one() {
    in_house(&[], 1, |house| {
        fill(house);
        mix(house, &[(7, 100), (20, 400)], false);
        house.fuller_only.set(true);
        assert_eq!(form(house, CompactPriority::Async), Compacted::Success);
        assert_eq!(house.asked.get(), 100, "the emptier one");
    });
}

/// Full ones are on no list.
#[test]
fn by_index_full_pageblocks_are_emptied_in_the_end_into_where_nothing_forms() {
    let priorities = [CompactPriority::Async, CompactPriority::SyncLight, CompactPriority::Sync];
    for priority in priorities {
        in_house(&[("compact.frames", "2048")], 1, |house| {
            fill(house);
            mix(house, &[(3, 200), (7, 200)], true);
            let before = house.memory.compact_stats().compact_emptied;
            // What does not move is found out first.
            let results: Vec<_> = (0..8).map(|_| form(house, priority)).collect();
            assert!(results.contains(&Compacted::Success), "{priority:?}: {results:?}");
            assert_eq!(house.memory.compact_stats().compact_emptied - before, 1);
        });
    }
}

/// It takes as many moves as a pageblock has frames: not for whoever may come, but for people, who want all
/// that there can be.
#[test]
fn by_index_the_background_leaves_full_pageblocks_alone() {
    for by_hand in [false, true] {
        in_house(&[("compact.proactiveness", "100")], 1, |house| {
            fill(house);
            mix(house, &[(3, 200), (7, 200)], true);
            let node = NodeId::default();
            with_compactor(house, 512, |c| {
                if by_hand {
                    c.compact_node(node);
                } else {
                    c.background(node, Order::PAGEBLOCK, ZoneKind::Movable);
                    c.proactive(node);
                }
            });
            assert_eq!(house.memory.compact_stats().compact_emptied, u64::from(by_hand));
            house.check();
        });
    }
}

/// A block that is a pageblock has nowhere to go but into another.
#[test]
fn by_index_what_is_one_block_is_not_taken_for_a_full_pageblock() {
    in_house(&[], 1, |house| {
        let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable).no_wait();
        while let Ok(block) = house.memory.alloc_bypassing_lists(huge) {
            house.move_in(block, false);
        }
        for pageblock in [3, 7] {
            house.free(BASE + pageblock * 512);
        }
        house.memory.drain_all();
        fill(house);
        mix(house, &[(3, 200), (7, 200)], true);
        [3, 7].into_iter().for_each(|pageblock| pin_first(house, pageblock));
        (0..8).for_each(|_| _ = form(house, CompactPriority::Sync));
        // One page of each is asked for at least, not one of each pageblock.
        assert!(house.asked.get() < 512, "{} frames", house.asked.get());
    });
}
