//! The exits of the slow path: wake-ups, the order of reclaim and compaction, and failures.

use framewright::{AllocError, CpuId, NodeId, ZoneKind, platform::CompactPriority as Priority};
use framewright::{
    platform::{Captured, Compacted},
    tuning::Auto,
};

use crate::script::{
    Answers, Call, Call::*, NO_HELP, ask, fragmented, full, memory_of, movable, order, page, range,
    unmovable,
};

#[test]
fn background_reclaim_is_woken_once_per_node_and_round() {
    let map = [
        range(0, 1024, 0, ZoneKind::Dma32),
        range(1024, 1024, 0, ZoneKind::Normal),
        range(2048, 1024, 1, ZoneKind::Normal),
    ];
    let memory = memory_of(&map, NO_HELP, |tuning| {
        tuning.zone.min_free = Auto::Fixed(64);
        tuning.zone.reserve_ratios = [0; 4];
    });
    memory.allocate_all(page().no_wait());
    memory.take_all_calls();
    let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
    let mut woken = |request| {
        assert!(cpu.alloc(request).is_err());
        let calls = memory.take_all_calls();
        calls.into_iter().filter(|call| matches!(call, Wake { .. })).collect::<Vec<_>>()
    };
    let wake = |node, highest| Wake { node, order: 1, highest };
    let both = [wake(0, ZoneKind::Normal), wake(1, ZoneKind::Normal)];
    assert_eq!(woken(unmovable(1)), both);
    assert_eq!(
        woken(unmovable(1).no_wait()),
        both,
        "a request that cannot wait did not wake both nodes"
    );
    let there = NodeId::new(1).unwrap();
    assert_eq!(
        woken(unmovable(1).on_node(there)),
        [both[1], both[0]],
        "the nearest node was not woken first"
    );
    assert_eq!(woken(unmovable(1).on_node(there).this_node()), [both[1]]);
    assert_eq!(woken(unmovable(1).zone(ZoneKind::Dma32)), [wake(0, ZoneKind::Dma32)]);
    assert_eq!(woken(unmovable(1).no_wake()), []);
    assert_eq!(woken(unmovable(1).no_retry()), both);
}

#[test]
fn every_round_wakes_again() {
    let memory = full(Answers { reclaimable: |_, _| Some(u64::MAX), ..NO_HELP });
    assert!(memory.cpu(CpuId::new(0)).unwrap().alloc(page()).is_err());
    let calls = memory.take_all_calls();
    let count = |of: fn(&Call) -> bool| calls.iter().filter(|call| of(call)).count();
    assert_eq!(count(|call| matches!(call, Wake { .. })), 17);
    assert_eq!(
        count(|call| matches!(call, Wait)),
        16,
        "other tasks did not run between all rounds"
    );
}

#[test]
fn requests_that_cannot_wait_or_come_from_relief_ask_for_nothing() {
    for request in [
        unmovable(3).no_wait(),
        unmovable(3).atomic(),
        unmovable(3).inside_relief().without_reserves(),
        unmovable(3).atomic().no_fail(),
    ] {
        let memory = full(NO_HELP);
        // The reserve is exhausted first, so that it does not serve the requests.
        memory.allocate_all(page().inside_relief());
        memory.take_all_calls();
        let (result, calls) = ask(memory, request);
        assert_eq!(calls, [], "{request:?}");
        assert_eq!(result.unwrap_err().shortage().unwrap().rounds, 0);
    }
}

#[test]
fn reclaim_then_compaction_and_early_compaction_before_both() {
    const LIGHT: Call = Compact(Priority::SyncLight);
    const ASYNC: Call = Compact(Priority::Async);
    const JUDGE: Call = AskVerdict(None);
    for (request, expected) in [
        (page(), &[Reclaim(32), JUDGE][..]),
        (movable(3), &[Reclaim(32), LIGHT, JUDGE]),
        (unmovable(3), &[ASYNC, Reclaim(32), LIGHT, JUDGE]),
        // Compaction forms the block, so the request asks reclaim only for free space.
        (movable(6), &[ASYNC, Reclaim(32), LIGHT]),
        (movable(6).no_io(), &[Reclaim(64)]),
        (
            unmovable(3).no_io(),
            &[Reclaim(32), AskVerdict(Some(framewright::platform::NoKillReason::NoFileSystem))],
        ),
        (unmovable(3).no_retry(), &[ASYNC, Reclaim(32), LIGHT]),
        (page().no_retry(), &[Reclaim(32)]),
        (movable(4), &[ASYNC, Reclaim(32), LIGHT]),
    ] {
        let (result, calls) = ask(full(NO_HELP), request);
        assert_eq!(calls, expected, "{request:?}");
        assert_eq!(result.unwrap_err().shortage().unwrap().rounds, 1);
    }
}

#[test]
fn a_request_that_ignores_watermarks_does_not_compact_early() {
    let memory = fragmented(NO_HELP);
    let (_, calls) = ask(memory, unmovable(3).ignoring_watermarks().no_retry());
    assert_eq!(calls, [Reclaim(32), Compact(Priority::SyncLight)]);
}

#[test]
fn costly_requests_that_try_once_fail_early_or_stay_brief() {
    const ASYNC: Call = Compact(Priority::Async);
    let request = movable(9).no_retry();
    let calls = |result, request| {
        // A function pointer has no state, so there is one function for each answer.
        let compact: fn(&_, _, Captured<'_>) -> _ = match result {
            Compacted::Skipped => |_, _, _| Compacted::Skipped,
            Compacted::Deferred => |_, _, _| Compacted::Deferred,
            Compacted::Contended => |_, _, _| Compacted::Contended,
            _ => |_, _, _| Compacted::Unavailable,
        };
        ask(full(Answers { compact, ..NO_HELP }), request).1
    };
    assert_eq!(calls(Compacted::Skipped, request), [ASYNC]);
    assert_eq!(calls(Compacted::Deferred, request), [ASYNC]);
    assert_eq!(calls(Compacted::Contended, request.this_node()), [ASYNC]);
    assert_eq!(calls(Compacted::Contended, request), [ASYNC, Reclaim(32), ASYNC]);
    let light = Compact(Priority::SyncLight);
    assert_eq!(calls(Compacted::Unavailable, request), [ASYNC, Reclaim(512), light]);
}

#[test]
fn reclaimed_frames_serve_at_once() {
    let memory = full(Answers { reclaim: |script, _| script.release(32), ..NO_HELP });
    let (result, calls) = ask(memory, page());
    assert!(result.is_ok());
    assert_eq!(calls, [Reclaim(32)]);
    let stats = memory.stats();
    assert_eq!((stats.allocstall, stats.slow_paths, stats.failures), (1, 1, 0));
}

#[test]
fn frames_reclaimed_onto_lists_are_drained() {
    let memory = full(Answers {
        reclaim: |script, _| {
            let mut there = script.memory().cpu(CpuId::new(1)).unwrap();
            there.free(script.pop()).unwrap();
            1
        },
        ..NO_HELP
    });
    let (result, calls) = ask(memory, page());
    assert!(result.is_ok());
    assert_eq!(calls, [Reclaim(32)]);
    assert_eq!(memory.held_by_cpus(), 0);
}

#[test]
fn without_progress_lists_are_drained_once() {
    let memory = full(Answers {
        // In every round except the first, a frame is freed to the lists without a report.
        reclaim: |script, round| {
            let mut there = script.memory().cpu(CpuId::new(1)).unwrap();
            if round > 0 {
                there.free(script.pop()).unwrap();
            }
            0
        },
        reclaimable: |_, _| Some(u64::MAX),
        ..NO_HELP
    });
    let (result, _) = ask(memory, page());
    assert!(result.is_err());
    assert_eq!(memory.held_by_cpus(), 16);
}

#[test]
fn the_block_that_compaction_forms_serves_the_request() {
    let memory = fragmented(Answers {
        compact: |script, _, _| {
            script.release_where(|pfn| pfn.get() < 1024);
            Compacted::Success
        },
        ..NO_HELP
    });
    let (result, calls) = ask(memory, movable(9));
    assert!(result.is_ok());
    assert_eq!(calls, [Compact(Priority::Async)]);
    let stats = memory.stats();
    assert_eq!((stats.compact_stall, stats.compact_success, stats.compact_fail), (1, 1, 0));
}

#[test]
fn the_captured_block_serves_the_request() {
    let memory = fragmented(Answers {
        compact: |script, _, captured| {
            script.release_where(|pfn| pfn.get() < 1024);
            let formed = script.memory().alloc_bypassing_lists(movable(9)).unwrap();
            assert!(captured.keep(formed).is_ok());
            // All other frames are allocated, so that only the captured block can serve the
            // request.
            script.allocate_all(page().inside_relief());
            Compacted::Success
        },
        ..NO_HELP
    });
    let (result, calls) = ask(memory, movable(9).no_retry());
    assert_eq!(result.unwrap().order(), order(9));
    assert_eq!(calls, [Compact(Priority::Async)]);
}

#[test]
fn skipped_rounds_do_not_count_as_stalls() {
    let memory = full(Answers { compact: |_, _, _| Compacted::Skipped, ..NO_HELP });
    assert!(ask(memory, movable(4)).0.is_err());
    assert_eq!(memory.stats().compact_stall, 0);
    // As in Linux, a refused round counts as one more failure.
    let memory = full(Answers { compact: |_, _, _| Compacted::Deferred, ..NO_HELP });
    assert!(ask(memory, movable(4)).0.is_err());
    let stats = memory.stats();
    assert_eq!((stats.compact_stall, stats.compact_fail, stats.compact_success), (2, 2, 0));
    let memory = full(NO_HELP);
    assert!(ask(memory, movable(4)).0.is_err());
    let stats = memory.stats();
    assert_eq!((stats.compact_stall, stats.compact_fail, stats.compact_success), (2, 2, 0));
}

#[test]
fn the_error_names_the_shortage() {
    let error = |memory, request| ask(memory, request).0.unwrap_err();
    let short = error(full(NO_HELP), page());
    assert!(matches!(short, AllocError::BelowWatermark(_)));
    assert_eq!(
        short.to_string(),
        "out of memory: a request of order 0 would go below the min watermark, \
         after 1 round of reclaim and compaction"
    );
    let scattered = error(fragmented(NO_HELP), movable(2).no_wait());
    assert!(matches!(scattered, AllocError::NoBlockOfOrder(_)));
    assert_eq!(scattered.to_string(), "no free block of order 2: free memory is too fragmented");
}
