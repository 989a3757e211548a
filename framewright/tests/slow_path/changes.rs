//! Adding and removing memory during a request.

use framewright::{FrameRange, MemoryRange, Pfn, Presence, Request, ZoneKind, tuning::Auto};

use crate::script::{Answers, Call, NO_HELP, Script, ask, memory_of, page, range, unmovable};

const FIRST: u64 = 2048;

/// An allocator with two nodes. The first is exhausted, and the second is absent.
fn half(answers: Answers) -> &'static Script {
    let absent =
        MemoryRange { presence: Presence::Absent, ..range(FIRST, 1024, 1, ZoneKind::Normal) };
    let memory = memory_of(&[range(0, FIRST, 0, ZoneKind::Normal), absent], answers, |tuning| {
        tuning.zone.min_free = Auto::Fixed(64);
    });
    memory.allocate_all(page().inside_relief());
    memory.take_all_calls();
    memory
}

fn second_node() -> FrameRange {
    FrameRange::new(Pfn::new(FIRST), Pfn::new(FIRST + 1024)).unwrap()
}

/// Adds the second node if it is absent, or removes it.
fn change(script: &Script) {
    let memory = script.memory();
    if memory.add_memory(second_node()).is_err() {
        memory.remove_memory(second_node(), &mut |_| ()).unwrap();
    }
}

/// The numbers of calls for reclaim, for compaction and for a verdict by a request of the first
/// node, and the number of rounds in its error.
fn calls_of(answers: Answers, request: Request) -> [usize; 4] {
    let (result, calls) = ask(half(answers), request.this_node());
    let count = |of: fn(&Call) -> bool| calls.iter().filter(|call| of(call)).count();
    [
        count(|call| matches!(call, Call::Reclaim(_))),
        count(|call| matches!(call, Call::Compact(_))),
        count(|call| matches!(call, Call::AskVerdict(_))),
        result.unwrap_err().shortage().unwrap().rounds.into(),
    ]
}

#[test]
fn a_request_starts_again_when_memory_changes() {
    assert_eq!(calls_of(NO_HELP, page()), [1, 0, 1, 1]);
    let reclaim = |script: &Script, before| {
        if before < 3 {
            change(script);
        }
        0
    };
    let noticed_before_the_verdict = Answers { reclaim, ..NO_HELP };
    assert_eq!(calls_of(noticed_before_the_verdict, page()), [4, 0, 1, 4]);
    let noticed_before_giving_up = Answers { reclaim, ..NO_HELP };
    assert_eq!(calls_of(noticed_before_giving_up, page().no_retry()), [4, 0, 0, 4]);
    let verdict = |script: &Script, before| {
        if before < 3 {
            change(script);
        }
        framewright::platform::Verdict::GiveUp
    };
    assert_eq!(calls_of(Answers { verdict, ..NO_HELP }, page()), [4, 0, 4, 4]);
}

#[test]
fn a_restarted_request_compacts_early_again() {
    let verdict = |script: &Script, before| {
        if before == 0 {
            change(script);
        }
        framewright::platform::Verdict::GiveUp
    };
    assert_eq!(calls_of(NO_HELP, unmovable(1)), [1, 2, 1, 1]);
    assert_eq!(calls_of(Answers { verdict, ..NO_HELP }, unmovable(1)), [2, 4, 2, 2]);
}

#[test]
fn memory_added_meanwhile_serves_the_request() {
    let verdict = |script: &Script, _| {
        change(script);
        framewright::platform::Verdict::GiveUp
    };
    let memory = half(Answers { verdict, ..NO_HELP });
    let (result, _) = ask(memory, page());
    assert!(second_node().contains(result.unwrap().pfn()));
}
