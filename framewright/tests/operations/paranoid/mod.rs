//! Hardening `tracked` and `paranoid`. Every bad raw free is refused at the call and changes nothing. At `paranoid`,
//! freed frames wait in quarantine, and writes to free frames are detected.
#![cfg(not(framewright_tso))]

mod extents;
mod poison;
mod quarantine;
mod random;
mod refusals;
mod states;
mod tracked;

use crate::support;
use framewright::{
    Config, CpuToken, FrameRange, FreeError, Layout, Memory, MigrateType, Order, Pfn, Request,
    ZoneId,
    observe::{Corruption, Finding},
    tuning::{Auto, Hardening},
};
use support::machine::{Machine, Metadata, cpu};

/// Two ranges of 512 frames with a hole between: frames 0x400 to 0x600 (a pageblock) and 0x700 to 0x900
/// (halves of two pageblocks).
pub(crate) const MAP: [(u64, u64); 2] = [(0x400, 0x600), (0x700, 0x900)];
pub(crate) const MANAGED: u64 = 0x400;
/// The capacity of a CPU's quarantine, in frames.
pub(crate) const QUARANTINE: u64 = 16;

pub(crate) const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

pub(crate) type Token<'a, 'm> = CpuToken<'a, 'm, Machine>;

pub(crate) fn with_config<R>(f: impl FnOnce(&mut Config<'_>) -> R) -> R {
    let map = MAP.map(|(a, b)| FrameRange::new(Pfn::new(a), Pfn::new(b)).unwrap().into());
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = Hardening::Paranoid;
    config.tuning.paranoid.quarantine = QUARANTINE as u32;
    f(&mut config)
}

/// Runs `test` on a fresh memory with some settings changed.
pub(crate) fn on_memory_with(
    change: impl FnOnce(&mut Config<'_>),
    test: impl for<'m> FnOnce(&Memory<'m, Machine>, &mut Token<'_, 'm>),
) {
    with_config(|config| {
        change(config);
        let mut metadata = Metadata::of::<Machine>(config);
        let memory =
            Memory::new(Machine::default().keeping_reports(), config, metadata.as_mut()).unwrap();
        test(&memory, &mut memory.cpu(cpu(0)).unwrap());
    });
}

pub(crate) fn on_memory(test: impl for<'m> FnOnce(&Memory<'m, Machine>, &mut Token<'_, 'm>)) {
    on_memory_with(|_| {}, test);
}

/// Runs `test` on a fresh memory at each level that refuses every bad free at the call.
pub(crate) fn on_either(test: impl for<'m> Fn(&Memory<'m, Machine>, &mut Token<'_, 'm>)) {
    for hardening in [Hardening::Tracked, Hardening::Paranoid] {
        on_memory_with(|config| config.tuning.hardening = hardening, &test);
    }
}

/// The orders of blocks to test: under Miri, which needs seconds for a memory, only some.
pub(crate) fn orders() -> impl Iterator<Item = Order> {
    Order::all().filter(|order| !cfg!(miri) || [0, 9].contains(&order.get()))
}

/// Runs `test` for a block of each possible order, on fresh memories of either level.
pub(crate) fn each_order(test: impl Fn(&Memory<'_, Machine>, &mut Token<'_, '_>, Pfn, Order)) {
    for of_order in orders() {
        on_either(|memory, token| {
            let Ok(block) = token.alloc(Request::new(of_order, MigrateType::Movable)) else {
                return;
            };
            let (pfn, size) = block.into_raw();
            test(memory, token, pfn, size);
            // The block is still allocated, and can be freed.
            free(token, pfn, size).unwrap();
            memory.drain_all();
            assert_eq!(memory.free(), MANAGED);
            assert!(memory.platform().take_reports().is_empty());
        });
    }
}

pub(crate) fn free(token: &mut Token<'_, '_>, pfn: Pfn, size: Order) -> Result<(), FreeError> {
    // SAFETY: a test may violate this on purpose. This level refuses every bad free, and the frames
    // do not exist.
    unsafe { token.free_raw(pfn, size) }
}

/// The counts that a refused free must not change.
pub(crate) fn counts(memory: &Memory<'_, Machine>) -> impl PartialEq + std::fmt::Debug + use<> {
    memory.check().unwrap();
    let stats = memory.stats();
    let blocks = memory.block_counts(ZoneId::default());
    (blocks, memory.held_by_cpus(), memory.free(), stats.pgalloc, stats.pgfree)
}

/// Attempts a bad free, and asserts that it is refused and changes nothing.
pub(crate) fn refused(
    memory: &Memory<'_, Machine>,
    token: &mut Token<'_, '_>,
    pfn: Pfn,
    size: Order,
) -> FreeError {
    let before = counts(memory);
    let error = free(token, pfn, size).expect_err("this free is bad");
    assert_eq!(counts(memory), before, "the refused free has changed something");
    let reports = memory.platform().take_reports();
    if matches!(error, FreeError::NotOurs | FreeError::Misaligned) {
        assert!(reports.is_empty(), "{reports:?}");
    } else {
        let what = Finding::BadFree(error);
        assert_eq!(reports, [Corruption { pfn, order: size, what, count: 1 }]);
    }
    error
}

#[test]
fn the_layout_names_the_size_of_states_and_quarantine() {
    with_config(|config| {
        let parts = |config: &Config<'_>| {
            let layout = Layout::new::<Machine>(config).unwrap();
            ["state table", "quarantine"].map(|name| {
                let part = layout.parts().find(|part| part.name == name).unwrap();
                assert!(part.optional);
                part.bytes
            })
        };
        // The memory spans three pageblocks, and has a state byte per frame.
        assert_eq!(parts(config), [3 * 512, 2 * QUARANTINE as usize * 8]);
        config.tuning.hardening = Hardening::Tracked;
        assert_eq!(parts(config), [3 * 512, 0]);
        config.tuning.hardening = Hardening::Checked;
        assert_eq!(parts(config), [0, 0]);
    });
}

#[test]
fn the_heads_of_blocks_cost_a_bit_per_frame_where_raw_frees_are_checked() {
    with_config(|config| {
        let heads = |config: &Config<'_>| {
            let layout = Layout::new::<Machine>(config).unwrap();
            layout.parts().find(|part| part.name == "allocated heads").unwrap().bytes
        };
        for hardening in [Hardening::Checked, Hardening::Tracked, Hardening::Paranoid] {
            config.tuning.hardening = hardening;
            assert_eq!(heads(config), 3 * 512 / 8);
        }
        config.tuning.hardening = Hardening::Off;
        assert_eq!(heads(config), 0);
    });
}
