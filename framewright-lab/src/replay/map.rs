//! The positions of the pageblocks of a zone, and their layouts at the start.
//!
//! The tables contain counts without positions. Free pairs of buddies and free single pageblocks
//! are distributed evenly over the zone, and do not merge. Free blocks are distributed evenly over
//! the pageblocks of their type. The pageblocks that the recording names are assigned to the
//! first used ones of their type. Their frames in use are not free if all free blocks fit elsewhere.

use framewright::{FrameRange, MigrateType, Pfn};

use super::census::Census;
use super::layout::{Layout, Map};
use super::plan::{Plan, TypePlan, ZonePlan};
use super::survey::{PAGEBLOCK, SMALL_ORDERS, TYPES};

/// A pageblock at the start.
#[derive(Debug)]
pub(super) struct PageblockMap {
    /// Its number: its first frame, divided by the size of a pageblock.
    pub(super) number: u64,
    pub(super) of: MigrateType,
    /// The layout, if some frames are not free; `None`: all are free.
    pub(super) used: Option<Used>,
}

/// A pageblock that is not wholly free.
#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) layout: Layout,
    /// The recorded pageblock that it represents.
    pub(super) recorded: Option<u64>,
}

impl PageblockMap {
    /// Number of its first frame.
    pub(super) fn start(&self) -> u64 {
        self.number * PAGEBLOCK
    }
}

/// Maps every zone of a plan.
pub(super) fn map(plan: &Plan, census: &Census) -> Vec<Vec<PageblockMap>> {
    let mut named = named(plan, census);
    let zones = plan.zones.iter().zip(&mut named);
    zones.map(|(zone, named)| map_zone(zone, named, census)).collect()
}

/// The recorded pageblocks with frames in use, by zone and migratetype, ascending.
fn named(plan: &Plan, census: &Census) -> Vec<[Vec<u64>; TYPES]> {
    let mut named: Vec<[Vec<u64>; TYPES]> = vec![Default::default(); plan.zones.len()];
    for (&number, recorded) in &census.pageblocks {
        if recorded.taken != Map::default() {
            named[plan.zone_of(number * PAGEBLOCK)][type_of(recorded.of)].push(number);
        }
    }
    named.iter_mut().flatten().for_each(|numbers| numbers.sort_unstable());
    named
}

/// The index of a recorded migratetype; the default is movable, the type of most pageblocks.
pub(super) fn type_of(recorded: Option<u8>) -> usize {
    let of = recorded.and_then(MigrateType::from_number).filter(|of| of.is_requestable());
    of.unwrap_or(MigrateType::Movable) as usize
}

pub(super) fn map_zone(
    plan: &ZonePlan,
    named: &[Vec<u64>; TYPES],
    census: &Census,
) -> Vec<PageblockMap> {
    let mut used: [Vec<Used>; TYPES] =
        std::array::from_fn(|of| spread(&plan.types[of], &named[of], census));
    punch_holes(plan, &mut used);
    arrange(plan, used)
}

/// The pageblocks of one type that are not wholly free, with its free blocks distributed over them.
fn spread(plan: &TypePlan, named: &[u64], census: &Census) -> Vec<Used> {
    let taken = |number: u64| census.pageblocks.get(&number).map(|recorded| recorded.taken);
    let mut blocks = Vec::new();
    // If some free blocks do not fit even on frames in use, all are placed again without the recording.
    for taken in [&taken as &dyn Fn(u64) -> Option<Map>, &|_| None] {
        let mut named = named.iter().copied();
        let empty = |_| Used { layout: Layout::default(), recorded: named.next() };
        blocks = (0..plan.used).map(empty).collect();
        if place(plan, &mut blocks, taken) {
            break;
        }
    }
    blocks
}

/// Places the free blocks of a type between the frames `taken` of each recorded pageblock. Returns
/// `false` if some do not fit.
fn place(plan: &TypePlan, blocks: &mut [Used], taken: &dyn Fn(u64) -> Option<Map>) -> bool {
    let mut wanted = [0; SMALL_ORDERS];
    let taken = |used: &Used| used.recorded.and_then(taken).unwrap_or_default();
    let space = plan.used - plan.full;
    for (number, used) in (0..space).zip(&mut *blocks) {
        for (wanted, &blocks) in wanted.iter_mut().zip(&plan.free_blocks) {
            *wanted += share(blocks, number, space);
        }
        used.layout.place(&mut wanted, &taken(used));
    }
    // Blocks that did not fit use the remaining space and, as a last resort, frames that were in
    // use.
    for used in &mut *blocks {
        used.layout.place(&mut wanted, &taken(used));
    }
    for used in &mut *blocks {
        used.layout.place(&mut wanted, &Map::default());
    }
    wanted == [0; SMALL_ORDERS]
}

/// Makes holes for the unmanaged frames of the zone's pageblocks, in as few pieces as possible: a
/// kernel's own memory is rarely scattered.
fn punch_holes(plan: &ZonePlan, used: &mut [Vec<Used>; TYPES]) {
    let mut left = (plan.pageblocks * PAGEBLOCK - plan.managed) as usize;
    if left == 0 {
        return;
    }
    let mut blocks: Vec<&mut Used> = used.iter_mut().flatten().collect();
    let runs = blocks
        .iter()
        .enumerate()
        .flat_map(|(index, used)| used.layout.used_runs().map(move |(at, size)| (size, index, at)));
    let mut runs: Vec<_> = runs.collect();
    runs.sort_by_key(|&(size, ..)| std::cmp::Reverse(size));
    for (size, index, at) in runs {
        let size = size.min(left);
        blocks[index].layout.punch(at, size);
        left -= size;
        if left == 0 {
            return;
        }
    }
}

/// The state of two pageblocks that are buddies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Free.
    Free,
    /// The first free, the second not.
    Half,
    /// Both are in use.
    Used,
}

/// Gives every pageblock its position.
fn arrange(plan: &ZonePlan, used: [Vec<Used>; TYPES]) -> Vec<PageblockMap> {
    let queue = |count: fn(&TypePlan) -> u64| {
        let types = MigrateType::REQUESTABLE.into_iter();
        types.flat_map(move |of| (0..count(&plan.types[of as usize])).map(move |_| of))
    };
    let (mut pairs, mut singles) = (queue(|of| of.pairs), queue(|of| of.singles));
    let types = MigrateType::REQUESTABLE.into_iter().zip(used);
    let mut used = types.flat_map(|(of, blocks)| blocks.into_iter().map(move |used| (of, used)));
    let mut single = |number| singles.next().map(|of| PageblockMap { number, of, used: None });
    let mut taken =
        |number| used.next().map(|(of, used)| PageblockMap { number, of, used: Some(used) });
    let numbers = numbers(plan);
    let buddies = |at: usize| {
        numbers[at].is_multiple_of(2) && numbers.get(at + 1) == Some(&(numbers[at] + 1))
    };
    let mut units = units(plan, (0..numbers.len()).filter(|&at| buddies(at)).count() as u64);
    let mut map = Vec::with_capacity(numbers.len());
    let mut at = 0;
    while at < numbers.len() {
        let number = numbers[at];
        if !buddies(at) {
            map.extend(taken(number).or_else(|| single(number)));
            at += 1;
            continue;
        }
        let unit = units.next().unwrap_or(Unit::Used);
        let pair = if unit == Unit::Free { pairs.next() } else { None };
        if let Some(of) = pair {
            map.extend([number, number + 1].map(|number| PageblockMap { number, of, used: None }));
        } else if unit == Unit::Half {
            map.extend(single(number).or_else(|| taken(number)));
            map.extend(taken(number + 1).or_else(|| single(number + 1)));
        } else {
            map.extend(taken(number).or_else(|| single(number)));
            map.extend(taken(number + 1).or_else(|| single(number + 1)));
        }
        at += 2;
    }
    map
}

/// Numbers of the pageblocks of a zone. If pageblocks are missing in its span, their positions are
/// unknown: the last pageblock is then at the end of the zone, and all others at its start.
fn numbers(plan: &ZonePlan) -> Vec<u64> {
    let last = plan.first + plan.spanned - 1;
    let mut numbers: Vec<u64> = (plan.first..).take(plan.pageblocks as usize).collect();
    if let Some(number) = numbers.last_mut() {
        *number = last;
    }
    numbers
}

/// The states of `count` pairs of buddies. Free pairs are distributed evenly over all pairs, and half-free pairs
/// over the rest.
fn units(plan: &ZonePlan, count: u64) -> impl Iterator<Item = Unit> {
    let sum = |of: fn(&TypePlan) -> u64| plan.types.iter().map(of).sum::<u64>().min(count);
    let free = sum(|of| of.pairs);
    let (rest, halves) = (count - free, sum(|of| of.singles).min(count - free));
    let mut others = 0;
    (0..count).map(move |number| {
        if share(free, number, count) > 0 {
            return Unit::Free;
        }
        others += 1;
        if share(halves, others - 1, rest) > 0 { Unit::Half } else { Unit::Used }
    })
}

/// The share of `blocks` at place `number` of `places`, distributed evenly.
fn share(blocks: u64, number: u64, places: u64) -> u64 {
    let until = |n: u64| u128::from(blocks) * u128::from(n) / u128::from(places);
    // The share is at most `blocks`, so it fits.
    (until(number + 1) - until(number)) as u64
}

/// The frames that are not holes, as ranges.
pub(super) fn ranges(zone: &[PageblockMap]) -> Vec<FrameRange> {
    let mut ranges: Vec<[u64; 2]> = Vec::new();
    for block in zone {
        let layout = block.used.as_ref().map_or(Layout::default(), |used| used.layout);
        for (at, size) in layout.present_runs() {
            let start = block.start() + at as u64;
            let end = start + size as u64;
            match ranges.last_mut() {
                Some(last) if last[1] == start => last[1] = end,
                _ => ranges.push([start, end]),
            }
        }
    }
    let range = |[start, end]: [u64; 2]| FrameRange::new(Pfn::new(start), Pfn::new(end));
    ranges.into_iter().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Snapshot;

    const TABLES: &str = "\
# zoneinfo
Node 0, zone   DMA32
  pages free     2048
        spanned  6144
        managed  2816
  pagesets
    cpu: 0
              count: 3
  start_pfn:           1025
# buddyinfo
Node 0, zone   DMA32 0 0 0 0 0 0 2 1 1 1 1
# pagetypeinfo
Page block order: 9
Node    0, zone   DMA32, type    Unmovable 0 0 0 0 0 0 0 1 0 0 0
Node    0, zone   DMA32, type      Movable 0 0 0 0 0 0 2 0 1 1 1

Number of blocks type     Unmovable      Movable
Node 0, zone   DMA32            1            5
";

    fn zone(tables: &str, census: &Census) -> (ZonePlan, Vec<PageblockMap>) {
        let snapshot = Snapshot::parse("t", tables.as_bytes()).unwrap();
        let plan = crate::replay::tests::plan(&snapshot);
        let map = map(&plan, census).remove(0);
        (plan.zones[0].clone(), map)
    }

    #[test]
    fn every_pageblock_and_every_hole_has_its_position() {
        let (plan, map) = zone(TABLES, &Census::default());
        assert_eq!((plan.pageblocks, plan.managed), (6, 2816));
        let numbers: Vec<u64> = map.iter().map(|block| block.number).collect();
        assert_eq!(
            numbers,
            [2, 3, 4, 5, 6, 14],
            "the last pageblock is not at the end of the zone"
        );
        let free: Vec<u64> =
            map.iter().filter(|block| block.used.is_none()).map(|block| block.number).collect();
        assert_eq!(free.len(), 3);
        assert!(
            free.windows(2).any(|two| two[0].is_multiple_of(2) && two[1] == two[0] + 1),
            "{free:?}"
        );
        let frames: u64 = ranges(&map).iter().map(|range| range.frames()).sum();
        assert_eq!(frames, 2816, "unmanaged frames are not holes");
        assert_eq!(ranges(&map).len(), 3, "the hole is not in one piece: {:?}", ranges(&map));
    }

    #[test]
    fn frames_in_use_are_not_free() {
        let mut census = Census::default();
        let mut taken = Map::default();
        taken[0] = 1;
        taken[6] = 1;
        let recorded = census.pageblocks.entry(7).or_default();
        (recorded.of, recorded.taken) = (Some(0), taken);
        let (_, map) = zone(TABLES, &census);
        let unmovable = map.iter().find(|block| block.of == MigrateType::Unmovable).unwrap();
        let used = unmovable.used.as_ref().unwrap();
        assert_eq!(used.recorded, Some(7));
        assert!(used.layout.is_free(128, 128) && used.layout.is_used(0, 1));
    }

    #[test]
    fn shares_add_up() {
        for (blocks, places) in [(0, 3), (1, 3), (7, 3), (3, 7), (1_000_003, 5_869)] {
            let shares: Vec<u64> = (0..places).map(|n| share(blocks, n, places)).collect();
            assert_eq!(shares.iter().sum::<u64>(), blocks);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
