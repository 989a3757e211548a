//! The out-of-memory verdict after reclaim and compaction have failed.

use framewright::{
    AllocError, CpuId, ZoneId, ZoneKind,
    platform::{CompactPriority, Compacted, NoKillReason, Verdict},
    tuning::Auto,
};

use crate::script::{
    Answers, Call, MIN, NO_HELP, Script, ask, full, memory_of, movable, order, page, range,
};

#[test]
fn the_verdict_is_asked_with_a_full_report() {
    let memory = full(Answers { reclaim: |_, round| u64::from(round == 0) * 7, ..NO_HELP });
    let (result, calls) = ask(memory, movable(2));
    assert_eq!(*calls.last().unwrap(), Call::AskVerdict(None));
    let report = memory.take_report();
    assert_eq!(report.need.request, movable(2));
    assert_eq!((report.need.cpu, report.need.node.get()), (CpuId::new(0), 0));
    assert_eq!((report.zone, report.free, report.must_leave), (ZoneId::default(), MIN, MIN));
    assert_eq!(report.reclaimed, 7);
    assert_eq!(report.compacted, Some((CompactPriority::Sync, Compacted::Complete)));
    assert_eq!((result.unwrap_err(), report.no_kill), (report.error, None));
    assert_eq!(report.error.shortage().unwrap().rounds, 2);
    assert_eq!(
        report.to_string(),
        "out of memory: a request of order 2 would go below the min watermark, after 2 rounds \
         of reclaim and compaction; in the first zone of node 0, 256 frames are free and 256 must stay free; 7 were reclaimed in vain"
    );
    assert_eq!(memory.stats().out_of_memory, 1);
}

#[test]
fn the_report_says_why_no_task_should_be_killed() {
    let map = [range(0, 1024, 0, ZoneKind::Dma32), range(1024, 1024, 0, ZoneKind::Normal)];
    for (request, no_kill) in [
        (page(), None),
        (page().retry_may_fail(), Some(NoKillReason::MayFail)),
        (page().this_node(), Some(NoKillReason::OneNode)),
        (page().zone(ZoneKind::Dma32), Some(NoKillReason::LowZone)),
        (page().no_fs(), Some(NoKillReason::NoFileSystem)),
        (movable(4).retry_may_fail(), Some(NoKillReason::CostlyOrder)),
    ] {
        let memory = memory_of(&map, NO_HELP, |tuning| {
            tuning.zone.min_free = Auto::Fixed(64);
            tuning.zone.reserve_ratios = [0; 4];
        });
        memory.allocate_all(page().no_wait());
        memory.take_calls();
        let (_, calls) = ask(memory, request);
        let judged = calls.into_iter().filter(|call| matches!(call, Call::AskVerdict(_)));
        assert_eq!(judged.collect::<Vec<_>>(), [Call::AskVerdict(no_kill)], "{request:?}");
    }
}

#[test]
fn frames_freed_by_a_verdict_serve_the_request() {
    let verdict = |script: &Script, before| {
        assert!(before < 3);
        if before == 2 {
            script.release(100);
        }
        Verdict::Retry
    };
    let memory = full(Answers { verdict, ..NO_HELP });
    let (result, calls) = ask(memory, page());
    assert!(result.is_ok());
    let round = [Call::Reclaim(32), Call::AskVerdict(None)];
    assert_eq!(calls, [round, round, round].concat());
}

#[test]
fn a_retry_resets_the_rounds() {
    let verdict = |_: &_, before| if before == 0 { Verdict::Retry } else { Verdict::GiveUp };
    let memory = full(Answers { verdict, reclaimable: |_, _| Some(u64::MAX), ..NO_HELP });
    let (result, _) = ask(memory, page());
    assert_eq!(result.unwrap_err().shortage().unwrap().rounds, 34);
}

#[test]
fn memory_freed_last_serves_only_above_high() {
    /// At a query of the reclaimable frames of the lower zone, frees frames of the upper zone up to
    /// `more` above its high watermark. The query of the upper zone was earlier.
    fn turns_up(script: &Script, asked: ZoneId, more: u64) -> Option<u64> {
        let upper = script.memory().zones().nth(1).unwrap();
        if asked != upper.id {
            let first = upper.start.get();
            script.release_where(|pfn| (first..first + upper.high + more).contains(&pfn.get()));
        }
        Some(0)
    }
    let map = [range(0, 1024, 0, ZoneKind::Dma32), range(1024, 1024, 0, ZoneKind::Normal)];
    let asks = |reclaimable| {
        let memory = memory_of(&map, Answers { reclaimable, ..NO_HELP }, |tuning| {
            tuning.zone.min_free = Auto::Fixed(64);
        });
        memory.allocate_all(page().inside_relief());
        memory.take_calls();
        let (result, calls) = ask(memory, page());
        (result.is_ok(), calls)
    };
    let [reclaim, verdict] = [Call::Reclaim(32), Call::AskVerdict(None)];
    assert_eq!(asks(|script, zone| turns_up(script, zone, 0)), (false, vec![reclaim, verdict]));
    assert_eq!(asks(|script, zone| turns_up(script, zone, 1)), (true, vec![reclaim]));
}

#[test]
fn an_oom_victim_fails_whatever_the_verdict() {
    let memory = full(Answers { verdict: |_, _| Verdict::Retry, ..NO_HELP });
    memory.allocate_all(page().no_wait().oom_victim());
    memory.take_calls();
    let (result, calls) = ask(memory, page().oom_victim());
    assert_eq!(calls, [Call::Reclaim(32), Call::AskVerdict(None)]);
    assert!(matches!(result, Err(AllocError::BelowWatermark(_))));
}

#[test]
fn requests_wait_while_a_verdict_is_asked() {
    let memory = full(Answers {
        verdict: |script, before| {
            assert_eq!(before, 0, "two verdicts at once");
            // Meanwhile another CPU finds no memory, and waits until frames are freed.
            let mut other = script.memory().cpu(CpuId::new(1)).unwrap();
            let _stays = other.alloc(page()).unwrap().into_raw();
            Verdict::Retry
        },
        wait: |script, before| {
            if before == 4 {
                script.release(2);
            }
        },
        ..NO_HELP
    });
    let (result, _) = ask(memory, page());
    assert!(result.is_ok());
    assert_eq!(memory.stats().out_of_memory, 1);
}

// ---- requests that never fail -----------------------------------------------------------------

#[test]
fn no_fail_requests_use_half_of_the_reserve_and_then_wait() {
    let memory = full(Answers {
        wait: |script, before| {
            if before == 20 {
                script.release(1);
            }
        },
        ..NO_HELP
    });
    let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
    let mut alloc = || cpu.alloc(page().no_fail()).unwrap().into_raw();
    for _ in 0..MIN / 2 {
        let _stays = alloc();
    }
    let calls = memory.take_all_calls();
    assert!(!calls.contains(&Call::Wait), "it waited before half of the reserve was used");
    assert!(calls.contains(&Call::AskVerdict(None)), "the reserve was used before the verdict");
    let _stays = alloc();
    let calls = memory.take_all_calls();
    assert_eq!(calls.iter().filter(|&&call| call == Call::Wait).count(), 21);
    assert_eq!(memory.stats().failures, 0);
    assert_eq!(memory.free(), MIN / 2);
}

#[test]
fn no_fail_requests_wait_for_large_blocks_too() {
    let memory = full(Answers {
        wait: |script, before| {
            if before == 3 {
                script.release_where(|_| true);
            }
        },
        ..NO_HELP
    });
    let (result, _) = ask(memory, movable(9).no_fail().no_retry());
    assert_eq!(result.unwrap().order(), order(9));
}
