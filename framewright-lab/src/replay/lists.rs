//! Brings a machine into the state at the start of the recording, with CPU lists as the kernel had
//! them.
//!
//! All frames that are neither free nor holes in the map are allocated, block by block. They become
//! the *stand-ins* for the blocks from before the recording. Then each CPU frees as many stand-ins
//! onto its lists as the kernel had there. The recording names most of these blocks, because they
//! leave the lists later. Blocks in neighbouring frames stand for the others.

use framewright::{Block, CpuId, MigrateType, Order, Pfn, Request, ZoneId, observe::CpuStats};

use super::{
    Tables,
    allocator::Allocator,
    census::Census,
    holds::OwnLock,
    kernel::FreeReport,
    layout::Layout,
    lock_waits::{KernelLock, LockWaits},
    machine::Machine,
    map::PageblockMap,
    plan::{ListsPlan, Plan, ZonePlan},
    report::{HeldReport, ZoneReport},
    stand_ins::StandIns,
    survey::PAGEBLOCK,
};
use crate::{
    samples::FreeMemory,
    trace::{Snapshot, snapshot::Zone},
    workloads::world::Frames,
};

/// Order of the neighbourhoods whose frames fill the CPU lists if the recording names no blocks.
const NEIGHBOURS: u8 = 6;
/// Frames between two checks of the lists' limit: the default batch of a zone of 1 GiB or more.
const LOOK_EVERY: usize = 63;

/// Raises the limit of a CPU's lists for a zone to that of the kernel's lists. The limit adapts to
/// use. While all memory is free, this function therefore allocates and frees, and then drains the
/// lists.
pub(super) fn widen(machine: &mut Machine<'_, '_>, zone: &ZonePlan, cpu: u16) {
    let wanted = zone.cpus[usize::from(cpu)].high;
    let Some(id) = machine.id_of(zone) else { return };
    let high = |machine: &Machine<'_, '_>, id: ZoneId| {
        let lists = machine.memory().pagesets(id).nth(usize::from(cpu));
        lists.map_or(0, |lists| lists.high)
    };
    let page = request(machine, cpu, zone, Order::ZERO, MigrateType::Movable);
    let mut blocks = Vec::new();
    // If the limit does not adapt, the loop ends after as many allocated frames as the lists should
    // contain.
    while high(machine, id) < wanted && (blocks.len() as u64) < wanted {
        let before = blocks.len();
        blocks.resize_with(before + LOOK_EVERY, || None);
        if machine.token(cpu).alloc_bulk(page, &mut blocks[before..]) < LOOK_EVERY {
            break;
        }
    }
    machine.token(cpu).free_bulk(&mut blocks);
    machine.token(cpu).drain();
}

/// Removes the stand-ins for a CPU's lists, and returns them in the order in which to free them.
fn choose<A: Allocator>(
    machine: &mut A,
    zone: usize,
    lists: &ListsPlan,
    census: &Census,
    stand_ins: &mut StandIns<A::Block>,
) -> Vec<A::Block> {
    let mut unknown = lists.unknown();
    // Blocks that did not leave the lists in the recording were at the bottom.
    let (mut taken, mut blocks) = (Vec::new(), Vec::new());
    while unknown > 0 {
        let order = Order::new(NEIGHBOURS.min(unknown.ilog2() as u8)).unwrap_or_default();
        stand_ins.take_any(machine, zone, order, &mut taken);
        if taken.is_empty() {
            break;
        }
        for block in taken.drain(..) {
            unknown = unknown.saturating_sub(block.order().frames());
            to_frames(machine, block, &mut blocks);
        }
    }
    // The first block to leave was the last to be freed.
    for held in lists.known.iter().rev() {
        let order = Order::new(held.order).unwrap_or(Order::PAGEBLOCK);
        stand_ins.take(machine, zone, held.pfn, order, census, &mut blocks);
    }
    blocks
}

/// Splits a block into its frames.
fn to_frames<A: Allocator>(machine: &mut A, block: A::Block, frames: &mut Vec<A::Block>) {
    if block.order() == Order::ZERO {
        return frames.push(block);
    }
    let (low, high) = machine.split(block);
    to_frames(machine, low, frames);
    to_frames(machine, high, frames);
}

/// Frees blocks to a CPU's lists. Blocks that do not stay there are free in the zone: the lists may be smaller than those
/// of the kernel.
pub(super) fn fill<'m>(
    machine: &mut Machine<'_, 'm>,
    cpu: u16,
    zone: &ZonePlan,
    blocks: Vec<Block<'m>>,
) {
    for block in blocks {
        let page = request(machine, cpu, zone, block.order(), type_of(machine, &block));
        machine.free(cpu, block);
        // An uninterrupted series of frees would increase the number of drained blocks.
        if let Some(block) = machine.alloc(cpu, page) {
            machine.free(cpu, block);
        }
    }
}

fn type_of(machine: &Machine<'_, '_>, block: &Block<'_>) -> MigrateType {
    machine.memory().pageblock_type(block.pfn()).unwrap_or(MigrateType::Movable)
}

/// A request of `cpu` for memory of this zone.
fn request(
    machine: &Machine<'_, '_>,
    cpu: u16,
    zone: &ZonePlan,
    order: Order,
    of: MigrateType,
) -> Request {
    let request = Request::new(order, of).zone(zone.kind).this_node().no_wait();
    // A request that names a node takes longer, even if it is that of the CPU.
    let is_near = machine.memory().node_of(CpuId::new(cpu)) == zone.node;
    if is_near { request } else { request.on_node(zone.node) }
}

/// The state at the start of the recording.
pub(super) struct Beginning {
    /// Counters of every CPU.
    pub(super) stats: Vec<CpuStats>,
    /// Frames in use.
    pub(super) in_use: u64,
    /// Frames on CPU lists and in depots.
    pub(super) held: u64,
    /// The zones, without their state at the end.
    pub(super) zones: Vec<ZoneReport>,
}

impl Beginning {
    pub(super) fn of(machine: &Machine<'_, '_>, plan: &Plan, tables: &Tables) -> Self {
        let zones = plan.zones.iter().filter_map(|zone| begin_zone(machine, zone, tables));
        let memory = machine.memory();
        Self {
            stats: stats(machine),
            in_use: memory.in_use(),
            held: memory.held_by_cpus() + memory.in_depots(),
            zones: zones.collect(),
        }
    }

    /// The zones, with the current state as their end.
    pub(super) fn end(
        self,
        machine: &Machine<'_, '_>,
        plan: &Plan,
        waits: &LockWaits,
    ) -> Vec<ZoneReport> {
        let platform = machine.memory().platform();
        let mut zones = self.zones;
        for (number, (zone, plan)) in zones.iter_mut().zip(&plan.zones).enumerate() {
            zone.kernel_lock = waits.of_zone(number);
            platform.uncounted(|| end_zone(zone, machine, plan));
        }
        zones
    }
}

/// Adds the state at the end to the report of a zone.
fn end_zone(zone: &mut ZoneReport, machine: &Machine<'_, '_>, plan: &ZonePlan) {
    let memory = machine.memory();
    if let Some(info) = machine.id_of(plan).and_then(|id| memory.zone(id)) {
        zone.free.end = FreeMemory::of_counts(&memory.block_counts(info.id));
        zone.held.end = info.held_by_cpus + info.in_depot;
        let (before, after) = (zone.lock, memory.platform().lock(info.id));
        zone.lock = OwnLock {
            holds: after.holds - before.holds,
            hold_nanos: after.hold_nanos - before.hold_nanos,
        };
    }
}

/// The report of a zone at the start of the recording.
fn begin_zone(machine: &Machine<'_, '_>, plan: &ZonePlan, tables: &Tables) -> Option<ZoneReport> {
    let memory = machine.memory();
    let info = memory.zone(machine.id_of(plan)?)?;
    let before = recorded(tables.before.as_ref(), plan);
    let after = recorded(tables.after.as_ref(), plan);
    Some(ZoneReport {
        node: info.node.get(),
        zone: info.kind.name(),
        managed: info.managed,
        watermarks: [info.min, info.low, info.high],
        held: HeldReport {
            start: info.held_by_cpus + info.in_depot,
            end: 0,
            kernel_start: before.map(Zone::held_by_cpus),
            kernel_end: after.map(Zone::held_by_cpus),
        },
        free: FreeReport {
            start: FreeMemory::of_counts(&memory.block_counts(info.id)),
            end: FreeMemory::default(),
            kernel_start: before.and_then(FreeMemory::of_zone),
            kernel_end: after.and_then(FreeMemory::of_zone),
        },
        kernel_lock: KernelLock::default(),
        lock: memory.platform().lock(info.id),
    })
}

/// A zone in a snapshot.
fn recorded<'t>(tables: Option<&'t Snapshot>, plan: &ZonePlan) -> Option<&'t Zone> {
    let node = u16::from(plan.node.get());
    tables?.zones.iter().find(|zone| zone.node == node && zone.name == plan.kind.name())
}

/// The counters of all CPUs.
pub(super) fn stats(machine: &Machine<'_, '_>) -> Vec<CpuStats> {
    let cpus = (0..machine.cpus()).map(CpuId::new);
    cpus.map(|cpu| machine.memory().cpu_stats(cpu).unwrap_or_default()).collect()
}

/// Brings the pageblocks of the maps and the CPU lists into their state. Returns the frames in use.
pub(super) fn prepare<A: Allocator>(
    machine: &mut A,
    plan: &Plan,
    maps: &[Vec<PageblockMap>],
    census: &Census,
) -> StandIns<A::Block> {
    for zone in &plan.zones {
        (0..plan.cpus).for_each(|cpu| machine.raise_high(zone, cpu));
    }
    let mut stand_ins = StandIns::default();
    for (zone, map) in maps.iter().enumerate() {
        for block in map {
            let blocks = machine.place(block);
            if let Some(used) = &block.used {
                stand_ins.add(zone, block.of, used.recorded, blocks);
            }
        }
    }
    stand_ins.seal();
    for (zone, planned) in plan.zones.iter().enumerate() {
        for (cpu, lists) in (0..).zip(&planned.cpus) {
            let blocks = choose(machine, zone, lists, census, &mut stand_ins);
            machine.fill(cpu, planned, blocks);
        }
    }
    stand_ins
}

/// Sets the type of a pageblock, and allocates its frames in use. All of it was free.
pub(super) fn place<'m>(machine: &mut Machine<'_, 'm>, block: &PageblockMap) -> Vec<Block<'m>> {
    set_type(machine, block);
    let mut blocks = Vec::new();
    if let Some(used) = &block.used {
        take(machine, block, &used.layout, 0, PAGEBLOCK as usize, &mut blocks);
    }
    blocks
}

/// Sets the type of a pageblock.
fn set_type(machine: &Machine<'_, '_>, block: &PageblockMap) {
    if block.of == MigrateType::Movable {
        return;
    }
    let layout = block.used.as_ref().map_or(Layout::default(), |used| used.layout);
    // A pageblock that consists of a hole has no type.
    if let Some((at, _)) = layout.present_runs().next() {
        let first = Pfn::new(block.start() + at as u64);
        let done = machine.memory().set_pageblock_type(first, block.of);
        debug_assert!(done, "the map is of another memory");
    }
}

/// Allocates the frames that are neither free nor holes.
fn take<'m>(
    machine: &mut Machine<'_, 'm>,
    block: &PageblockMap,
    layout: &Layout,
    at: usize,
    size: usize,
    taken: &mut Vec<Block<'m>>,
) {
    if layout.is_used(at, size) && layout.is_present(at, size) {
        let pfn = Pfn::new(block.start() + at as u64);
        let order = Order::new(size.ilog2() as u8).unwrap_or_default();
        let got = machine.alloc_at(pfn, order, block.of);
        debug_assert!(got.is_some(), "a frame was in use although all memory was free");
        taken.extend(got);
    } else if !layout.is_free(at, size) && size > 1 {
        take(machine, block, layout, at, size / 2, taken);
        take(machine, block, layout, at + size / 2, size / 2, taken);
    }
}
