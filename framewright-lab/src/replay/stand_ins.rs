//! Stand-ins: memory that was in use before the recording started.
//!
//! A free without a recorded allocation frees a stand-in. The choice of the stand-in affects
//! fragmentation: neighbours on the recorded machine should be neighbours in the replay. Each
//! recorded pageblock is therefore assigned a replayed one of the same zone and, if known, of the
//! same migratetype. A free frees the frames at the same offset if they are in use. If they are
//! not, because the free frames of the two pageblocks differ, it frees any block of that order.

use std::ops::Range;

use framewright::{MigrateType, Order};
use rustc_hash::FxHashMap;

use super::allocator::Allocator;
use super::census::Census;
use super::layout::Map;
use super::map::type_of;
use super::survey::{PAGEBLOCK, TYPES, pageblock};
use crate::workloads::world::Frames;

/// Memory in use without a recorded allocation.
pub(super) struct StandIns<B> {
    places: Vec<Place<B>>,
    /// By zone.
    pools: Vec<Pool>,
    /// The place that is assigned to a recorded pageblock.
    assigned: FxHashMap<u64, usize>,
}

/// The frames in use of one pageblock, ascending.
struct Place<B> {
    zone: usize,
    blocks: Vec<B>,
    /// The starts of the blocks. Counting those before a frame finds its block without reading the blocks.
    starts: Map,
}

/// The places of one zone.
#[derive(Default)]
struct Pool {
    places: Range<usize>,
    /// Places without a recorded pageblock, by migratetype.
    unassigned: [Vec<usize>; TYPES],
    /// Blocks by order, over all places.
    blocks: [u64; Order::COUNT],
    /// The place at which the search for any block continues.
    cursor: usize,
}

impl<B> Default for StandIns<B> {
    fn default() -> Self {
        Self { places: Vec::new(), pools: Vec::new(), assigned: FxHashMap::default() }
    }
}

impl<B: Frames> StandIns<B> {
    /// Adds the frames in use of a pageblock of a zone, and its recorded pageblock, if known.
    /// Pageblocks come in ascending order, zones one after the other.
    pub(super) fn add(
        &mut self,
        zone: usize,
        of: MigrateType,
        recorded: Option<u64>,
        mut blocks: Vec<B>,
    ) {
        let place = self.places.len();
        while self.pools.len() <= zone {
            self.pools.push(Pool { places: place..place, cursor: place, ..Pool::default() });
        }
        let pool = &mut self.pools[zone];
        pool.places.end = place + 1;
        for block in &blocks {
            pool.blocks[usize::from(block.order().get())] += 1;
        }
        match recorded {
            Some(recorded) => _ = self.assigned.insert(recorded, place),
            None => pool.unassigned[of as usize].push(place),
        }
        blocks.sort_by_key(Frames::pfn);
        let mut starts = Map::default();
        blocks.iter().for_each(|block| flip(&mut starts, block));
        self.places.push(Place { zone, blocks, starts });
    }

    /// Ends the additions. Places are assigned in the order in which they were added.
    pub(super) fn seal(&mut self) {
        for places in self.pools.iter_mut().flat_map(|pool| &mut pool.unassigned) {
            places.reverse();
        }
    }

    /// Removes 2^order frames that stand in for the recorded block at `pfn` of a zone, and appends
    /// them to `taken` as one or more blocks; fewer if the stand-ins run out. No stand-in is larger than a
    /// pageblock, so larger orders get several. `census` knows the types of recorded pageblocks.
    pub(super) fn take(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        zone: usize,
        pfn: u64,
        order: Order,
        census: &Census,
        taken: &mut Vec<B>,
    ) {
        if let Some(place) = self.place_of(zone, pageblock(pfn), census)
            && self.take_at(machine, place, pfn % PAGEBLOCK, order, taken)
        {
            return;
        }
        self.take_any(machine, zone, order, taken);
    }

    /// The place assigned to a recorded pageblock.
    fn place_of(&mut self, zone: usize, recorded: u64, census: &Census) -> Option<usize> {
        if let Some(&place) = self.assigned.get(&recorded) {
            return Some(place);
        }
        let of = census.pageblocks.get(&recorded).and_then(|recorded| recorded.of);
        let pool = self.pools.get_mut(zone)?;
        let place = pool.unassigned[type_of(of)].pop().or_else(|| {
            // Most pageblocks are movable, so spare ones are most likely movable, too.
            [1, 2, 0].into_iter().find_map(|other: usize| pool.unassigned[other].pop())
        })?;
        self.assigned.insert(recorded, place);
        Some(place)
    }

    /// Removes the 2^order frames at `offset` of a place, if all of them are in use.
    fn take_at(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        place: usize,
        offset: u64,
        order: Order,
        taken: &mut Vec<B>,
    ) -> bool {
        let Place { blocks, starts, .. } = &self.places[place];
        let last = before(starts, offset + order.frames());
        let (mut first, mut frames) = (last, 0);
        while let Some(previous) = first.checked_sub(1)
            && start(&blocks[previous]) + blocks[previous].order().frames() > offset
        {
            frames += blocks[previous].order().frames();
            first = previous;
        }
        // Aligned blocks nest: either one block contains the frames, or the frames consist of whole
        // blocks.
        if frames < order.frames() {
            return false;
        }
        if frames == order.frames() {
            let Place { zone, blocks, starts } = &mut self.places[place];
            for block in blocks.drain(first..last) {
                flip(starts, &block);
                self.pools[*zone].blocks[usize::from(block.order().get())] -= 1;
                taken.push(block);
            }
            return true;
        }
        taken.push(self.carve(machine, place, first, offset, order));
        true
    }

    /// Splits the block of `order` at `offset` off the larger block number `index` of a place.
    fn carve(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        place: usize,
        index: usize,
        offset: u64,
        order: Order,
    ) -> B {
        let Place { zone, blocks, starts } = &mut self.places[place];
        let counts = &mut self.pools[*zone].blocks;
        let mut block = blocks.remove(index);
        flip(starts, &block);
        counts[usize::from(block.order().get())] -= 1;
        while block.order() > order {
            let (low, high) = machine.split(block);
            counts[usize::from(low.order().get())] += 1;
            // The other half stays, on its side of the gap.
            let wants_high = start(&high) <= offset;
            let (wanted, other) = if wants_high { (high, low) } else { (low, high) };
            let at = before(starts, start(&other));
            flip(starts, &other);
            blocks.insert(at, other);
            block = wanted;
        }
        block
    }

    /// Removes any 2^order frames: one block if possible, else smaller ones. Takes them from `zone`;
    /// when that has no stand-ins left, from any other zone.
    pub(super) fn take_any(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        zone: usize,
        order: Order,
        taken: &mut Vec<B>,
    ) {
        let has = |zone: &usize, order: Order| {
            let blocks = self.pools.get(*zone).map(|pool| &pool.blocks);
            blocks.is_some_and(|blocks| {
                blocks[usize::from(order.get())..].iter().any(|&blocks| blocks > 0)
            })
        };
        let with_any = |zone: &usize| has(zone, Order::ZERO);
        let Some(zone) = [zone].into_iter().chain(0..self.pools.len()).find(with_any) else {
            return;
        };
        if has(&zone, order) {
            let (place, index) = self.find(zone, order);
            let offset = start(&self.places[place].blocks[index]);
            taken.push(self.carve(machine, place, index, offset, order));
        } else if let Some(half) = order.get().checked_sub(1).and_then(Order::new) {
            self.take_any(machine, zone, half, taken);
            self.take_any(machine, zone, half, taken);
        }
    }

    /// The next place of a zone with a block of at least `order`, and its smallest such block.
    /// There must be one.
    fn find(&mut self, zone: usize, order: Order) -> (usize, usize) {
        let pool = &mut self.pools[zone];
        loop {
            let blocks = self.places[pool.cursor].blocks.iter().enumerate();
            let smallest = blocks
                .filter(|(_, block)| block.order() >= order)
                .min_by_key(|(_, block)| block.order());
            if let Some((index, _)) = smallest {
                return (pool.cursor, index);
            }
            pool.cursor += 1;
            if pool.cursor == pool.places.end {
                pool.cursor = pool.places.start;
            }
        }
    }
}

/// The number of starts before a frame.
fn before(starts: &Map, frame: u64) -> usize {
    let (words, bits) = ((frame / 64) as usize, frame % 64);
    let below = starts.get(words).map_or(0, |word| word & ((1 << bits) - 1));
    starts[..words].iter().chain([&below]).map(|word| word.count_ones() as usize).sum()
}

/// Adds the start of a block, or removes it.
fn flip(starts: &mut Map, block: &impl Frames) {
    let start = start(block);
    starts[(start / 64) as usize] ^= 1 << (start % 64);
}

/// The start of a block in its pageblock.
#[inline(always)]
fn start(block: &impl Frames) -> u64 {
    block.pfn().get() % PAGEBLOCK
}

#[cfg(test)]
mod tests {
    use framewright::{Block, Request};

    use super::*;
    use crate::replay::machine::{Machine, tests::with_machine};

    const ORDER_3: Option<Order> = Order::new(3);

    /// Stand-ins of one whole pageblock of each given type.
    fn stand_ins<'m>(machine: &mut Machine<'_, 'm>, types: &[MigrateType]) -> StandIns<Block<'m>> {
        let mut stand_ins = StandIns::default();
        for &of in types {
            let block = machine.alloc(0, Request::new(Order::PAGEBLOCK, MigrateType::Movable));
            stand_ins.add(0, of, None, block.into_iter().collect());
        }
        stand_ins.seal();
        stand_ins
    }

    /// Takes and frees. Returns first frame and order of each block.
    fn take<'m>(
        stand_ins: &mut StandIns<Block<'m>>,
        machine: &mut Machine<'_, 'm>,
        pfn: u64,
        order: Option<Order>,
    ) -> Vec<(u64, u8)> {
        let mut taken = Vec::new();
        let mut census = Census::default();
        census.pageblocks.entry(1000).or_default().of = Some(MigrateType::Unmovable as u8);
        stand_ins.take(machine, 0, pfn, order.unwrap(), &census, &mut taken);
        let names = taken.iter().map(|b| (b.pfn().get(), b.order().get())).collect();
        for block in taken {
            machine.free(0, block);
        }
        names
    }

    #[test]
    fn neighbours_stay_neighbours() {
        with_machine(8, |machine| {
            let mut stand_ins = stand_ins(machine, &[MigrateType::Movable; 2]);
            let one = Some(Order::ZERO);
            let first = take(&mut stand_ins, machine, (7 << 9) + 100, one)[0].0;
            assert_eq!(first % 512, 100);
            let other = take(&mut stand_ins, machine, (9 << 9) + 101, one)[0].0;
            assert_ne!(other >> 9, first >> 9);
            take(&mut stand_ins, machine, (7 << 9) + 300, one);
            // Around the gaps, in every size, at both sides.
            for (offset, order, expected) in [
                (301, 0, vec![(301, 0)]),
                (101, 0, vec![(101, 0)]),
                (102, 1, vec![(102, 1)]),
                (96, 2, vec![(96, 2)]),
                (104, 3, vec![(104, 3)]),
                (384, 7, vec![(384, 7)]),
            ] {
                let pfn = (7 << 9) + offset;
                let expected: Vec<_> =
                    expected.iter().map(|&(at, order)| ((first & !511) + at, order)).collect();
                assert_eq!(take(&mut stand_ins, machine, pfn, Order::new(order)), expected);
            }
        });
    }

    #[test]
    fn a_block_may_be_made_of_smaller_ones() {
        with_machine(8, |machine| {
            let mut stand_ins = stand_ins(machine, &[MigrateType::Movable]);
            // Taking the first frame leaves the rest in pieces of every order.
            take(&mut stand_ins, machine, 0, Some(Order::ZERO));
            assert_eq!(take(&mut stand_ins, machine, 8, ORDER_3).len(), 1);
            let mut orders: Vec<u8> =
                take(&mut stand_ins, machine, 0, ORDER_3).iter().map(|block| block.1).collect();
            orders.sort_unstable();
            assert_eq!(orders, [3], "expected one such block from elsewhere in the pageblock");
            let rest: u64 = (0..512)
                .flat_map(|_| take(&mut stand_ins, machine, 5 << 9, ORDER_3))
                .map(|(_, order)| 1 << order)
                .sum();
            // After the larger pieces come smaller ones; the number of frames is right.
            assert_eq!(rest, 512 - 1 - 8 - 8);
            assert_eq!(stand_ins.pools[0].blocks, [0; Order::COUNT]);
            assert!(take(&mut stand_ins, machine, 0, Some(Order::ZERO)).is_empty());
        });
    }

    #[test]
    fn the_recorded_type_chooses_the_pageblock() {
        with_machine(8, |machine| {
            let types = [MigrateType::Movable, MigrateType::Unmovable, MigrateType::Movable];
            let mut stand_ins = stand_ins(machine, &types);
            let place = |stand_ins: &StandIns<Block<'_>>, recorded| stand_ins.assigned[&recorded];
            for pageblock in [1000, 7, 8] {
                take(&mut stand_ins, machine, pageblock << 9, Some(Order::ZERO));
            }
            assert_eq!(place(&stand_ins, 1000), 1);
            assert_eq!((place(&stand_ins, 7), place(&stand_ins, 8)), (0, 2));
        });
    }
}
