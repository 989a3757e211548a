//! The high-atomic reserve: pageblocks for requests above order 0 that cannot wait.

use framewright::{CpuId, MigrateType, Request, ZoneId, ZoneKind, tuning::Auto};

use crate::script::{
    Answers, Call, MIN, NO_HELP, Script, ask, memory_of, movable, page, range, unmovable,
};

/// An allocator with this many pageblocks. With 100 pageblocks, the reserve may have one of them;
/// with 101 to 200, two.
fn large(answers: Answers, pageblocks: u64) -> &'static Script {
    let map = [range(0, pageblocks * 512, 0, ZoneKind::Normal)];
    memory_of(&map, answers, |tuning| tuning.zone.min_free = Auto::Fixed(MIN as u32))
}

/// An allocator with 110 pageblocks. Two of them are reserved, with a block of order 2 allocated in each.
fn with_reserve(answers: Answers) -> &'static Script {
    let memory = large(answers, 110);
    for of in [MigrateType::Movable, MigrateType::Unmovable] {
        let request = Request::new(movable(2).order(), of).atomic();
        let _stays = memory.alloc_bypassing_lists(request).unwrap().into_raw();
    }
    assert_eq!(reserved(memory), 2);
    memory.take_all_calls();
    memory
}

/// The number of free frames in the reserve of [`with_reserve`].
const RESERVE: u64 = 1024 - 8;

/// The number of pageblocks in the reserve.
fn reserved(memory: &Script) -> u64 {
    memory.check().unwrap();
    memory.block_counts(ZoneId::default()).pageblocks[MigrateType::HighAtomic as usize]
}

fn is_reserved(memory: &Script, pfn: framewright::Pfn) -> bool {
    memory.pageblock_type(pfn) == Some(MigrateType::HighAtomic)
}

/// As [`with_reserve`], with only the reserve and [`MIN`] frames free.
fn used_up(answers: Answers) -> &'static Script {
    let memory = with_reserve(answers);
    take_the_rest(memory);
    memory
}

/// Allocates all frames except the reserves, including frames on the lists of CPUs.
fn take_the_rest(memory: &Script) {
    memory.drain_all();
    memory.allocate_all(page().no_retry());
    memory.take_all_calls();
}

#[test]
fn pageblocks_that_serve_high_order_atomic_requests_are_reserved() {
    for (request, expected) in [
        (movable(1).atomic(), 1),
        (unmovable(3).atomic(), 1),
        (movable(9).atomic(), 1),
        (page().atomic(), 0),
        (movable(2).no_wait(), 0),
        (movable(2).urgent(), 0),
        (movable(2).atomic().without_reserves(), 0),
        (movable(2).inside_relief(), 0),
    ] {
        let memory = large(NO_HELP, 110);
        let block = memory.alloc_bypassing_lists(request).unwrap();
        assert_eq!(reserved(memory), expected, "{request:?}");
        memory.free_bypassing_lists(block).unwrap();
        let memory = large(NO_HELP, 110);
        let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
        let block = cpu.alloc(request).unwrap();
        assert_eq!(reserved(memory), expected, "{request:?} on a CPU");
        cpu.free(block).unwrap();
    }
}

#[test]
fn the_reserve_is_a_hundredth_rounded_up_and_nothing_below_a_pageblock() {
    for (pageblocks, expected) in [(99, 0), (100, 1), (101, 2), (200, 2), (201, 3)] {
        let memory = large(NO_HELP, pageblocks);
        memory.allocate_all(movable(8).atomic());
        assert_eq!(reserved(memory), expected, "of {pageblocks} pageblocks");
    }
}

#[test]
fn the_reserve_does_not_count_as_free_for_other_requests() {
    let memory = with_reserve(NO_HELP);
    // The request is tested against the watermark and served as if the reserve did not exist.
    memory.allocate_all(page().no_retry());
    assert_eq!(memory.free(), MIN + RESERVE);
    // Urgent requests that can wait are tested as if the reserve were free, but are not served from
    // it.
    memory.allocate_all(unmovable(0).urgent());
    assert_eq!(memory.free(), RESERVE);
    // Requests that cannot wait use the reserve when no other memory is left, down to their
    // watermark.
    memory.allocate_all(page().no_wait());
    assert_eq!(memory.free(), MIN);
    memory.allocate_all(page().inside_relief());
    assert_eq!(memory.free(), 0);
    memory.check().unwrap();
}

#[test]
fn high_atomic_requests_use_the_reserve_first_and_bypass_lists() {
    let memory = used_up(NO_HELP);
    let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
    let held = memory.held_by_cpus();
    let block = cpu.alloc(movable(3).atomic()).unwrap();
    assert!(is_reserved(memory, block.pfn()));
    assert_eq!(memory.held_by_cpus(), held, "the lists got frames of the reserve");
    cpu.free(block).unwrap();
    // Even if the other memory is between min and low, the reserve is used first.
    memory.release(MIN / 8);
    let block = memory.alloc_bypassing_lists(movable(2).atomic()).unwrap();
    assert!(is_reserved(memory, block.pfn()));
    memory.free_bypassing_lists(block).unwrap();
    // Other requests that cannot wait get frames outside the reserve while there are some.
    let block = memory.alloc_bypassing_lists(page().no_wait()).unwrap();
    assert!(!is_reserved(memory, block.pfn()));
    memory.free_bypassing_lists(block).unwrap();
}

#[test]
fn frames_of_the_reserve_return_to_it_when_freed() {
    let memory = with_reserve(NO_HELP);
    memory.allocate_all(page().inside_relief());
    memory.release(u64::MAX);
    assert_eq!(reserved(memory), 2);
    memory.allocate_all(page().no_retry());
    assert_eq!(memory.free(), MIN + RESERVE);
}

#[test]
fn the_reserve_is_given_up_before_a_verdict() {
    let memory = used_up(NO_HELP);
    let (result, calls) = ask(memory, unmovable(0));
    let block = result.unwrap();
    assert_eq!(calls, [Call::Reclaim(32)], "more than another walk of the zones followed reclaim");
    assert_eq!(memory.pageblock_type(block.pfn()), Some(MigrateType::Unmovable));
    assert_eq!(reserved(memory), 1);
    // The last pageblock is also released, and then the reserve is empty.
    take_the_rest(memory);
    let (result, calls) = ask(memory, page());
    assert!(result.is_ok() && calls == [Call::Reclaim(32)]);
    take_the_rest(memory);
    let (result, calls) = ask(memory, page());
    assert!(result.is_err());
    assert_eq!((calls, reserved(memory)), (vec![Call::Reclaim(32), Call::AskVerdict(None)], 0));
}

#[test]
fn reclaim_in_vain_releases_the_reserve_except_its_last_pageblock() {
    let memory = used_up(Answers { reclaim: |_, _| 1, ..NO_HELP });
    let (result, calls) = ask(memory, page().no_retry());
    assert!(result.is_ok());
    assert_eq!(calls, [Call::Reclaim(32)]);
    assert_eq!(reserved(memory), 1);
    take_the_rest(memory);
    assert!(ask(memory, page().no_retry()).0.is_err());
    assert_eq!(reserved(memory), 1);
}
