//! Brings a machine into the state in which the recording began.
//!
//! Whatever the map says is neither free nor a hole is taken, block by block, and becomes the
//! stand-ins. Then each CPU frees as many of them onto its lists as the kernel had there.

use framewright::{Block, MigrateType, Order, Pfn};

use super::census::Census;
use super::layout::Layout;
use super::lists;
use super::machine::Machine;
use super::map::PageblockMap;
use super::plan::Plan;
use super::stand_ins::StandIns;
use super::unit::PAGEBLOCK;

/// Takes what the maps say is in use, and returns it.
pub(super) fn prepare<'m>(
    machine: &mut Machine<'_, 'm>,
    plan: &Plan,
    maps: &[Vec<PageblockMap>],
    census: &Census,
) -> StandIns<'m> {
    for zone in &plan.zones {
        (0..plan.cpus).for_each(|cpu| lists::widen(machine, zone, cpu));
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
            let blocks = lists::choose(machine, zone, lists, census, &mut stand_ins);
            let left = lists::fill(machine, cpu, planned, blocks);
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
