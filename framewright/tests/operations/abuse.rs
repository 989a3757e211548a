//! One test for each bad raw free that the hardening level `checked` must refuse, at the call or
//! when the block reaches the zone. At the level `off`, the same frees corrupt at most the metadata
//! and the frames of the caller, never the process.

use crate::support::machine::{Machine, Metadata, cpu, order};
use framewright::{
    Block, Config, CpuToken, FrameRange, FreeError, Memory, MigrateType, Order, Pfn, Request,
    ZoneId,
    observe::{Corruption, Finding},
    tuning::{Auto, Hardening},
};

/// Two ranges of 512 frames with a hole between: frames 0x400 to 0x600 (a pageblock) and 0x700 to 0x900 (halves of two
/// pageblocks).
const MAP: [(u64, u64); 2] = [(0x400, 0x600), (0x700, 0x900)];
const MANAGED: u64 = 0x400;

/// The way in which a bad raw free is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// The call returned the error.
    AtOnce(FreeError),
    /// A list accepted the block; the corruption hook was called when the block reached the zone.
    Later(FreeError),
}

type Token<'a, 'm> = CpuToken<'a, 'm, Machine>;

fn metadata() -> Metadata {
    with_config(|config| Metadata::of::<Machine>(config))
}

fn with_config<R>(f: impl FnOnce(&mut Config<'_>) -> R) -> R {
    let map = MAP.map(|(a, b)| FrameRange::new(Pfn::new(a), Pfn::new(b)).unwrap().into());
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.pcp.batch = Auto::Fixed(63);
    f(&mut config)
}

fn memory_in(metadata: &mut Metadata, hardening: Hardening) -> Memory<'_, Machine> {
    with_config(|config| {
        config.tuning.hardening = hardening;
        Memory::new(Machine::default().keeping_reports(), config, metadata.as_mut()).unwrap()
    })
}

/// Runs `test` on a fresh memory with one CPU.
fn on_memory(hardening: Hardening, test: impl FnOnce(&Memory<'_, Machine>, &mut Token<'_, '_>)) {
    let mut metadata = metadata();
    let memory = memory_in(&mut metadata, hardening);
    let mut token = memory.cpu(cpu(0)).unwrap();
    test(&memory, &mut token);
}

fn alloc<'m>(token: &mut Token<'_, 'm>, of_order: u8) -> Block<'m> {
    token.alloc(Request::new(order(of_order), MigrateType::Movable)).unwrap()
}

/// Attempts a bad free. Asserts that it is refused and changes nothing.
fn refused(
    memory: &Memory<'_, Machine>,
    token: &mut Token<'_, '_>,
    pfn: Pfn,
    of_order: u8,
) -> Refused {
    memory.drain_all();
    let before = memory.block_counts(ZoneId::default());
    // SAFETY: violated on purpose; `checked` must refuse the free. No memory is behind the frames.
    let result = unsafe { token.free_raw(pfn, order(of_order)) };
    memory.drain_all();
    let reports = memory.platform().take_reports();
    assert_eq!(
        memory.block_counts(ZoneId::default()),
        before,
        "the refused free has changed something"
    );
    memory.check().unwrap();
    match (result, &reports[..]) {
        (Err(error), _) => Refused::AtOnce(error),
        (Ok(()), [report]) => {
            assert_eq!((report.pfn, report.order, report.count), (pfn, order(of_order), 1));
            let Finding::BadFree(error) = report.what else { panic!("{report}") };
            Refused::Later(error)
        }
        (Ok(()), reports) => panic!("one report was expected: {reports:?}"),
    }
}

/// As [`refused`], and asserts that the call returns this error.
fn refused_as(
    error: FreeError,
    memory: &Memory<'_, Machine>,
    token: &mut Token<'_, '_>,
    pfn: Pfn,
    of_order: u8,
) {
    assert_eq!(refused(memory, token, pfn, of_order), Refused::AtOnce(error));
}

/// All orders up to that of a pageblock. Miri is slow, so it tests only some of them.
fn orders() -> impl Iterator<Item = u8> {
    (0..=9).filter(|of_order| !cfg!(miri) || [0, 2, 6, 7, 9].contains(of_order))
}

/// Runs `test` for a block of every order.
fn each_order(test: impl Fn(&Memory<'_, Machine>, &mut Token<'_, '_>, Pfn, u8)) {
    for of_order in orders() {
        on_memory(Hardening::Checked, |memory, token| {
            let (pfn, _) = alloc(token, of_order).into_raw();
            test(memory, token, pfn, of_order);
            // The block is still allocated and can be freed.
            // SAFETY: the frames were a block until `into_raw`.
            unsafe { token.free_raw(pfn, order(of_order)) }.unwrap();
            memory.drain_all();
            assert!(memory.platform().take_reports().is_empty());
            assert_eq!(memory.free(), MANAGED);
        });
    }
}

// ---- at `checked` -----------------------------------------------------------------------------

#[test]
fn a_double_free_is_refused() {
    for of_order in orders() {
        on_memory(Hardening::Checked, |memory, token| {
            let (pfn, size) = alloc(token, of_order).into_raw();
            // SAFETY: the frames were a block until `into_raw`.
            unsafe { token.free_raw(pfn, size) }.unwrap();
            refused_as(FreeError::AlreadyFree, memory, token, pfn, of_order);
        });
    }
}

#[test]
fn a_double_free_is_refused_while_the_first_is_on_a_list() {
    for of_order in orders() {
        on_memory(Hardening::Checked, |memory, token| {
            let (pfn, size) = alloc(token, of_order).into_raw();
            // SAFETY: the frames were a block until `into_raw`; the second free is bad on purpose.
            let twice = unsafe { [token.free_raw(pfn, size), token.free_raw(pfn, size)] };
            assert_eq!(twice, [Ok(()), Err(FreeError::AlreadyFree)]);
            let reports = memory.platform().take_reports();
            let what = Finding::BadFree(FreeError::AlreadyFree);
            assert_eq!(reports, [Corruption { pfn, order: size, what, count: 1 }]);
            // One of two requests gets the block. The other gets a different block, or none.
            let request = Request::new(size, MigrateType::Movable);
            let got: Vec<_> = (0..2).filter_map(|_| token.alloc(request).ok()).collect();
            assert_eq!(got[0].pfn(), pfn);
            assert!(got.get(1).is_none_or(|second| second.pfn() != pfn));
            got.into_iter().for_each(|block| token.free(block).unwrap());
            memory.drain_all();
            memory.check().unwrap();
            assert_eq!(memory.free(), MANAGED);
        });
    }
}

#[test]
fn a_double_free_is_refused_while_the_first_is_in_the_store() {
    const FRAMES: usize = 320;
    on_memory(Hardening::Checked, |memory, token| {
        let frames: Vec<Pfn> = (0..FRAMES).map(|_| alloc(token, 0).into_raw().0).collect();
        // SAFETY: the frames were blocks until `into_raw`.
        let mut free = |pfn: Pfn| unsafe { token.free_raw(pfn, Order::ZERO) };
        // A ring of the CPU list contains far fewer frames, so most of these frames are in the
        // store behind it. Neighbours are freed far apart in time.
        let scattered = |i: usize| frames[i * 7 % FRAMES];
        (0..FRAMES).for_each(|i| free(scattered(i)).unwrap());
        assert!(memory.held_by_cpus() > 200, "most of the frames have left the lists of the CPU");
        for i in 0..FRAMES {
            assert_eq!(free(scattered(i)), Err(FreeError::AlreadyFree), "frame {i}");
        }
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!((memory.free(), memory.stats().refused_frees), (MANAGED, FRAMES as u64));
    });
}

#[test]
fn a_double_free_is_refused_after_the_pageblock_has_changed_its_type() {
    on_memory(Hardening::Checked, |memory, token| {
        let (pfn, size) = alloc(token, 1).into_raw();
        // SAFETY: the frames were a block until `into_raw`; the second free is bad on purpose.
        let mut free = || unsafe { token.free_raw(pfn, size) };
        free().unwrap();
        assert!(memory.set_pageblock_type(pfn, MigrateType::Unmovable));
        assert_eq!(free(), Err(FreeError::AlreadyFree));
    });
}

#[test]
fn a_free_of_too_large_an_order_is_refused() {
    each_order(|memory, token, pfn, of_order| {
        for larger in orders().filter(|larger| *larger > of_order) {
            let end = pfn.get() + order(larger).frames();
            if !pfn.is_aligned(order(larger)) {
                continue;
            }
            let fits = MAP.iter().any(|(from, to)| *from <= pfn.get() && end <= *to);
            let error = if fits { FreeError::WrongOrder } else { FreeError::NotOurs };
            refused_as(error, memory, token, pfn, larger);
        }
    });
}

#[test]
fn a_free_of_too_small_an_order_is_refused() {
    each_order(|memory, token, pfn, of_order| {
        for smaller in orders().take_while(|smaller| *smaller < of_order) {
            refused_as(FreeError::WrongOrder, memory, token, pfn, smaller);
        }
    });
}

#[test]
fn a_free_of_two_neighbours_as_one_is_refused() {
    on_memory(Hardening::Checked, |memory, token| {
        let whole = alloc(token, 6);
        let Ok((low, high)) = token.split(whole) else { panic!("order 6 can be split") };
        refused_as(FreeError::WrongOrder, memory, token, low.pfn(), 6);
        token.free(low).unwrap();
        token.free(high).unwrap();
        memory.drain_all();
        assert_eq!(memory.free(), MANAGED);
    });
}

#[test]
fn a_free_from_the_middle_of_a_block_is_refused() {
    each_order(|memory, token, pfn, of_order| {
        for part in orders().take_while(|part| *part < of_order) {
            let middle = pfn.offset(order(part).frames());
            refused_as(FreeError::NotAllocated, memory, token, middle, part);
        }
    });
}

#[test]
fn a_misaligned_free_is_refused_at_once() {
    each_order(|memory, token, pfn, of_order| {
        for misaligned in orders().filter(|larger| 0 < *larger && *larger <= of_order) {
            let at = pfn.offset(1);
            let refused = refused(memory, token, at, misaligned);
            assert_eq!(refused, Refused::AtOnce(FreeError::Misaligned));
        }
    });
}

#[test]
fn frames_outside_the_memory_are_refused_at_once() {
    on_memory(Hardening::Checked, |memory, token| {
        let outside = [0, 0x200, 0x3ff, 0x600, 0x6ff, 0x900, 0x90_0000, u64::MAX >> 16, u64::MAX];
        for pfn in outside {
            let refused = refused(memory, token, Pfn::new(pfn), 0);
            assert_eq!(refused, Refused::AtOnce(FreeError::NotOurs), "{pfn:#x}");
        }
        // A block that begins in the memory and ends beyond its last frame.
        let refused = refused(memory, token, Pfn::new(0x800), 9);
        assert_eq!(refused, Refused::AtOnce(FreeError::NotOurs));
    });
}

#[test]
fn a_frame_never_allocated_is_refused() {
    for of_order in orders().filter(|of_order| *of_order < 9) {
        on_memory(Hardening::Checked, |memory, token| {
            refused_as(FreeError::AlreadyFree, memory, token, Pfn::new(0x800), of_order);
        });
    }
}

#[test]
fn a_frame_that_waits_on_a_list_is_refused() {
    on_memory(Hardening::Checked, |memory, token| {
        // A refill has put neighbours of this block on the list.
        let block = alloc(token, 0);
        let neighbour = block.pfn().offset(1);
        // SAFETY: violated on purpose, as above.
        let result = unsafe { token.free_raw(neighbour, Order::ZERO) };
        assert_eq!(result, Err(FreeError::AlreadyFree));
        memory.drain_all();
        memory.check().unwrap();
        token.free(block).unwrap();
        memory.drain_all();
        assert_eq!(memory.free(), MANAGED);
    });
}

#[test]
fn a_free_of_a_frame_on_the_list_of_another_cpu_is_reported() {
    let mut metadata = metadata();
    let memory = memory_in(&mut metadata, Hardening::Checked);
    let (mut first, mut second) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
    let block = alloc(&mut second, 2);
    let neighbour = block.pfn().offset(4);
    // SAFETY: violated on purpose, as above. The block is then on the lists of both CPUs. The
    // list of the first CPU is drained first. The block on the list of the second CPU, which nobody freed, is refused.
    unsafe { first.free_raw(neighbour, order(2)) }.unwrap();
    memory.drain_all();
    assert_eq!(memory.platform().take_reports().len(), 1);
    memory.check().unwrap();
    second.free(block).unwrap();
    memory.drain_all();
    assert_eq!(memory.free(), MANAGED);
}

#[test]
fn a_block_of_another_memory_is_given_back() {
    // The compiler cannot distinguish blocks of these two allocators, because their lifetimes are
    // equal.
    let (mut theirs, mut ours) = (metadata(), metadata());
    let memories = [memory_in(&mut theirs, Hardening::Off), memory_in(&mut ours, Hardening::Off)];
    let [theirs, ours] = &memories;
    let (mut them, mut us) = (theirs.cpu(cpu(0)).unwrap(), ours.cpu(cpu(0)).unwrap());

    let block = us.free(alloc(&mut them, 3)).expect_err("the block is of another allocator");
    let block = us.split(block).expect_err("the block is of another allocator");
    let mut slots = [Some(block)];
    us.free_bulk(&mut slots);
    let block = slots[0].take().expect("the block is of another allocator");
    assert_eq!(ours.stats().pgfree, 0);
    them.free(block).unwrap();
    theirs.check().unwrap();
}

#[test]
fn one_report_counts_all_refused_blocks_of_a_drain() {
    let mut metadata = metadata();
    let memory = memory_in(&mut metadata, Hardening::Checked);
    let (mut first, mut second) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
    let block = alloc(&mut second, 0);
    for neighbour in [1, 2] {
        // SAFETY: violated on purpose, as above: the blocks are on the list of the second CPU.
        unsafe { first.free_raw(block.pfn().offset(neighbour), Order::ZERO) }.unwrap();
    }
    memory.drain_all();
    let refused: Vec<u32> =
        memory.platform().take_reports().iter().map(|report| report.count).collect();
    assert_eq!((refused, memory.stats().refused_frees), (vec![2], 2));
    memory.check().unwrap();
    second.free(block).unwrap();
}

// ---- at `off` ---------------------------------------------------------------------------------

/// At `off`, raw frees are trusted, so the metadata may be wrong afterwards. But no call may panic,
/// hang, or access memory outside the allocator (Miri checks this).
#[test]
fn at_off_bad_frees_corrupt_only_the_metadata() {
    type BadFree = fn(Pfn) -> (Pfn, u8);
    let bad_frees: [BadFree; 6] = [
        |pfn| (pfn, 3),
        |pfn| (pfn, 0),
        |pfn| (pfn.align_down(Order::PAGEBLOCK), 9),
        |pfn| (pfn.offset(4), 2),
        |_| (Pfn::new(0x800), 5),
        |_| (Pfn::new(0x600), 0),
    ];
    for bad_free in bad_frees {
        on_memory(Hardening::Off, |memory, token| {
            let (pfn, _) = alloc(token, 3).into_raw();
            for _ in 0..3 {
                let (pfn, of_order) = bad_free(pfn);
                // SAFETY: violated on purpose, as above; no frame is ever accessed.
                let _ = unsafe { token.free_raw(pfn, order(of_order)) };
                token.drain();
                for some in [0, 3, 9] {
                    let request = Request::new(order(some), MigrateType::Movable);
                    let _ = token.alloc(request).map(Block::into_raw);
                }
            }
            let _ = memory.check();
        });
    }
}
