//! Hardening `paranoid`: every bad raw free is refused at the call and changes nothing; what is
//! freed waits; what is written while it is free is found.
#![cfg(not(any(feature = "loom", feature = "tso")))]

mod support;

use framewright::{
    Block, Config, CpuToken, FrameRange, FreeError, Layout, Memory, MigrateType, Order, Pfn,
    Request, ZoneId,
    observe::{Corruption, Finding},
    tuning::{Auto, Hardening},
};
use proptest::{collection::vec, prelude::*};
use support::{
    machine::{Machine, Metadata, cpu, order, raw},
    setup::Setup,
    steps::{Action, Step},
    topology::{Stretch, Topology},
    world,
};

/// Two pageblocks with a hole between: frames 0x400 to 0x600 and 0x700 to 0x900.
const MAP: [(u64, u64); 2] = [(0x400, 0x600), (0x700, 0x900)];
const MANAGED: u64 = 0x400;
/// Frames that a CPU withholds.
const QUARANTINE: u64 = 16;

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

type Token<'a, 'm> = CpuToken<'a, 'm, Machine>;

fn with_config<R>(f: impl FnOnce(&mut Config<'_>) -> R) -> R {
    let map = MAP.map(|(a, b)| FrameRange::new(Pfn::new(a), Pfn::new(b)).unwrap().into());
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = Hardening::Paranoid;
    config.tuning.paranoid.quarantine = QUARANTINE as u32;
    f(&mut config)
}

/// Runs `test` on a fresh memory with some settings changed.
fn on_memory_with(
    change: impl FnOnce(&mut Config<'_>),
    test: impl for<'m> FnOnce(&Memory<'m, Machine>, &mut Token<'_, 'm>),
) {
    with_config(|config| {
        change(config);
        let mut metadata = Metadata::new(Layout::new::<Machine>(config).unwrap().bytes());
        let memory = Memory::new(Machine::default(), config, metadata.as_mut()).unwrap();
        test(&memory, &mut memory.cpu(cpu(0)).unwrap());
    });
}

fn on_memory(test: impl for<'m> FnOnce(&Memory<'m, Machine>, &mut Token<'_, 'm>)) {
    on_memory_with(|_| {}, test);
}

/// Runs `test` on fresh memories with a block of each order that they have.
fn each_order(test: impl Fn(&Memory<'_, Machine>, &mut Token<'_, '_>, Pfn, Order)) {
    for of_order in Order::all() {
        on_memory(|memory, token| {
            let Ok(block) = token.alloc(Request::new(of_order, MigrateType::Movable)) else {
                return;
            };
            let (pfn, size) = block.into_raw();
            test(memory, token, pfn, size);
            // What it was still is, and can be freed.
            free(token, pfn, size).unwrap();
            memory.drain_all();
            assert_eq!(memory.free(), MANAGED);
            assert!(memory.platform().take_reports().is_empty());
        });
    }
}

fn free(token: &mut Token<'_, '_>, pfn: Pfn, size: Order) -> Result<(), FreeError> {
    // SAFETY: right or wrong, at this level the library knows. The frames do not exist.
    unsafe { token.free_raw(pfn, size) }
}

/// Everything that a refused free must leave as it was.
fn books(memory: &Memory<'_, Machine>) -> impl PartialEq + std::fmt::Debug + use<> {
    memory.check().unwrap();
    let stats = memory.stats();
    let blocks = memory.block_counts(ZoneId::default());
    (blocks, memory.held_by_cpus(), memory.free(), stats.pgalloc, stats.pgfree)
}

/// Frees what must not be freed.
fn refused(
    memory: &Memory<'_, Machine>,
    token: &mut Token<'_, '_>,
    pfn: Pfn,
    size: Order,
) -> FreeError {
    let before = books(memory);
    let error = free(token, pfn, size).expect_err("this free is bad");
    assert_eq!(books(memory), before, "the refused free has changed something");
    let reports = memory.platform().take_reports();
    if matches!(error, FreeError::NotOurs | FreeError::Misaligned) {
        assert!(reports.is_empty(), "{reports:?}");
    } else {
        let what = Finding::BadFree(error);
        assert_eq!(reports, [Corruption { pfn, order: size, what, count: 1 }]);
    }
    error
}

// ---- bad frees --------------------------------------------------------------------------------

#[test]
fn a_double_free_is_refused_at_once() {
    for of_order in Order::all() {
        on_memory(|memory, token| {
            let Ok(block) = token.alloc(Request::new(of_order, MigrateType::Unmovable)) else {
                return;
            };
            let (pfn, size) = block.into_raw();
            free(token, pfn, size).unwrap();
            assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
            memory.drain_all();
            assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
        });
    }
}

#[test]
fn a_free_of_another_order_is_refused_at_once() {
    each_order(|memory, token, pfn, size| {
        for other in Order::all().filter(|other| *other != size && pfn.is_aligned(*other)) {
            let end = pfn.get() + other.frames();
            let fits = MAP.iter().any(|(from, to)| *from <= pfn.get() && end <= *to);
            let error = if fits { FreeError::WrongOrder } else { FreeError::NotOurs };
            assert_eq!(refused(memory, token, pfn, other), error, "{size} as {other}");
        }
    });
}

#[test]
fn a_free_from_the_inside_is_refused_at_once() {
    each_order(|memory, token, pfn, size| {
        for part in Order::all().take_while(|part| *part < size) {
            for middle in [part.frames(), size.frames() - part.frames()] {
                let middle = pfn.offset(middle);
                assert_eq!(refused(memory, token, middle, part), FreeError::NotAllocated);
            }
        }
    });
}

#[test]
fn a_misaligned_free_is_refused_at_once() {
    each_order(|memory, token, pfn, size| {
        for larger in Order::all().filter(|larger| Order::ZERO < *larger && *larger <= size) {
            assert_eq!(refused(memory, token, pfn.offset(1), larger), FreeError::Misaligned);
        }
    });
}

#[test]
fn a_free_of_two_neighbours_as_one_is_refused_at_once() {
    on_memory(|memory, token| {
        let whole = token.alloc(Request::new(order(6), MigrateType::Movable)).unwrap();
        let (low, high) = token.split(whole).unwrap();
        assert_eq!(refused(memory, token, low.pfn(), order(6)), FreeError::WrongOrder);
        assert_eq!(refused(memory, token, high.pfn(), order(4)), FreeError::WrongOrder);
        token.free(low).unwrap();
        token.free(high).unwrap();
        memory.drain_all();
        assert_eq!(memory.free(), MANAGED);
    });
}

#[test]
fn foreign_frames_are_refused_at_once() {
    on_memory(|memory, token| {
        for outside in [0, 0x3ff, 0x600, 0x6ff, 0x900, u64::MAX >> 16, u64::MAX] {
            let error = refused(memory, token, Pfn::new(outside), Order::ZERO);
            assert_eq!(error, FreeError::NotOurs, "{outside:#x}");
        }
        assert_eq!(refused(memory, token, Pfn::new(0x800), order(9)), FreeError::NotOurs);
    });
}

#[test]
fn what_was_never_handed_out_is_refused_at_once() {
    on_memory(|memory, token| {
        let _used = token.alloc(PAGE).unwrap();
        for size in Order::all().take_while(|size| *size <= order(8)) {
            assert_eq!(refused(memory, token, Pfn::new(0x400), size), FreeError::AlreadyFree);
        }
    });
}

#[test]
fn what_another_cpu_has_freed_is_refused_at_once() {
    on_memory(|memory, token| {
        let mut other = memory.cpu(cpu(1)).unwrap();
        let (pfn, size) = other.alloc(PAGE).unwrap().into_raw();
        free(&mut other, pfn, size).unwrap();
        assert_eq!(memory.held_by_cpus(), 1);
        assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
    });
}

// ---- every way in and out keeps the books ---------------------------------------------------------

/// Frees the block raw, which must work, and once more, which must not.
fn free_twice(memory: &Memory<'_, Machine>, token: &mut Token<'_, '_>, block: Block<'_>) {
    let (pfn, size) = block.into_raw();
    memory.check().unwrap();
    free(token, pfn, size).unwrap();
    assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
}

#[test]
fn whatever_handed_a_block_out_it_can_be_freed_once() {
    on_memory(|memory, token| {
        let block = memory.alloc_unlisted(PAGE.atomic()).unwrap();
        free_twice(memory, token, block);
        let block = token.alloc_at(Pfn::new(0x710), order(4), MigrateType::Movable).unwrap();
        free_twice(memory, token, block);
        let mut slots = [None, None, None];
        assert_eq!(token.alloc_bulk(PAGE, &mut slots), 3);
        slots.into_iter().flatten().for_each(|block| free_twice(memory, token, block));
        let (pfn, size) = token.alloc(PAGE).unwrap().into_raw();
        // SAFETY: it was a block until just now.
        let block = unsafe { token.adopt(pfn, size) }.unwrap();
        free_twice(memory, token, block);
    });
}

#[test]
fn whatever_frees_a_block_it_is_free() {
    on_memory(|memory, token| {
        let block = token.alloc(PAGE).unwrap();
        let (pfn, size) = raw(&block);
        memory.free_unlisted(block).unwrap();
        assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
        let mut slots = [token.alloc(PAGE).ok()];
        let pfn = slots[0].as_ref().map(Block::pfn).unwrap();
        token.free_bulk(&mut slots);
        assert_eq!(refused(memory, token, pfn, Order::ZERO), FreeError::AlreadyFree);
    });
}

#[test]
fn a_captured_block_is_a_block() {
    on_memory(|memory, token| {
        let whole = token.alloc(Request::new(order(3), MigrateType::Movable)).unwrap();
        let (low, high) = token.split(whole).unwrap();
        let head = low.pfn();
        memory.free_unlisted(high).unwrap();
        let request = Request::new(order(3), MigrateType::Movable);
        let captured = token.free_capturing(low, request).unwrap().expect("it is complete");
        assert_eq!(raw(&captured), (head, order(3)));
        assert_eq!(refused(memory, token, head, order(2)), FreeError::WrongOrder);
        free_twice(memory, token, captured);
    });
}

#[test]
fn only_blocks_can_be_adopted() {
    on_memory(|memory, token| {
        let block = token.alloc(Request::new(order(2), MigrateType::Movable)).unwrap();
        let pfn = block.pfn();
        for (pfn, size, error) in [
            (pfn, order(1), FreeError::WrongOrder),
            (pfn.offset(2), order(1), FreeError::NotAllocated),
            (Pfn::new(0x400), order(2), FreeError::AlreadyFree),
        ] {
            // SAFETY: a refused adoption makes no block.
            assert_eq!(unsafe { token.adopt(pfn, size) }, Err(error));
        }
        token.free(block).unwrap();
        memory.check().unwrap();
    });
}

#[test]
fn a_block_that_was_freed_behind_its_owners_back_goes_no_further() {
    on_memory(|memory, token| {
        let block = token.alloc(Request::new(order(2), MigrateType::Movable)).unwrap();
        let (pfn, size) = raw(&block);
        free(token, pfn, size).unwrap();
        let block = token.split(block).expect_err("it is no block any more");
        let captured = token.free_capturing(block, PAGE);
        assert_eq!(captured, Ok(None));
        let reports = memory.platform().take_reports();
        let what = Finding::BadFree(FreeError::AlreadyFree);
        assert_eq!(reports, [Corruption { pfn, order: size, what, count: 1 }; 2]);
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), MANAGED);
    });
}

// ---- delayed reuse ----------------------------------------------------------------------------

#[test]
fn what_was_freed_is_handed_out_again_only_after_others() {
    on_memory(|memory, token| {
        let (pfn, size) = raw(&token.alloc(PAGE).unwrap());
        free(token, pfn, size).unwrap();
        for others in 0..QUARANTINE {
            let block = token.alloc(PAGE).unwrap();
            assert_ne!(block.pfn(), pfn, "after {others} others");
            token.free(block).unwrap();
        }
        assert_eq!(memory.held_by_cpus(), QUARANTINE);
        assert_eq!(token.alloc(PAGE).unwrap().pfn(), pfn, "it is the lowest again");
    });
}

#[test]
fn larger_blocks_count_by_their_frames_or_do_not_wait_at_all() {
    on_memory(|memory, token| {
        let large = token.alloc(Request::new(order(5), MigrateType::Movable)).unwrap();
        token.free(large).unwrap();
        assert_eq!(memory.held_by_cpus(), 0);
        for held in [8, 16, 16, 16] {
            let block = token.alloc(Request::new(order(3), MigrateType::Movable)).unwrap();
            token.free(block).unwrap();
            assert_eq!(memory.held_by_cpus(), held);
        }
        memory.check().unwrap();
    });
}

#[test]
fn without_a_quarantine_frames_go_straight_to_the_zone() {
    on_memory_with(
        |config| config.tuning.paranoid.quarantine = 0,
        |memory, token| {
            let block = token.alloc(PAGE).unwrap();
            token.free(block).unwrap();
            assert_eq!((memory.held_by_cpus(), memory.free()), (0, MANAGED));
        },
    );
}

/// Fills the quarantine of a CPU.
fn fill_quarantine(token: &mut Token<'_, '_>) {
    for _ in 0..QUARANTINE {
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
    }
}

#[test]
fn a_request_fails_only_when_nothing_waits_any_more() {
    for request in [PAGE, PAGE.no_wait(), PAGE.atomic()] {
        on_memory(|memory, token| {
            fill_quarantine(token);
            let mut blocks = Vec::new();
            blocks.extend(std::iter::from_fn(|| token.alloc(request).ok()));
            assert_eq!((blocks.len() as u64, memory.held_by_cpus()), (MANAGED, 0), "{request:?}");
        });
    }
}

#[test]
fn drains_offline_and_isolation_empty_the_quarantine() {
    on_memory(|memory, token| {
        let filled = |token: &mut Token<'_, '_>| {
            fill_quarantine(token);
            assert_eq!(memory.held_by_cpus(), QUARANTINE);
            memory.check().unwrap();
        };
        filled(token);
        token.drain();
        assert_eq!(memory.held_by_cpus(), 0);
        filled(token);
        memory.drain_cpu(cpu(0)).unwrap();
        assert_eq!(memory.held_by_cpus(), 0);
        let mut other = memory.cpu(cpu(1)).unwrap();
        filled(&mut other);
        drop(other);
        memory.cpu_offline(cpu(1)).unwrap();
        assert_eq!((memory.held_by_cpus(), memory.free()), (0, MANAGED));
    });
}

#[test]
fn nothing_of_an_isolated_pageblock_waits() {
    on_memory(|memory, token| {
        fill_quarantine(token);
        let block = token.alloc_at(Pfn::new(0x500), order(2), MigrateType::Movable).unwrap();
        let isolated = memory.isolate(Pfn::new(0x400)).unwrap();
        assert_eq!(memory.held_by_cpus(), 0);
        token.free(block).unwrap();
        assert_eq!(memory.held_by_cpus(), 0, "its frames are free in the zone or in use");
        let counts = memory.block_counts(ZoneId::default());
        assert_eq!(counts.free[MigrateType::Isolate as usize][9], 1);
        memory.undo_isolate(isolated).unwrap();
        memory.check().unwrap();
    });
}

#[test]
fn the_lists_of_a_cpu_stay_empty() {
    on_memory(|memory, token| {
        for size in Order::all() {
            let request = Request::new(size, MigrateType::Unmovable);
            let blocks: Vec<_> = (0..20).map_while(|_| token.alloc(request).ok()).collect();
            blocks.into_iter().for_each(|block| token.free(block).unwrap());
        }
        memory.cpu_offline(cpu(1)).unwrap();
        memory.cpu_online(cpu(1)).unwrap();
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        let stats = memory.stats();
        assert_eq!((stats.list_hits, stats.list_misses, stats.refills), (0, 0, 0));
        assert_eq!(stats.zone_allocs, stats.numa_hit);
    });
}

// ---- poison -----------------------------------------------------------------------------------

#[test]
fn what_is_written_while_free_is_found_when_it_is_handed_out() {
    on_memory(|memory, token| {
        let whole = token.alloc(Request::new(order(4), MigrateType::Movable)).unwrap();
        let pfn = whole.pfn();
        token.free(whole).unwrap();
        memory.platform().write(pfn.offset(3), Order::ZERO, 1);
        memory.platform().write(pfn.offset(9), order(1), 1);
        memory.drain_all();
        let again = token.alloc_at(pfn, order(4), MigrateType::Movable).unwrap();
        let what = Finding::WrittenWhileFree { offset: 0 };
        let first = Corruption { pfn: pfn.offset(3), order: order(4), what, count: 3 };
        assert_eq!(memory.platform().take_reports(), [first]);
        assert_eq!(memory.stats().damaged_frames, 3);
        // What the owner writes is its own business.
        memory.platform().write(pfn, order(4), 1);
        token.free(again).unwrap();
        memory.drain_all();
        let _again = token.alloc_at(pfn, order(4), MigrateType::Movable).unwrap();
        assert!(memory.platform().take_reports().is_empty());
    });
}

#[test]
fn only_what_was_freed_is_looked_at() {
    on_memory(|memory, token| {
        let _blocks: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        assert!(memory.platform().take_reports().is_empty(), "nothing was poisoned yet");
    });
}

#[test]
fn poison_can_be_switched_off() {
    on_memory_with(
        |config| config.tuning.set("hardening.poison", "off").unwrap(),
        |memory, token| {
            let (pfn, size) = token.alloc(PAGE).unwrap().into_raw();
            free(token, pfn, size).unwrap();
            memory.platform().write(pfn, size, 1);
            memory.drain_all();
            assert_eq!(token.alloc(PAGE).unwrap().pfn(), pfn);
            assert!(memory.platform().take_reports().is_empty());
            assert_eq!(refused(memory, token, pfn.offset(1), size), FreeError::AlreadyFree);
        },
    );
}

// ---- extents, and memory that comes and goes -----------------------------------------------------

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

#[test]
fn no_frame_of_an_extent_is_a_block() {
    on_memory(|memory, token| {
        fill_quarantine(token);
        // A part of a pageblock, and a whole one.
        for frames in [range(0x410, 0x427), range(0x400, 0x600)] {
            let extent = memory.alloc_range(frames, MigrateType::Movable, &mut |_| ()).unwrap();
            for (pfn, size) in [(frames.start(), 0), (frames.start(), 4), (Pfn::new(0x420), 0)] {
                let error = refused(memory, token, pfn, order(size));
                assert_eq!(error, FreeError::NotAllocated, "{size} at {pfn}");
            }
            let (low, high) = extent.split_at(Pfn::new(0x421)).unwrap();
            memory.free_extent(high).unwrap();
            memory.check().unwrap();
            let error = refused(memory, token, Pfn::new(0x422), Order::ZERO);
            assert_eq!(error, FreeError::AlreadyFree);
            memory.free_extent(low).unwrap();
        }
        memory.drain_all();
        assert_eq!(memory.free(), MANAGED);
    });
}

#[test]
fn extents_are_poisoned_and_looked_at() {
    on_memory(|memory, _| {
        let frames = range(0x410, 0x427);
        let take = || memory.alloc_range(frames, MigrateType::Movable, &mut |_| ()).unwrap();
        memory.free_extent(take()).unwrap();
        memory.platform().write(Pfn::new(0x415), Order::ZERO, 1);
        let _extent = take();
        let what = Finding::WrittenWhileFree { offset: 0 };
        let pfn = Pfn::new(0x415);
        let found = Corruption { pfn, order: Order::ZERO, what, count: 1 };
        assert_eq!(memory.platform().take_reports(), [found]);
    });
}

#[test]
fn memory_that_went_and_came_back_is_not_looked_at() {
    on_memory(|memory, token| {
        let frames = range(0x400, 0x600);
        let extent = memory.alloc_range(frames, MigrateType::Movable, &mut |_| ()).unwrap();
        memory.free_extent(extent).unwrap();
        memory.remove_memory(frames, &mut |_| panic!("nothing is in the way")).unwrap();
        assert_eq!(refused(memory, token, frames.start(), Order::ZERO), FreeError::NotOurs);
        memory.platform().write(frames.start(), order(9), 1);
        memory.add_memory(frames).unwrap();
        let _blocks: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        assert!(memory.platform().take_reports().is_empty());
        memory.check().unwrap();
    });
}

#[test]
fn what_a_hypervisor_let_go_of_is_not_looked_at() {
    on_memory(|memory, token| {
        let block = token.alloc(Request::new(order(9), MigrateType::Movable)).unwrap();
        let pfn = block.pfn();
        token.free(block).unwrap();
        memory
            .report_free(order(9), &mut |frames| {
                memory.check().unwrap();
                memory.platform().write(frames.start(), order(9), 0);
            })
            .unwrap();
        assert!(token.alloc_at(pfn, order(9), MigrateType::Movable).is_some());
        assert!(memory.platform().take_reports().is_empty());
        memory.check().unwrap();
    });
}

// ---- prices -----------------------------------------------------------------------------------

#[test]
fn the_layout_names_the_price() {
    with_config(|config| {
        let parts = |config: &Config<'_>| {
            let layout = Layout::new::<Machine>(config).unwrap();
            ["state plane", "quarantine"].map(|name| {
                let part = layout.parts().find(|part| part.name == name).unwrap();
                assert!(part.optional);
                part.bytes
            })
        };
        // The memory spans three pageblocks, of whose frames each has a byte.
        assert_eq!(parts(config), [3 * 512, 2 * QUARANTINE as usize * 8]);
        config.tuning.hardening = Hardening::Checked;
        assert_eq!(parts(config), [0, 0]);
    });
}

// ---- at random --------------------------------------------------------------------------------

/// Every other step is a bad free.
fn step() -> impl Strategy<Value = Step> {
    let right = any::<u8>().prop_map(Action::by_number);
    let wrong = prop_oneof![
        Just(Action::FreeTwice),
        Just(Action::FreeWrongOrder),
        Just(Action::FreeAnywhere)
    ];
    let numbers = (any::<u8>(), 0u8..10, any::<u8>(), any::<u16>());
    (prop_oneof![right, wrong], numbers).prop_map(|(action, (cpu, order, flags, pick))| Step {
        action,
        cpu,
        order,
        flags,
        pick,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The world asks for each bad free whether it was refused at the call.
    #[test]
    fn every_bad_free_is_refused_at_once(
        topology in (vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..4), vec(0u8..2, 1..4)),
        choices in any::<u32>(),
        steps in vec(step(), 1..150),
    ) {
        let (stretches, cpus) = topology;
        let stretch = |(gap, length, place)| Stretch { gap, length, place };
        let stretches = stretches.into_iter().map(stretch).collect();
        let (distances, choices) = (Vec::new(), choices | Setup::PARANOID);
        let topology = Topology { base: 700, stretches, nodes: 1, cpus, distances, unit: 0 };
        world::run(&Setup { topology, choices }, &steps);
    }
}
