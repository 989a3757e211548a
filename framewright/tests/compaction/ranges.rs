//! Given ranges, contiguous runs and memory that goes are emptied.

use framewright::{Contiguous, CpuId, HotplugError, MigrateType, Order, Pfn, RangeError, Request};

use crate::{frames, in_house, in_house_of, scatter, with_compactor};

#[test]
fn a_given_range_is_emptied_and_taken() {
    for room in [1, 7, 64, 512] {
        in_house(&[], 1, |house| {
            scatter(house, 4);
            for range in [frames(3, 512), frames(5, 1024), frames(9, 100), frames(20, 2000)] {
                let extent = with_compactor(house, room, |compactor| {
                    let of = MigrateType::Movable;
                    compactor.alloc_range(range, of, &mut |in_the_way| panic!("{in_the_way:?}"))
                });
                let extent = extent.unwrap();
                assert_eq!(extent.range(), range);
                house.memory.free_extent(extent).unwrap();
                house.check();
            }
        });
    }
}

#[test]
fn what_cannot_move_is_named_and_everything_else_stays_whole() {
    in_house(&[], 2, |house| {
        scatter(house, 3);
        let at = *house.pages.borrow().keys().find(|&&at| at >= crate::BASE + 4096).unwrap();
        house.pages.borrow_mut().get_mut(&at).unwrap().pinned = true;
        let range = frames((at - crate::BASE) / 512, 512);
        let mut named = Vec::new();
        let result = with_compactor(house, 512, |compactor| {
            compactor.alloc_range(range, MigrateType::Movable, &mut |range| named.push(range))
        });
        assert_eq!(result.err(), Some(RangeError::Busy { frames: 1 }));
        assert_eq!((named.len(), named[0].start().get()), (1, at));
        house.check();
    });
}

/// It looks allocated, and nobody can claim it.
#[test]
fn what_waits_for_a_flush_is_brought_home() {
    in_house(&[("tlb.parked_max", "512")], 9, |house| {
        scatter(house, 4);
        let start = crate::BASE + 3 * 512;
        let is_page = |(_, page): &(_, &crate::house::Page)| page.order == 0;
        let at = house.pages.borrow().range(start..).find(is_page).map(|(&at, _)| at).unwrap();
        house.park(at);
        assert_eq!(house.memory.tlb().deferred(), 1);
        let extent = with_compactor(house, 512, |compactor| {
            let (range, of) = (frames((at - crate::BASE) / 512, 512), MigrateType::Movable);
            compactor.alloc_range(range, of, &mut |in_the_way| panic!("{in_the_way:?}"))
        });
        house.memory.free_extent(extent.unwrap()).unwrap();
        house.check();
    });
}

#[test]
fn who_empties_a_range_leaves_the_reserve_alone() {
    in_house(&[("zone.min_free", "600")], 8, |house| {
        while house.alloc(0, MigrateType::Movable, false).is_some() {}
        let zone = house.memory.zones().next().unwrap();
        let result = with_compactor(house, 512, |compactor| {
            compactor.alloc_range(frames(3, 512), MigrateType::Movable, &mut |_| ())
        });
        assert!(matches!(result.err(), Some(RangeError::Busy { .. })));
        let least = house.least_free.get();
        assert!(least >= zone.min, "{least} frames were left of {} that must stay", zone.min);
        house.check();
    });
}

#[test]
fn a_contiguous_run_is_made_where_there_is_none() {
    in_house(&[], 3, |house| {
        scatter(house, 4);
        let wanted = Contiguous::new(3000, MigrateType::Unmovable).aligned(Order::PAGEBLOCK);
        assert_eq!(house.memory.alloc_contiguous(&wanted).err(), Some(RangeError::NotFound));
        let extent = with_compactor(house, 512, |compactor| compactor.alloc_contiguous(&wanted));
        let extent = extent.unwrap();
        assert!(extent.range().frames() == 3000);
        house.memory.free_extent(extent).unwrap();
        house.check();
    });
}

/// Whether a page moves turns out when somebody tries. What does not is passed, however often.
#[test]
fn a_contiguous_run_is_made_behind_pages_that_do_not_move() {
    in_house_of(128, &[], 3, |house| {
        scatter(house, 4);
        for stuck in (7..100).step_by(9) {
            let start = frames(stuck, 512).start().get();
            let mut pages = house.pages.borrow_mut();
            let (_, page) = pages.range_mut(start..start + 512).next().unwrap();
            page.pinned = true;
        }
        let wanted = Contiguous::new(10 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
        let extent = with_compactor(house, 512, |compactor| compactor.alloc_contiguous(&wanted));
        house.memory.free_extent(extent.expect("there is room behind")).unwrap();
        house.check();
    });
}

/// Pages move in vain before a run is given up; no more of them than a few runs hold.
#[test]
fn runs_are_not_tried_for_ever() {
    in_house_of(256, &[], 3, |house| {
        scatter(house, 2);
        for stuck in (0..256).step_by(4) {
            let start = frames(stuck, 512).start().get();
            let mut pages = house.pages.borrow_mut();
            let (_, page) = pages.range_mut(start..start + 512).next().unwrap();
            page.pinned = true;
        }
        let wanted =
            Contiguous::new(4 * 512, MigrateType::Movable).aligned(Order::new(11).unwrap());
        let result = with_compactor(house, 512, |compactor| compactor.alloc_contiguous(&wanted));
        assert_eq!(result.err(), Some(RangeError::NotFound));
        let moved = house.memory.compact_stats().pgmigrate_success;
        assert!((4 * 512..6 * 4 * 512).contains(&moved), "{moved}");
        house.check();
    });
}

/// A run of free frames is there, and too little would be left: nobody gets it by asking to compact.
#[test]
fn a_contiguous_run_leaves_the_reserve_alone() {
    in_house(&[("zone.min_free", "2500")], 3, |house| {
        let atomic = Request::new(Order::ZERO, MigrateType::Movable).atomic();
        let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
        while let Ok(block) = token.alloc(atomic) {
            house.move_in(block, false);
        }
        drop(token);
        let run = frames(0, 6 * 512);
        let pages: Vec<_> = house.pages.borrow().keys().copied().collect();
        let in_run = pages.into_iter().filter(|&at| run.contains(Pfn::new(at)));
        in_run.for_each(|at| house.free(at));
        house.memory.drain_all();
        let wanted = Contiguous::new(6 * 512, MigrateType::Movable).aligned(Order::PAGEBLOCK);
        assert_eq!(house.memory.alloc_contiguous(&wanted).err(), Some(RangeError::NotFound));
        let result = with_compactor(house, 512, |compactor| compactor.alloc_contiguous(&wanted));
        assert_eq!(result.err(), Some(RangeError::NotFound));
        house.check();
    });
}

#[test]
fn memory_that_goes_is_emptied_first() {
    in_house(&[], 4, |house| {
        scatter(house, 4);
        let range = frames(8, 4096);
        let before = house.pages.borrow().len();
        with_compactor(house, 100, |compactor| compactor.remove_memory(range, &mut |_| ()))
            .unwrap();
        house.check();
        assert_eq!(house.pages.borrow().len(), before);
        assert!(
            house.pages.borrow().range(range.start().get()..range.end().get()).next().is_none()
        );
        house.memory.add_memory(range).unwrap();
        house.check();
    });
}

#[test]
fn nothing_is_lost_whatever_goes_wrong() {
    for seed in 1..40 {
        let paranoid = ("hardening", if seed % 4 == 0 { "paranoid" } else { "checked" });
        in_house(
            &[paranoid, ("tlb.batching", ["lazy", "all", "off"][seed as usize % 3])],
            seed,
            |house| {
                while house.memory.free() > 6000 {
                    let of = [MigrateType::Movable, MigrateType::Unmovable]
                        [usize::from(house.below(9) == 0)];
                    let order = [0, 0, 0, 1, 2, 5][house.below(6) as usize];
                    house.alloc(order, of, of == MigrateType::Unmovable);
                }
                let half = house.pages.borrow().len() / 2;
                for _ in 0..half {
                    house.free(house.some_page().unwrap());
                }
                house.memory.drain_all();
                house.check();
                for _ in 0..20 {
                    house.let_go_wrong();
                    let range = frames(house.below(28), 1 + house.below(1500));
                    let room = 1 + house.below(300) as usize;
                    let result = with_compactor(house, room, |compactor| {
                        compactor.alloc_range(range, MigrateType::Movable, &mut |_| ())
                    });
                    match result {
                        Ok(extent) => house.memory.free_extent(extent).unwrap(),
                        Err(RangeError::Busy { frames }) => assert!(frames > 0),
                        Err(other) => panic!("{other}"),
                    }
                    house.check();
                    let gone = frames(house.below(30), 1024);
                    match with_compactor(house, room, |c| c.remove_memory(gone, &mut |_| ())) {
                        Ok(()) => house.memory.add_memory(gone).unwrap(),
                        Err(HotplugError::Busy { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                    house.check();
                }
            },
        );
    }
}
