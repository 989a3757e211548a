//! Pages are migrated out of a range before the range is allocated or removed.

use framewright::{Contiguous, CpuId, HotplugError, MigrateType, Order, Pfn, RangeError, Request};

use crate::{frames, scatter, with_compactor, with_owner, with_owner_sized};

#[test]
fn a_given_range_is_emptied_and_taken() {
    for capacity in [1, 7, 64, 512] {
        with_owner(&[], 1, |owner| {
            scatter(owner, 4);
            for range in [frames(3, 512), frames(5, 1024), frames(9, 100), frames(20, 2000)] {
                let extent = with_compactor(owner, capacity, |compactor| {
                    let of = MigrateType::Movable;
                    compactor.alloc_range(range, of, &mut |in_the_way| panic!("{in_the_way:?}"))
                });
                let extent = extent.unwrap();
                assert_eq!(extent.range(), range);
                owner.memory.free_extent(extent).unwrap();
                owner.check();
            }
        });
    }
}

#[test]
fn pinned_frames_are_reported_and_nothing_else_changes() {
    with_owner(&[], 2, |owner| {
        scatter(owner, 3);
        let at = *owner.pages.borrow().keys().find(|&&at| at >= crate::BASE + 4096).unwrap();
        owner.pages.borrow_mut().get_mut(&at).unwrap().pinned = true;
        let range = frames((at - crate::BASE) / 512, 512);
        let mut named = Vec::new();
        let result = with_compactor(owner, 512, |compactor| {
            compactor.alloc_range(range, MigrateType::Movable, &mut |range| named.push(range))
        });
        assert_eq!(result.err(), Some(RangeError::Busy { frames: 1 }));
        assert_eq!((named.len(), named[0].start().get()), (1, at));
        owner.check();
    });
}

/// A deferred frame looks allocated, but has no page to claim.
#[test]
fn deferred_frames_are_returned_to_the_zone() {
    with_owner(&[("tlb.deferred_max", "512")], 9, |owner| {
        scatter(owner, 4);
        let start = crate::BASE + 3 * 512;
        let is_page = |(_, page): &(_, &framewright_fakes::Page)| page.order == 0;
        let at = owner.pages.borrow().range(start..).find(is_page).map(|(&at, _)| at).unwrap();
        owner.defer_free(at);
        assert_eq!(owner.memory.tlb().deferred(), 1);
        let extent = with_compactor(owner, 512, |compactor| {
            let (range, of) = (frames((at - crate::BASE) / 512, 512), MigrateType::Movable);
            compactor.alloc_range(range, of, &mut |in_the_way| panic!("{in_the_way:?}"))
        });
        owner.memory.free_extent(extent.unwrap()).unwrap();
        owner.check();
    });
}

#[test]
fn emptying_a_range_keeps_the_reserve() {
    with_owner(&[("zone.min_free", "600")], 8, |owner| {
        while owner.alloc(0, MigrateType::Movable, false).is_some() {}
        let zone = owner.memory.zones().next().unwrap();
        let result = with_compactor(owner, 512, |compactor| {
            compactor.alloc_range(frames(3, 512), MigrateType::Movable, &mut |_| ())
        });
        assert!(matches!(result.err(), Some(RangeError::Busy { .. })));
        let least = owner.least_free.get();
        assert!(least >= zone.min, "{least} frames were left of a reserve of {}", zone.min);
        owner.check();
    });
}

#[test]
fn a_contiguous_run_is_made_where_there_is_none() {
    with_owner(&[], 3, |owner| {
        scatter(owner, 4);
        let wanted = Contiguous::new(3000, MigrateType::Unmovable).aligned(Order::PAGEBLOCK);
        assert_eq!(owner.memory.alloc_contiguous(&wanted).err(), Some(RangeError::NotFound));
        let extent = with_compactor(owner, 512, |compactor| compactor.alloc_contiguous(&wanted));
        let extent = extent.unwrap();
        assert!(extent.range().frames() == 3000);
        owner.memory.free_extent(extent).unwrap();
        owner.check();
    });
}

/// Few enough pages for Miri.
#[test]
fn a_range_with_few_pages_is_emptied() {
    with_owner_sized(2, &[], 3, |owner| {
        let pages: Vec<_> =
            (0..16).filter_map(|_| owner.alloc(0, MigrateType::Movable, false)).collect();
        pages.iter().step_by(2).for_each(|&at| owner.free(at));
        owner.memory.drain_all();
        let pageblock = (pages[1] - crate::BASE) / 512;
        let extent = with_compactor(owner, 8, |compactor| {
            let (range, of) = (frames(pageblock, 512), MigrateType::Movable);
            compactor.alloc_range(range, of, &mut |in_the_way| panic!("{in_the_way:?}"))
        });
        assert_eq!(owner.memory.compact_stats().pgmigrate_success, 8);
        owner.memory.free_extent(extent.unwrap()).unwrap();
        owner.memory.check().unwrap();
    });
}

/// Only an attempt shows whether a page moves. The search passes over any number of pages that do
/// not move.
#[test]
fn a_contiguous_run_is_made_behind_pages_that_do_not_move() {
    with_owner_sized(128, &[], 3, |owner| {
        scatter(owner, 4);
        for stuck in (7..100).step_by(9) {
            let start = frames(stuck, 512).start().get();
            let mut pages = owner.pages.borrow_mut();
            let (_, page) = pages.range_mut(start..start + 512).next().unwrap();
            page.pinned = true;
        }
        let wanted = Contiguous::new(10 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
        let extent = with_compactor(owner, 512, |compactor| compactor.alloc_contiguous(&wanted));
        owner.memory.free_extent(extent.expect("there is a run behind them")).unwrap();
        let moved = owner.memory.compact_stats().pgmigrate_success;
        assert!(
            moved < 8192,
            "{moved} pages moved: a run with a page that cannot move was not left at once"
        );
        owner.check();
    });
}

/// Before the search fails, it moves pages without success, but at most as many as a few runs
/// contain.
#[test]
fn the_search_for_a_run_is_bounded() {
    with_owner_sized(256, &[], 3, |owner| {
        scatter(owner, 2);
        for stuck in (0..256).step_by(4) {
            let start = frames(stuck, 512).start().get();
            let mut pages = owner.pages.borrow_mut();
            let (_, page) = pages.range_mut(start..start + 512).next().unwrap();
            page.pinned = true;
        }
        let wanted =
            Contiguous::new(4 * 512, MigrateType::Movable).aligned(Order::new(11).unwrap());
        let result = with_compactor(owner, 512, |compactor| compactor.alloc_contiguous(&wanted));
        assert_eq!(result.err(), Some(RangeError::NotFound));
        let moved = owner.memory.compact_stats().pgmigrate_success;
        assert!((4 * 512..6 * 4 * 512).contains(&moved), "{moved}");
        owner.check();
    });
}

/// A run of free frames exists, but allocating it would use the reserve. Compaction does not change
/// that.
#[test]
fn a_contiguous_run_keeps_the_reserve() {
    with_owner(&[("zone.min_free", "2500")], 3, |owner| {
        let atomic = Request::new(Order::ZERO, MigrateType::Movable).atomic();
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        while let Ok(block) = token.alloc(atomic) {
            owner.add_page(block, false);
        }
        drop(token);
        let run = frames(0, 6 * 512);
        let pages: Vec<_> = owner.pages.borrow().keys().copied().collect();
        let in_run = pages.into_iter().filter(|&at| run.contains(Pfn::new(at)));
        in_run.for_each(|at| owner.free(at));
        owner.memory.drain_all();
        let wanted = Contiguous::new(6 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
        assert_eq!(owner.memory.alloc_contiguous(&wanted).err(), Some(RangeError::NotFound));
        let result = with_compactor(owner, 512, |compactor| compactor.alloc_contiguous(&wanted));
        assert_eq!(result.err(), Some(RangeError::NotFound));
        owner.check();
    });
}

#[test]
fn memory_is_emptied_before_removal() {
    with_owner(&[], 4, |owner| {
        scatter(owner, 4);
        let range = frames(8, 4096);
        let before = owner.pages.borrow().len();
        with_compactor(owner, 100, |compactor| compactor.remove_memory(range, &mut |_| ()))
            .unwrap();
        owner.check();
        assert_eq!(owner.pages.borrow().len(), before);
        assert!(
            owner.pages.borrow().range(range.start().get()..range.end().get()).next().is_none()
        );
        owner.memory.add_memory(range).unwrap();
        owner.check();
    });
}

#[test]
fn no_frame_is_lost_under_random_faults() {
    for seed in 1..40 {
        let paranoid = ("hardening", if seed % 4 == 0 { "paranoid" } else { "checked" });
        with_owner(
            &[paranoid, ("tlb.batching", ["lazy", "all", "off"][seed as usize % 3])],
            seed,
            |owner| {
                while owner.memory.free() > 6000 {
                    let of = [MigrateType::Movable, MigrateType::Unmovable]
                        [usize::from(owner.below(9) == 0)];
                    let order = [0, 0, 0, 1, 2, 5][owner.below(6) as usize];
                    owner.alloc(order, of, of == MigrateType::Unmovable);
                }
                let half = owner.pages.borrow().len() / 2;
                for _ in 0..half {
                    owner.free(owner.some_page().unwrap());
                }
                owner.memory.drain_all();
                owner.check();
                for _ in 0..20 {
                    owner.randomize_faults();
                    let range = frames(owner.below(28), 1 + owner.below(1500));
                    let capacity = 1 + owner.below(300) as usize;
                    let result = with_compactor(owner, capacity, |compactor| {
                        compactor.alloc_range(range, MigrateType::Movable, &mut |_| ())
                    });
                    match result {
                        Ok(extent) => owner.memory.free_extent(extent).unwrap(),
                        Err(RangeError::Busy { frames }) => assert!(frames > 0),
                        Err(other) => panic!("{other}"),
                    }
                    owner.check();
                    let gone = frames(owner.below(30), 1024);
                    match with_compactor(owner, capacity, |c| c.remove_memory(gone, &mut |_| ())) {
                        Ok(()) => owner.memory.add_memory(gone).unwrap(),
                        Err(HotplugError::Busy { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                    owner.check();
                }
            },
        );
    }
}
