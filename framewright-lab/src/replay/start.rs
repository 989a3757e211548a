//! Brings a machine into the state in which the recording began.
//!
//! Whatever the map says is neither free nor a hole is taken, block by block, and becomes the
//! stand-ins. Then each CPU frees as many of them onto its lists as the kernel had there: those
//! blocks that the recording names, and neighbours for the rest.

use framewright::{Block, MigrateType, Order, Pfn, Request, ZoneId};

use super::census::{Census, pageblock};
use super::layout::Layout;
use super::machine::Machine;
use super::map::PageblockMap;
use super::plan::{ListsPlan, PAGEBLOCK, Plan, ZonePlan};
use super::stand_ins::StandIns;

/// Order of the neighbourhoods whose frames fill the CPU lists where the recording names none.
const NEIGHBOURS: u8 = 6;
/// How often a block is offered to CPU lists.
const OFFERS: usize = 4;

/// Takes what the maps say is in use, and returns it.
pub(super) fn prepare<'m>(
    machine: &mut Machine<'_, 'm>,
    plan: &Plan,
    maps: &[Vec<PageblockMap>],
    census: &Census,
) -> StandIns<'m> {
    for zone in &plan.zones {
        (0..plan.cpus).for_each(|cpu| widen_lists(machine, zone, cpu));
    }
    let mut stand_ins = StandIns::default();
    for (zone, map) in maps.iter().enumerate() {
        for block in map {
            set_aside(machine, block);
            if let Some(used) = &block.used {
                let mut blocks = Vec::new();
                let whole = PAGEBLOCK as usize;
                take(machine, block, &used.layout, 0, whole, &mut blocks);
                stand_ins.add((zone, block.number), block.of, used.recorded, blocks);
            }
        }
    }
    stand_ins.seal();
    for (zone, planned) in plan.zones.iter().enumerate() {
        for (cpu, lists) in (0..).zip(&planned.cpus) {
            let blocks = choose(machine, zone, lists, census, &mut stand_ins);
            let left = fill_lists(machine, cpu, planned, blocks);
            left.into_iter().for_each(|block| stand_ins.put_back(block));
        }
    }
    stand_ins
}

/// Makes a pageblock one of its type.
fn set_aside(machine: &Machine<'_, '_>, block: &PageblockMap) {
    if block.of == MigrateType::Movable {
        return;
    }
    let layout = block.used.as_ref().map_or(Layout::default(), |used| used.layout);
    // A pageblock that is nothing but a hole has no type.
    if let Some((at, _)) = layout.present_runs().next() {
        let first = Pfn::new(block.start() + at as u64);
        let done = machine.memory().set_pageblock_type(first, block.of);
        debug_assert!(done, "the map is of this memory");
    }
}

/// Takes what of the frames is neither free nor a hole.
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
        debug_assert!(got.is_some(), "nobody else has taken anything");
        taken.extend(got);
    } else if !layout.is_free(at, size) && size > 1 {
        take(machine, block, layout, at, size / 2, taken);
        take(machine, block, layout, at + size / 2, size / 2, taken);
    }
}

/// Lets the lists of a CPU for a zone grow as long as the kernel's had become. How long they may be
/// is learned from use: so they are used, while all memory is free, and emptied again.
fn widen_lists(machine: &mut Machine<'_, '_>, zone: &ZonePlan, cpu: u16) {
    let wanted = zone.cpus[usize::from(cpu)].high;
    let Some(id) = machine.id_of(zone) else { return };
    let high = |machine: &Machine<'_, '_>, id: ZoneId| {
        let lists = machine.memory().pagesets(id).nth(usize::from(cpu));
        lists.map_or(0, |lists| lists.high)
    };
    let page = Request::new(Order::ZERO, MigrateType::Movable).zone(zone.kind);
    let page = page.on_node(zone.node).this_node().no_wait();
    let mut blocks = Vec::new();
    // Where lists do not learn, as many frames as they should hold settle it.
    while high(machine, id) < wanted && (blocks.len() as u64) < wanted {
        let Some(block) = machine.alloc(cpu, page) else { break };
        blocks.push(block);
    }
    for block in blocks {
        machine.free(cpu, block);
    }
    machine.drain(cpu);
}

/// Takes the stand-ins that shall be on a CPU's lists, in the order in which they are to be freed.
fn choose<'m>(
    machine: &mut Machine<'_, 'm>,
    zone: usize,
    lists: &ListsPlan,
    census: &Census,
    stand_ins: &mut StandIns<'m>,
) -> Vec<Block<'m>> {
    let mut taken = Vec::new();
    let known: u64 = lists.known.iter().map(|held| 1 << held.order).sum();
    let mut unknown = lists.count - known;
    // What the recording never saw leave lay deepest.
    let mut singles = Vec::new();
    while unknown > 0 {
        let order = Order::new(NEIGHBOURS.min(unknown.ilog2() as u8)).unwrap_or_default();
        stand_ins.take_any(machine, zone, order, &mut taken);
        if taken.is_empty() {
            break;
        }
        for block in taken.drain(..) {
            unknown = unknown.saturating_sub(block.order().frames());
            to_frames(machine, block, &mut singles);
        }
    }
    // What left first was freed last.
    for held in lists.known.iter().rev() {
        let of = census.pageblocks.get(&pageblock(held.pfn)).and_then(|recorded| recorded.of);
        let order = Order::new(held.order).unwrap_or(Order::PAGEBLOCK);
        stand_ins.take(machine, zone, held.pfn, order, of, &mut singles);
    }
    singles
}

/// Cuts a block into its frames.
fn to_frames<'m>(machine: &mut Machine<'_, 'm>, block: Block<'m>, frames: &mut Vec<Block<'m>>) {
    if block.order() == Order::ZERO {
        return frames.push(block);
    }
    let (low, high) = machine.split(block);
    to_frames(machine, low, frames);
    to_frames(machine, high, frames);
}

/// Puts blocks on a CPU's lists by freeing them there; returns those that would not stay.
///
/// Lists give back to the zone what they have no room for, and more with it. That is taken again and
/// offered again, until hardly anything comes back.
fn fill_lists<'m>(
    machine: &mut Machine<'_, 'm>,
    cpu: u16,
    zone: &ZonePlan,
    mut blocks: Vec<Block<'m>>,
) -> Vec<Block<'m>> {
    let mut offered: Vec<(Pfn, Order, MigrateType)> = blocks
        .iter()
        .map(|block| {
            let of = machine.memory().pageblock_type(block.pfn());
            (block.pfn(), block.order(), of.unwrap_or(MigrateType::Movable))
        })
        .collect();
    for _ in 0..OFFERS {
        for block in blocks.drain(..) {
            let of = machine.memory().pageblock_type(block.pfn());
            let again = Request::new(block.order(), of.unwrap_or(MigrateType::Movable));
            machine.free(cpu, block);
            // Frees that follow one another without end would make the lists shed more and more.
            let again = again.zone(zone.kind).on_node(zone.node).this_node().no_wait();
            if let Some(block) = machine.alloc(cpu, again) {
                machine.free(cpu, block);
            }
        }
        blocks.extend(
            offered.iter().filter_map(|&(pfn, order, of)| machine.alloc_at(pfn, order, of)),
        );
    }
    offered.clear();
    blocks
}
