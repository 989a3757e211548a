//! Fills the lists of CPUs as the kernel's were when the recording began.
//!
//! The recording names most of the blocks that were on them: those that it saw leave. Neighbours do
//! for the rest.

use framewright::{Block, MigrateType, Order, Pfn, Request, ZoneId};

use super::census::Census;
use super::machine::Machine;
use super::plan::{ListsPlan, ZonePlan};
use super::stand_ins::StandIns;
use super::unit::pageblock;

/// Order of the neighbourhoods whose frames fill the CPU lists where the recording names none.
const NEIGHBOURS: u8 = 6;
/// Frames between two looks at how long lists may be: what a refill brings at least.
const LOOK_EVERY: usize = 63;
/// How often a block is offered to CPU lists.
const OFFERS: usize = 4;

/// Lets the lists of a CPU for a zone grow as long as the kernel's had become. How long they may be
/// is learned from use: so they are used, while all memory is free, and emptied again.
pub(super) fn widen(machine: &mut Machine<'_, '_>, zone: &ZonePlan, cpu: u16) {
    let wanted = zone.cpus[usize::from(cpu)].high;
    let Some(id) = machine.id_of(zone) else { return };
    let high = |machine: &Machine<'_, '_>, id: ZoneId| {
        let lists = machine.memory().pagesets(id).nth(usize::from(cpu));
        lists.map_or(0, |lists| lists.high)
    };
    let page = request(zone, Order::ZERO, MigrateType::Movable);
    let mut blocks = Vec::new();
    // Where lists do not learn, as many frames as they should hold settle it.
    while high(machine, id) < wanted && (blocks.len() as u64) < wanted {
        let batch = (0..LOOK_EVERY).map_while(|_| machine.alloc(cpu, page));
        let before = blocks.len();
        blocks.extend(batch);
        if blocks.len() < before + LOOK_EVERY {
            break;
        }
    }
    for block in blocks {
        machine.free(cpu, block);
    }
    machine.drain(cpu);
}

/// Takes the stand-ins that shall be on a CPU's lists, in the order in which they are to be freed.
pub(super) fn choose<'m>(
    machine: &mut Machine<'_, 'm>,
    zone: usize,
    lists: &ListsPlan,
    census: &Census,
    stand_ins: &mut StandIns<'m>,
) -> Vec<Block<'m>> {
    let mut unknown = lists.unknown();
    // What the recording never saw leave lay deepest.
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
    // What left first was freed last.
    for held in lists.known.iter().rev() {
        let of = census.pageblocks.get(&pageblock(held.pfn)).and_then(|recorded| recorded.of);
        let order = Order::new(held.order).unwrap_or(Order::PAGEBLOCK);
        stand_ins.take(machine, zone, held.pfn, order, of, &mut blocks);
    }
    blocks
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
pub(super) fn fill<'m>(
    machine: &mut Machine<'_, 'm>,
    cpu: u16,
    zone: &ZonePlan,
    mut blocks: Vec<Block<'m>>,
) -> Vec<Block<'m>> {
    let offered: Vec<_> =
        blocks.iter().map(|block| (block.pfn(), block.order(), type_of(machine, block))).collect();
    for _ in 0..OFFERS {
        for block in blocks.drain(..) {
            let page = request(zone, block.order(), type_of(machine, &block));
            machine.free(cpu, block);
            // Frees that follow one another without end would make the lists shed more and more.
            if let Some(block) = machine.alloc(cpu, page) {
                machine.free(cpu, block);
            }
        }
        let back = |&(pfn, order, of): &(Pfn, Order, MigrateType)| machine.alloc_at(pfn, order, of);
        blocks.extend(offered.iter().filter_map(back));
        if blocks.is_empty() {
            break;
        }
    }
    blocks
}

fn type_of(machine: &Machine<'_, '_>, block: &Block<'_>) -> MigrateType {
    machine.memory().pageblock_type(block.pfn()).unwrap_or(MigrateType::Movable)
}

/// A request for memory of this zone.
fn request(zone: &ZonePlan, order: Order, of: MigrateType) -> Request {
    Request::new(order, of).zone(zone.kind).on_node(zone.node).this_node().no_wait()
}
