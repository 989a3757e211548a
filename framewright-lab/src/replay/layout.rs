//! Positions for free blocks of given orders in a pageblock that is not wholly free.
//!
//! Two free buddies of one order would merge into a block of the next, so each free block needs a
//! buddy that is at least partly not free. Frames that are not free are in use, or a *hole*: a
//! frame that the recorded kernel kept for itself and that no allocator manages.

use framewright::{
    ZoneKind,
    tuning::{Auto, Tuning, ZoneTuning},
};

use super::survey::{PAGEBLOCK, SMALL_ORDERS};
use crate::trace::{Snapshot, snapshot::Zone};

/// A bit for each frame of a pageblock.
pub(super) type Map = [u64; PAGEBLOCK as usize / 64];

/// The frames of one pageblock that are to be free, and those that are holes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    free: Map,
    holes: Map,
}

impl Layout {
    /// Places as many of the `wanted` blocks (counts by order) as fit between the frames in
    /// `taken`, and subtracts them from `wanted`. At least one frame is not free afterwards.
    pub(super) fn place(&mut self, wanted: &mut [u64; SMALL_ORDERS], taken: &Map) {
        // The largest first: the gaps between them are used for small ones.
        for order in (0..SMALL_ORDERS).rev() {
            let size = 1 << order;
            let mut at = 0;
            while wanted[order] > 0 && at < PAGEBLOCK as usize {
                if is_clear(taken, at, size) && self.fits(at, size) {
                    fill(&mut self.free, at, size);
                    wanted[order] -= 1;
                }
                at += size;
            }
        }
    }

    fn fits(&self, at: usize, size: usize) -> bool {
        self.is_used(at, size) && !self.is_free(at ^ size, size)
    }

    /// Makes frames that are not free a hole.
    pub(super) fn punch(&mut self, at: usize, size: usize) {
        (at..at + size).for_each(|frame| fill(&mut self.holes, frame, 1));
    }

    /// Whether every one of these frames is free.
    pub(super) fn is_free(&self, at: usize, size: usize) -> bool {
        is_set(&self.free, at, size)
    }

    /// Whether none of these frames is free.
    pub(super) fn is_used(&self, at: usize, size: usize) -> bool {
        is_clear(&self.free, at, size)
    }

    /// Whether none of these frames is a hole.
    pub(super) fn is_present(&self, at: usize, size: usize) -> bool {
        is_clear(&self.holes, at, size)
    }

    /// Runs of frames that are not free: start and length.
    pub(super) fn used_runs(&self) -> impl Iterator<Item = (usize, usize)> {
        runs_outside(self.free)
    }

    /// Runs of frames that are not holes.
    pub(super) fn present_runs(&self) -> impl Iterator<Item = (usize, usize)> {
        runs_outside(self.holes)
    }
}

/// Runs of frames whose bits are 0.
fn runs_outside(map: Map) -> impl Iterator<Item = (usize, usize)> {
    let (set, clear) = (move |word: usize| map[word], move |word: usize| !map[word]);
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = first_bit(clear, at);
        at = first_bit(set, start);
        (start < at).then_some((start, at - start))
    })
}

/// The first bit of a map from `at` on that is 1; the number of its bits if none is.
fn first_bit(word: impl Fn(usize) -> u64, at: usize) -> usize {
    let mut at = at;
    while at < PAGEBLOCK as usize {
        let rest = word(at / 64) >> (at % 64);
        if rest != 0 {
            return at + rest.trailing_zeros() as usize;
        }
        at = (at / 64 + 1) * 64;
    }
    at
}

/// The words of an aligned block, and its bits in each.
pub(super) fn words(at: usize, size: usize) -> (std::ops::Range<usize>, u64) {
    let mask = if size < 64 { ((1 << size) - 1) << (at % 64) } else { u64::MAX };
    (at / 64..(at + size).div_ceil(64), mask)
}

fn is_set(map: &Map, at: usize, size: usize) -> bool {
    let (words, mask) = words(at, size);
    map[words].iter().all(|word| word & mask == mask)
}

fn is_clear(map: &Map, at: usize, size: usize) -> bool {
    let (words, mask) = words(at, size);
    map[words].iter().all(|word| word & mask == 0)
}

/// Sets the bits of an aligned block.
pub(super) fn fill(map: &mut Map, at: usize, size: usize) {
    let (words, mask) = words(at, size);
    map[words].iter_mut().for_each(|word| *word |= mask);
}

/// `tuning` with the recorded machine's reserves, unless the user chose others.
pub(super) fn recorded(tuning: &Tuning, snapshot: &Snapshot) -> Tuning {
    let mut tuning = *tuning;
    let default = ZoneTuning::default();
    let zones: Vec<&Zone> = snapshot.zones.iter().filter(|zone| zone.managed > 0).collect();
    let min_free = min_free(&zones);
    if tuning.zone.min_free == Auto::Auto && min_free > 0 {
        tuning.zone.min_free = Auto::Fixed(u32::try_from(min_free).unwrap_or(u32::MAX));
        if tuning.zone.watermark_scale == default.watermark_scale {
            tuning.zone.watermark_scale = scale(&zones).unwrap_or(default.watermark_scale);
        }
    }
    if tuning.zone.reserve_ratios == default.reserve_ratios {
        for (kind, ratio) in ZoneKind::ALL.into_iter().zip(&mut tuning.zone.reserve_ratios) {
            let zone = zones.iter().find(|zone| zone.name == kind.name());
            *ratio = zone.and_then(|zone| reserve_ratio(zone, snapshot)).unwrap_or(*ratio);
        }
    }
    tuning
}

/// The reserve of the whole machine that gives each zone its min watermark: zones share it in
/// proportion to their sizes, rounded down.
fn min_free(zones: &[&Zone]) -> u64 {
    let lowmem = || zones.iter().filter(|zone| zone.name != ZoneKind::Movable.name());
    let managed: u128 = lowmem().map(|zone| u128::from(zone.managed)).sum();
    let shares = lowmem().map(|zone| {
        let whole = (u128::from(zone.min) * managed).div_ceil(u128::from(zone.managed));
        u64::try_from(whole).unwrap_or(u64::MAX)
    });
    shares.max().unwrap_or(0)
}

/// The watermark scale in 1/10000 of a zone; `None` if the distance from min to low is a quarter of
/// min in every zone.
fn scale(zones: &[&Zone]) -> Option<u32> {
    let by_scale = zones.iter().filter(|zone| zone.low.saturating_sub(zone.min) > zone.min / 4);
    let zone = by_scale.max_by_key(|zone| zone.managed)?;
    let scale = (zone.low - zone.min).saturating_mul(10_000).div_ceil(zone.managed);
    u32::try_from(scale).ok().filter(|scale| (1..=3000).contains(scale))
}

/// The lowmem reserve of a zone as a ratio: frames in the higher zones of its node per reserved
/// frame; `None` if the snapshot lacks it.
fn reserve_ratio(zone: &Zone, snapshot: &Snapshot) -> Option<u32> {
    let of_node: Vec<&Zone> =
        snapshot.zones.iter().filter(|other| other.node == zone.node).collect();
    let at = of_node.iter().position(|other| other.name == zone.name)?;
    let above = of_node.get(at + 1..)?;
    let (mut sum, mut best) = (0u64, None);
    for (higher, &kept) in above.iter().zip(zone.protection.get(at + 1..)?) {
        sum = sum.saturating_add(higher.managed);
        // The largest sum has the smallest rounding error.
        if higher.managed > 0 {
            best = Some(sum.checked_div(kept).unwrap_or(0));
        }
    }
    u32::try_from(best?).ok().filter(|&ratio| ratio <= 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Maximal free blocks by order, as a buddy system would merge them.
    fn merged(layout: &Layout, at: usize, order: usize, counts: &mut [u64; SMALL_ORDERS]) {
        let size = 1 << order;
        if layout.is_free(at, size) {
            counts[order] += 1;
        } else if !layout.is_used(at, size) {
            merged(layout, at, order - 1, counts);
            merged(layout, at + size / 2, order - 1, counts);
        }
    }

    fn check(wanted: [u64; SMALL_ORDERS], taken: &Map) -> [u64; SMALL_ORDERS] {
        let mut left = wanted;
        let mut layout = Layout::default();
        layout.place(&mut left, taken);
        let mut counts = [0; SMALL_ORDERS];
        assert!(!layout.is_free(0, PAGEBLOCK as usize));
        merged(&layout, 0, SMALL_ORDERS, &mut counts);
        for order in 0..SMALL_ORDERS {
            assert_eq!(counts[order] + left[order], wanted[order], "order {order}");
        }
        assert!(layout.free.iter().zip(taken).all(|(free, taken)| free & taken == 0));
        left
    }

    #[test]
    fn one_of_each_order_leaves_one_frame_in_use() {
        assert_eq!(check([1; SMALL_ORDERS], &Map::default()), [0; SMALL_ORDERS]);
    }

    #[test]
    fn buddies_are_never_both_free() {
        let none = Map::default();
        assert_eq!(check([0, 0, 0, 0, 0, 0, 0, 0, 2], &none), [0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(check([300, 0, 0, 0, 0, 0, 0, 0, 0], &none)[0], 300 - 256);
    }

    #[test]
    fn holes_are_neither_free_nor_present() {
        let mut layout = Layout::default();
        layout.place(&mut [0, 0, 0, 0, 0, 0, 0, 0, 1], &Map::default());
        layout.punch(300, 12);
        assert_eq!(layout.used_runs().collect::<Vec<_>>(), [(256, 256)]);
        assert_eq!(layout.present_runs().collect::<Vec<_>>(), [(0, 300), (312, 200)]);
        assert!(layout.is_present(288, 8) && !layout.is_present(296, 8));
    }

    proptest! {
        #[test]
        fn placed_blocks_are_the_blocks_of_a_buddy_system(
            wanted in prop::array::uniform9(0u64..40),
            taken in prop::array::uniform8(0u64..1 << 20)
        ) {
            check(wanted, &Map::default());
            check(wanted, &taken);
        }
    }

    fn snapshot() -> Snapshot {
        let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.before");
        Snapshot::open(std::path::Path::new(tables)).unwrap()
    }

    #[test]
    fn the_recorded_marks_follow_from_one_reserve() {
        let tuning = recorded(&Tuning::default(), &snapshot());
        // min_free_kbytes of the recorded machine was 67584.
        assert_eq!(tuning.zone.min_free, Auto::Fixed(67_584 / 4));
        assert_eq!(tuning.zone.watermark_scale, 10);
        assert_eq!(tuning.zone.reserve_ratios, [256, 256, 32, 0]);
    }

    #[test]
    fn settings_of_the_user_stay() {
        let mut chosen = Tuning::default();
        chosen.zone.min_free = Auto::Fixed(7);
        chosen.zone.reserve_ratios[0] = 1;
        assert_eq!(recorded(&chosen, &snapshot()).zone, chosen.zone);
    }

    #[test]
    fn other_ratios_and_scales_are_recognised() {
        let mut snapshot = snapshot();
        for zone in &mut snapshot.zones {
            zone.low = zone.min + zone.managed * 250 / 10_000;
            zone.protection.iter_mut().for_each(|kept| *kept *= 4);
        }
        let tuning = recorded(&Tuning::default(), &snapshot);
        assert_eq!(tuning.zone.watermark_scale, 250);
        assert_eq!(tuning.zone.reserve_ratios[..2], [64, 64]);
    }
}
