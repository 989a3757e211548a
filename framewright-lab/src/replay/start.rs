//! Brings a machine into the state in which the recording began.
//!
//! The planned number of pageblocks of each migratetype is taken, and the planned free blocks are
//! carved out of them and given back. What remains are the stand-ins. Then each CPU frees as many of
//! them onto its lists as the kernel had there.

use framewright::{Block, MigrateType, Order, Request};

use super::layout::Layout;
use super::machine::Machine;
use super::plan::{PAGEBLOCK, Plan, SMALL_ORDERS, TypePlan};
use super::stand_ins::StandIns;
use framewright::frame::PAGEBLOCK_ORDER;

/// How many pageblocks are carved between two drains of the lists.
const DRAIN_EVERY: usize = 64;

/// Order of the neighbourhoods whose frames fill the CPU lists.
const NEIGHBOURS: u8 = 5;

/// Takes what the plan says is in use, and returns it.
pub(super) fn prepare<'m>(machine: &mut Machine<'_, 'm>, plan: &Plan) -> StandIns<'m> {
    let mut stand_ins = StandIns::default();
    let mut missing = 0;
    // Movable pageblocks last: they make up for others that cannot be had.
    for of in [MigrateType::Reclaimable, MigrateType::Unmovable, MigrateType::Movable] {
        let mut plan = plan.types[of as usize];
        if of == MigrateType::Movable {
            plan.pageblocks += missing;
        }
        missing += take_type(machine, of, &plan, &mut stand_ins);
    }
    stand_ins.seal();
    machine.drain(0);
    fill_lists(machine, plan, &mut stand_ins);
    stand_ins
}

/// Takes the pageblocks of one type; returns how many could not be had.
fn take_type<'m>(
    machine: &mut Machine<'_, 'm>,
    of: MigrateType,
    plan: &TypePlan,
    stand_ins: &mut StandIns<'m>,
) -> u64 {
    let mut wanted = [0; SMALL_ORDERS];
    let mut pageblocks = Vec::new();
    for number in 0..plan.pageblocks {
        let mut pageblock = take_pageblock(machine, of);
        if pageblock.is_empty() {
            // The machine is nearly full: what is to be free in those taken so far helps.
            plant(machine, of, &mut pageblocks, stand_ins);
            pageblock = take_pageblock(machine, of);
        }
        if pageblock.is_empty() {
            return plan.pageblocks - number;
        }
        for (wanted, &blocks) in wanted.iter_mut().zip(&plan.free_blocks) {
            *wanted += share(blocks, number, plan.pageblocks);
        }
        pageblocks.push((pageblock, Layout::new(&mut wanted)));
    }
    plant(machine, of, &mut pageblocks, stand_ins);
    0
}

/// A whole pageblock of a type, in one or two blocks; none if there is none.
fn take_pageblock<'m>(machine: &mut Machine<'_, 'm>, of: MigrateType) -> Vec<Block<'m>> {
    // The CPU lists keep unmovable and reclaimable pageblocks together; halves bypass them.
    let (order, count) = match of {
        MigrateType::Reclaimable => (PAGEBLOCK_ORDER - 1, 2),
        _ => (PAGEBLOCK_ORDER, 1),
    };
    // The recorded machine has these frames in use: the reserve must not stand in their way.
    let request = Request::new(Order::new(order).unwrap_or(Order::PAGEBLOCK), of).atomic();
    (0..count).map_while(|_| machine.alloc(0, request)).collect()
}

/// Frees what shall be free in the pageblocks; the rest are stand-ins.
fn plant<'m>(
    machine: &mut Machine<'_, 'm>,
    of: MigrateType,
    pageblocks: &mut Vec<(Vec<Block<'m>>, Layout)>,
    stand_ins: &mut StandIns<'m>,
) {
    for (number, (blocks, layout)) in pageblocks.drain(..).enumerate() {
        let mut used = Vec::new();
        for block in blocks {
            carve(machine, block, &layout, &mut used);
        }
        stand_ins.add(of, used);
        if number % DRAIN_EVERY == 0 {
            machine.drain(0);
        }
    }
    machine.drain(0);
}

/// How many of `blocks` go to place `number` of `places`, spread evenly.
fn share(blocks: u64, number: u64, places: u64) -> u64 {
    let until = |n: u64| u128::from(blocks) * u128::from(n) / u128::from(places);
    // Not more than `blocks`.
    (until(number + 1) - until(number)) as u64
}

/// Splits `block` until every part is wholly free or wholly in use; frees the former.
fn carve<'m>(
    machine: &mut Machine<'_, 'm>,
    block: Block<'m>,
    layout: &Layout,
    used: &mut Vec<Block<'m>>,
) {
    let at = (block.pfn().get() % PAGEBLOCK) as usize;
    let size = block.order().frames() as usize;
    if layout.is_used(at, size) {
        used.push(block);
    } else if layout.is_free(at, size) {
        machine.free(0, block);
    } else {
        let (low, high) = machine.split(block);
        carve(machine, low, layout, used);
        carve(machine, high, layout, used);
    }
}

/// Puts as many frames on each CPU's lists as the kernel had there, by freeing stand-ins on it; and
/// frees what is in use beyond the plan, which rounding to pageblocks left over.
fn fill_lists<'m>(machine: &mut Machine<'_, 'm>, plan: &Plan, stand_ins: &mut StandIns<'m>) {
    let surplus = machine.in_use().saturating_sub(plan.taken());
    free_frames(machine, 0, surplus, stand_ins);
    machine.drain(0);
    for (cpu, &frames) in (0..).zip(&plan.held) {
        free_frames(machine, cpu, frames, stand_ins);
    }
}

/// Frees `frames` frames of stand-ins on `cpu`: one by one, but neighbours, as a process that ends
/// leaves them.
fn free_frames<'m>(
    machine: &mut Machine<'_, 'm>,
    cpu: u16,
    mut frames: u64,
    stand_ins: &mut StandIns<'m>,
) {
    let mut taken = Vec::new();
    while frames > 0 {
        let order = NEIGHBOURS.min(frames.ilog2() as u8);
        stand_ins.take_any(machine, Order::new(order).unwrap_or_default(), &mut taken);
        if taken.is_empty() {
            return;
        }
        for block in taken.drain(..) {
            frames -= block.order().frames();
            free_singly(machine, cpu, block);
        }
    }
}

/// Frees a block frame by frame.
fn free_singly<'m>(machine: &mut Machine<'_, 'm>, cpu: u16, block: Block<'m>) {
    if block.order() == Order::ZERO {
        return machine.free(cpu, block);
    }
    let (low, high) = machine.split(block);
    free_singly(machine, cpu, low);
    free_singly(machine, cpu, high);
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up() {
        for (blocks, places) in [(0, 3), (1, 3), (7, 3), (3, 7), (1_000_003, 5_869)] {
            let shares: Vec<u64> = (0..places).map(|n| share(blocks, n, places)).collect();
            assert_eq!(shares.iter().sum::<u64>(), blocks);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
