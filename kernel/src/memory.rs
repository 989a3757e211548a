//! The machine's memory: one [`Memory`] over all of it, and the tokens of the CPUs.

#![allow(unsafe_code)]

use core::{
    cell::UnsafeCell,
    ops::Range,
    sync::atomic::{AtomicPtr, Ordering},
};

use framewright::{
    Config, CpuToken, FrameRange, InitError, Layout, MemoryRange, NodeId, Order, Pfn, Request,
    SideTables, Tuning, ZoneKind,
};

use crate::{
    acpi::Topology,
    boot::{MemoryMap, early::EarlyMemory},
    cpu::{self, MAX_CPUS, this_cpu},
    frames,
    platform::Machine,
    rmap,
};

/// The memory of this machine.
pub(crate) type Memory = framewright::Memory<'static, Machine>;
/// The token of a CPU of this machine.
pub(crate) type Token = CpuToken<'static, 'static, Machine>;

static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(core::ptr::null_mut());

/// The tokens, each used only by its own CPU.
struct Tokens([UnsafeCell<Option<Token>>; MAX_CPUS]);

// SAFETY: `with_token` uses the token of the CPU that it runs on, and marks it as in use meanwhile.
unsafe impl Sync for Tokens {}

static TOKENS: Tokens = Tokens([const { UnsafeCell::new(None) }; MAX_CPUS]);

/// The greatest number of ranges of the library's memory map.
const RANGES: usize = 64;

/// The memory map of the library: ranges with node and kind of zone.
struct Ranges {
    ranges: [MemoryRange; RANGES],
    count: usize,
}

impl Ranges {
    fn new(map: &MemoryMap, nodes: &Topology) -> Self {
        let nothing = FrameRange::new(Pfn::new(0), Pfn::new(0)).map(MemoryRange::from);
        let nothing = nothing.expect("an empty range is valid");
        let mut ranges = Self { ranges: [nothing; RANGES], count: 0 };
        for region in map.regions() {
            let mut start = region.start;
            while start < region.end {
                let (kind, zone_end) = zone_of(start);
                let (node, node_end) = nodes.of_memory(start);
                let end = region.end.min(zone_end).min(node_end);
                ranges.add(start, end, node, kind);
                start = end;
            }
        }
        ranges
    }

    fn add(&mut self, start: u64, end: u64, node: NodeId, kind: ZoneKind) {
        let pfn = |address: u64| Pfn::new(address / frames::BYTES);
        if let (Some(range), Some(slot)) =
            (FrameRange::new(pfn(start), pfn(end)), self.ranges.get_mut(self.count))
        {
            *slot = MemoryRange::new(range, node, kind);
            self.count += 1;
        }
    }

    fn get(&self) -> &[MemoryRange] {
        &self.ranges[..self.count]
    }
}

/// The kind of zone at an address, and its end address.
fn zone_of(address: u64) -> (ZoneKind, u64) {
    const MIB_16: u64 = 16 << 20;
    const GIB_4: u64 = 4 << 30;
    match address {
        0..MIB_16 => (ZoneKind::Dma, MIB_16),
        MIB_16..GIB_4 => (ZoneKind::Dma32, GIB_4),
        _ => (ZoneKind::Normal, u64::MAX),
    }
}

/// The memory that the library is to manage, and its settings.
pub(crate) struct Plan<'p> {
    /// All free memory, early memory included.
    pub(crate) map: MemoryMap,
    pub(crate) nodes: &'p Topology,
    pub(crate) tuning: Tuning,
}

/// Creates the library's memory, with its metadata in memory from `early`. The library also manages
/// the rest of the early memory. Called by the first CPU after all CPUs have started, as the last
/// user of early memory.
pub(crate) fn hand_over(
    plan: &Plan<'_>,
    mut early: EarlyMemory,
) -> Result<&'static Memory, InitError> {
    let mut cpu_nodes = [NodeId::default(); MAX_CPUS];
    cpu::all().for_each(|cpu| cpu_nodes[cpu.id.index()] = cpu.node);
    let count = plan.nodes.count();
    let mut distances = [0; 256];
    for (at, slot) in distances[..count * count].iter_mut().enumerate() {
        *slot = plan.nodes.distance(at / count, at % count);
    }
    // The map is final only after the allocation of the metadata. So the size of the metadata is
    // computed from the earlier map, which is larger.
    let ranges = Ranges::new(&plan.map, plan.nodes);
    let config = Config::new(ranges.get(), cpu::online() as u16)
        .with_cpu_nodes(&cpu_nodes[..cpu::online()])
        .with_distances(&distances[..count * count])
        .with_tuning(plan.tuning)
        .with_side_tables(SideTables::default().with_flags().with_owners().with_lru());
    let layout = Layout::new::<Machine>(&config)?;
    let place = early.take(size_of::<Memory>(), align_of::<Memory>().max(64));
    let metadata = early.take(layout.bytes(), layout.align().max(4096));
    let mut map = plan.map.clone();
    map.remove(early.taken());
    let ranges = Ranges::new(&map, plan.nodes);
    let mut config = config;
    config.memory = ranges.get();
    let memory = Memory::new(Machine, &config, metadata)?;
    // SAFETY: the place is large enough, aligned, and not used otherwise.
    let memory: &'static Memory = unsafe {
        let place = place.as_mut_ptr().cast::<Memory>();
        place.write(memory);
        &*place
    };
    MEMORY.store(core::ptr::from_ref(memory).cast_mut(), Ordering::Release);
    mark_holes(ranges.get());
    Ok(memory)
}

/// Marks the absent frames of pageblocks, before, between and after the ranges, as frames of the
/// kernel, so that they do not count as movable.
fn mark_holes(ranges: &[MemoryRange]) {
    let mut end = ranges.first().map_or(0, |first| whole(first.frames.start()).start);
    let behind = ranges.last().map_or(0, |last| whole(last.frames.end()).end);
    let starts = ranges.iter().map(|range| range.frames.start().get()).chain([behind]);
    let ends = ranges.iter().map(|range| range.frames.end().get()).chain([behind]);
    for (start, next) in starts.zip(ends) {
        (end..start).for_each(|frame| rmap::set_word(Pfn::new(frame), rmap::KERNEL));
        end = next;
    }
}

/// The frames of the pageblock of a frame; empty if the frame is the first of a pageblock.
fn whole(pfn: Pfn) -> Range<u64> {
    let size = Order::PAGEBLOCK.frames();
    pfn.get() / size * size..pfn.get().next_multiple_of(size)
}

/// The memory, after it was created.
#[inline(always)]
pub(crate) fn get() -> Option<&'static Memory> {
    // SAFETY: null, or a memory that is never freed.
    unsafe { MEMORY.load(Ordering::Acquire).as_ref() }
}

/// The memory.
///
/// # Panics
///
/// Before the memory was created.
pub(crate) fn memory() -> &'static Memory {
    get().expect("the memory was created")
}

/// Claims the token of this CPU forever.
pub(crate) fn claim_token() {
    let me = this_cpu().id;
    let Ok(token) = memory().cpu(me) else { panic!("the token of CPU {} is taken", me.index()) };
    // SAFETY: the slot is this CPU's, and empty.
    unsafe { *TOKENS.0[me.index()].get() = Some(token) };
}

/// Runs `f` with the token of the CPU that this runs on. Interrupt handlers and `f` must not call
/// this function. So `f` must not cause page faults, and must not let another thread run on this
/// CPU.
#[inline(always)]
pub(crate) fn with_token<R>(f: impl FnOnce(&mut Token) -> R) -> R {
    let cpu = this_cpu();
    assert!(!cpu.token_in_use.replace(true), "the token of this CPU is in use");
    // SAFETY: the slot is this CPU's, and no other code on it uses the slot now.
    let token = unsafe { &mut *TOKENS.0[cpu.id.index()].get() };
    let result = f(token.as_mut().expect("the CPU has claimed its token"));
    cpu.token_in_use.set(false);
    result
}

/// Allocates a block on the CPU that this runs on. Hot code uses [`with_token`], into which the
/// allocation is inlined.
pub(crate) fn alloc(request: Request) -> Option<Pfn> {
    let block = with_token(|token| token.alloc(request)).ok()?;
    Some(block.into_raw().0)
}

/// Frees a block on the CPU that this runs on.
///
/// # Safety
///
/// The caller owns the frames as a block of this order, and no longer uses them.
pub(crate) unsafe fn free(pfn: Pfn, order: Order) {
    let freed = with_token(|token| {
        // SAFETY: by the contract of this function.
        let block = unsafe { token.adopt_unchecked(pfn, order) };
        token.free(block).is_ok()
    });
    debug_assert!(freed, "the library frees all blocks of its memory");
}
