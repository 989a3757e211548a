//! Bounds on the number of calls of `Relief`, the hooks for reclaim and compaction.

use framewright::{
    Request, ZoneKind,
    platform::{Captured, CompactPriority as Priority, Compacted},
    tuning::{Auto, CompactMethod},
};

use crate::script::{
    Answers, Call, MIN, NO_HELP, Script, ask, fragmented, full, memory_of, movable, page, range,
};

/// The number of rounds of reclaim of a failing request.
fn reclaims(memory: &'static Script, request: Request) -> usize {
    let (result, calls) = ask(memory, request);
    let count = calls.iter().filter(|call| matches!(call, Call::Reclaim(_))).count();
    let error = result.expect_err("relief never helps");
    assert_eq!(usize::from(error.shortage().unwrap().rounds), count);
    count
}

/// The number of calls of compaction at each priority by a failing request.
fn compactions(memory: &'static Script, request: Request) -> [usize; 3] {
    let (result, calls) = ask(memory, request);
    assert!(result.is_err());
    [Priority::Async, Priority::SyncLight, Priority::Sync]
        .map(|priority| calls.iter().filter(|&&call| call == Call::Compact(priority)).count())
}

const PLENTY: Answers = Answers { reclaimable: |_, _| Some(u64::MAX), ..NO_HELP };

// ---- reclaim ----------------------------------------------------------------------------------

#[test]
fn a_request_fails_after_sixteen_rounds_without_progress() {
    assert_eq!(reclaims(full(PLENTY), page()), 1 + 16);
    let zone = [range(0, 4096, 0, framewright::ZoneKind::Normal)];
    let memory = memory_of(&zone, PLENTY, |tuning| {
        tuning.alloc.retries = 3;
        tuning.zone.min_free = Auto::Fixed(MIN as u32);
    });
    memory.allocate_all(page().no_wait());
    assert_eq!(reclaims(memory, page()), 1 + 3);
}

#[test]
fn progress_resets_the_count() {
    // The tenth round frees frames, but other requests allocate them.
    let reclaim = |_: &_, round| u64::from(round == 9);
    assert_eq!(reclaims(full(Answers { reclaim, ..PLENTY }), page()), 10 + 17);
    let costly = movable(4).retry_may_fail();
    assert_eq!(
        reclaims(full(Answers { reclaim, ..PLENTY }), costly),
        17,
        "a costly order started again"
    );
}

#[test]
fn progress_that_others_take_ends_in_a_verdict() {
    // Other requests allocate all freed frames.
    let reclaim = |_: &_, _| 1;
    assert_eq!(reclaims(full(Answers { reclaim, ..PLENTY }), page()), 1 + 256);
    let short = || {
        let zone = [range(0, 4096, 0, framewright::ZoneKind::Normal)];
        let memory = memory_of(&zone, Answers { reclaim, ..PLENTY }, |tuning| {
            tuning.alloc.progress_retries = 5;
            tuning.zone.min_free = Auto::Fixed(MIN as u32);
        });
        memory.allocate_all(page().no_wait());
        memory
    };
    let memory = short();
    let (result, calls) = ask(memory, page());
    assert!(result.is_err());
    assert_eq!(calls.iter().filter(|call| matches!(call, Call::AskVerdict(_))).count(), 1);
    assert_eq!(reclaims(short(), page()), 1 + 5);
}

#[test]
fn nothing_left_to_reclaim_ends_the_rounds_at_once() {
    assert_eq!(reclaims(full(NO_HELP), page()), 1);
    // Exactly min frames are free, so one reclaimable frame is enough for more rounds.
    assert_eq!(reclaims(full(Answers { reclaimable: |_, _| Some(1), ..NO_HELP }), page()), 17);
    let memory = full(Answers { reclaimable: |_, _| Some(9), ..NO_HELP });
    memory.allocate_all(page().urgent().no_wait());
    let short = MIN - memory.free();
    assert!(short > 9);
    assert_eq!(reclaims(memory, page()), 1);
}

#[test]
fn reclaim_of_fragmented_memory_is_bounded() {
    let reclaim = |_: &_, _| 1;
    let memory = fragmented(Answers { reclaim, ..PLENTY });
    // One round for each priority of compaction.
    assert_eq!(reclaims(memory, movable(2)), 2);
}

#[test]
fn without_a_count_of_reclaimable_frames_progress_decides() {
    let reclaimable = |_: &_, _| None;
    assert_eq!(reclaims(full(Answers { reclaimable, ..NO_HELP }), page()), 1);
    let reclaim = |_: &_, round| u64::from(round < 40);
    assert_eq!(reclaims(full(Answers { reclaim, reclaimable, ..NO_HELP }), page()), 41);
}

#[test]
fn costly_orders_take_one_round_unless_they_retry_and_compaction_can_help() {
    assert_eq!(reclaims(full(PLENTY), movable(3)), 17);
    assert_eq!(reclaims(full(PLENTY), movable(4)), 1);
    assert_eq!(reclaims(full(PLENTY), movable(4).retry_may_fail()), 17);
    assert_eq!(reclaims(full(PLENTY), movable(4).retry_may_fail().no_io()), 1);
    let compact = |_: &Script, _, _: Captured<'_>| Compacted::Unavailable;
    let memory = full(Answers { compact, ..PLENTY });
    assert_eq!(reclaims(memory, movable(4).retry_may_fail()), 1);
}

// ---- compaction -------------------------------------------------------------------------------

/// Reclaim reports progress, but no reclaimable frames are left. So the result depends only on
/// compaction.
const PROGRESS: Answers = Answers { reclaim: |_, _| 1, ..NO_HELP };

#[test]
fn failed_compaction_is_repeated_at_each_higher_priority() {
    assert_eq!(compactions(fragmented(PROGRESS), movable(2)), [0, 1, 1]);
    let costly = movable(4).retry_may_fail();
    assert_eq!(
        compactions(fragmented(PROGRESS), costly),
        [1, 1, 0],
        "a costly order did not stop at a lower priority"
    );
}

#[test]
fn without_progress_of_reclaim_compaction_is_not_asked_again() {
    assert_eq!(compactions(fragmented(NO_HELP), movable(2)), [0, 1, 0]);
}

#[test]
fn compaction_that_succeeds_in_vain_is_repeated_sixteen_times() {
    let memory = || fragmented(Answers { compact: |_, _, _| Compacted::Success, ..PROGRESS });
    assert_eq!(compactions(memory(), movable(2)), [0, 17, 17]);
    let costly = movable(4).retry_may_fail();
    assert_eq!(
        compactions(memory(), costly),
        [1, 5, 0],
        "a costly order did not have a quarter of the retries"
    );
}

#[test]
fn oom_victims_do_not_wait_for_compaction() {
    assert_eq!(compactions(fragmented(PROGRESS), movable(2).oom_victim()), [0, 1, 0]);
}

#[test]
fn compaction_without_free_frames_is_repeated_if_reclaim_can_free_them() {
    const SKIPS: Answers = Answers {
        compact: |_, _, _| Compacted::Skipped,
        reclaim: |_, round| u64::from(round < 5),
        ..NO_HELP
    };
    assert_eq!(
        compactions(fragmented(SKIPS), movable(2)),
        [0, 6, 0],
        "wrong number of rounds although enough frames are free already"
    );
    assert_eq!(
        compactions(full(Answers { reclaimable: |_, _| Some(0), ..SKIPS }), movable(2)),
        [0, 1, 0]
    );
    // A quarter of the reclaimable frames counts, and exactly min is free. So this quarter must exceed the size of the
    // block for the index, and twice that size for scanners.
    let seen = |method, reclaimable| {
        let zone = [range(0, 4096, 0, ZoneKind::Normal)];
        let memory = memory_of(&zone, Answers { reclaimable, ..SKIPS }, |tuning| {
            tuning.zone.min_free = Auto::Fixed(MIN as u32);
            tuning.compact.method = method;
        });
        // No block above order 0 is free, so that reclaim alone cannot help.
        memory.allocate_all(page().inside_relief());
        memory.release_where(|pfn| pfn.get() % 2 == 0 && pfn.get() < 2 * MIN);
        assert_eq!(memory.free(), MIN);
        memory.take_all_calls();
        compactions(memory, movable(2))
    };
    assert_eq!(seen(CompactMethod::Index, |_, _| Some(19)), [0, 1, 0]);
    assert_eq!(seen(CompactMethod::Index, |_, _| Some(20)), [0, 6, 0]);
    assert_eq!(seen(CompactMethod::Scan, |_, _| Some(35)), [0, 1, 0]);
    assert_eq!(seen(CompactMethod::Scan, |_, _| Some(36)), [0, 6, 0]);
}
