//! Allocation of given ranges of frames, and the search for free runs.

use super::*;

#[test]
fn a_range_is_taken_whole_or_not_at_all() {
    let mut buddy = buddy(8);
    assert!(buddy.take_specific(1000, order(0), MOVABLE));
    let free = buddy.free_frames();
    assert!(!buddy.take_range(300, 3000, MOVABLE));
    assert!(
        !buddy.take_range(7 * 512, 9 * 512, MOVABLE),
        "a range beyond the end of the zone was taken"
    );
    assert_eq!(buddy.free_frames(), free);
    assert!(buddy.take_range(1001, 3000, MOVABLE));
    check(&buddy);
    assert_eq!(buddy.free_frames(), free - 1999);
    assert!(!buddy.take_range(2999, 3001, MOVABLE));
}

#[test]
fn a_range_comes_back_in_any_parts() {
    let mut buddy = buddy(8);
    assert!(buddy.take_range(100, 3500, MOVABLE));
    for (start, end) in [(600, 601), (100, 600), (2000, 3500), (601, 1500), (1500, 2000)] {
        assert_eq!(buddy.give_range(start, end), Refusals::default(), "{start}..{end}");
        check(&buddy);
        let again = buddy.give_range(start, end);
        assert!(again.count > 0, "{start}..{end} was freed twice");
    }
    assert_eq!(buddy.counts().free_of_order(order(12)), 1);
}

#[test]
fn a_range_in_isolated_pageblocks_goes_to_its_user() {
    let mut buddy = buddy(8);
    for index in 2..5 {
        buddy.isolate(index).unwrap();
    }
    assert!(buddy.take_range(1100, 2560, MigrateType::Unmovable));
    check(&buddy);
    for index in 2..5 {
        buddy.undo_isolate(index);
    }
    check(&buddy);
    assert_eq!(buddy.free_frames(), 8 * 512 - 1460);
    assert_eq!(buddy.type_of(3), MigrateType::Unmovable);
    assert_eq!(buddy.isolate(3), Err(IsolationRefused::Unmovable(512)));
    assert_eq!(buddy.isolate(2), Err(IsolationRefused::Unmovable(512 - (1100 - 1024))));
    assert_eq!(buddy.give_range(1100, 2560), Refusals::default());
    check(&buddy);
    assert_eq!(buddy.free_frames(), 8 * 512);
}

#[test]
fn a_range_that_is_part_of_a_block_is_refused() {
    let mut buddy = buddy(16);
    let (blocks, _) = take(&mut buddy, want(11, MOVABLE, 1));
    let free = buddy.free_frames();
    assert!(buddy.give_range(blocks[0] + 512, blocks[0] + 1024).count > 0);
    assert!(buddy.give_range(blocks[0] + 100, blocks[0] + 200).count > 0);
    check(&buddy);
    assert_eq!(buddy.free_frames(), free);
}

#[test]
fn a_run_is_found_across_pageblocks_of_any_fullness() {
    let mut buddy = buddy(300);
    let all = 300 * 512;
    for frame in [512 * 3 - 10, 512 * 70 + 3, 512 * 200] {
        assert!(buddy.take_specific(frame, order(0), MOVABLE));
    }
    let find = |buddy: &Buddy<'_>, frames, align, from| {
        buddy.find_free_run(RunWanted { frames, align, to: all }, from, 1000)
    };
    assert_eq!(find(&buddy, 5, 1, 512 * 3 - 10), FreeRun::Found(512 * 3 - 9));
    assert_eq!(find(&buddy, 67 * 512 + 9 + 3, 1, 0), FreeRun::Found(512 * 3 - 9));
    assert_eq!(find(&buddy, 67 * 512 + 9 + 4, 1, 0), FreeRun::Found(512 * 70 + 4));
    assert_eq!(find(&buddy, 64 * 512, 64 * 512, 0), FreeRun::Found(128 * 512));
    assert_eq!(find(&buddy, 130 * 512, 1, 0), FreeRun::None);
}

#[test]
fn a_search_goes_on_where_it_stopped() {
    let mut buddy = buddy(64);
    for index in 0..60 {
        assert!(buddy.take_specific(index * 512 + 7, order(0), MOVABLE));
    }
    let want = RunWanted { frames: 600, align: 1, to: 64 * 512 };
    let mut steps = 0;
    let mut from = 0;
    let found = loop {
        match buddy.find_free_run(want, from, 4) {
            FreeRun::Continue(next) => {
                assert!(next > from);
                from = next;
                steps += 1;
            }
            end => break end,
        }
    };
    assert_eq!(found, FreeRun::Found(59 * 512 + 8));
    assert!(steps > 10, "{steps}");
}

#[test]
fn short_runs_are_not_walked_where_a_long_one_is_wanted() {
    let mut buddy = buddy(64);
    for frame in (0..60 * 512).step_by(2) {
        assert!(buddy.take_specific(frame, order(0), MOVABLE));
    }
    let search = |frames, budget| {
        let want = RunWanted { frames, align: 1, to: 61 * 512 - 100 };
        buddy.find_free_run(want, 0, budget)
    };
    // Three steps for each pageblock suffice: its beginning, its inside and its end.
    assert_eq!(search(512, 3 * 64), FreeRun::None);
    assert_eq!(search(413, 3 * 64), FreeRun::Found(60 * 512 - 1));
    assert!(
        matches!(search(2, 3 * 64), FreeRun::Continue(_)),
        "the search did not walk every run, although two frames may be free in a row"
    );
}

#[test]
fn a_search_finds_the_lowest_run_there_is() {
    const ALL: u32 = 16 * 512;
    for clear in [1, 3, 30, 300, 2000] {
        let mut buddy = buddy(16);
        let mut random = u64::from(clear);
        let mut taken = std::vec![false; ALL as usize];
        for _ in 0..ALL / clear {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let frame = (random >> 33) as u32 % ALL;
            taken[frame as usize] |= buddy.take_specific(frame, order(0), MOVABLE);
        }
        for frames in [1, 2, 5, 6, 7, 8, 60, 127, 200, 511, 512, 700, 1022, 1023, 3000] {
            let lowest = (0..=ALL - frames)
                .find(|&at| taken[at as usize..(at + frames) as usize].iter().all(|&taken| !taken));
            let found = buddy.find_free_run(RunWanted { frames, align: 1, to: ALL }, 0, u32::MAX);
            assert_eq!(found, lowest.map_or(FreeRun::None, FreeRun::Found), "{clear}, {frames}");
        }
    }
}
