//! Memory maps and settings from plain numbers.

use framewright::{
    Config, FrameRange, Pfn, Tuning,
    platform::OwnerLock,
    tuning::{Auto, BulkFree, Hardening, HighOrderDrain, OwnerChoice},
};

/// Frames a map may have.
const FRAMES_MAX: u64 = 6 * 512;

/// A memory to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// First frame of the map.
    pub base: u64,
    /// Gap before and length of each range.
    pub ranges: Vec<(u16, u16)>,
    /// Less one.
    pub cpus: u8,
    /// Settings, a bit or a few each.
    pub choices: u32,
}

impl Setup {
    /// The ranges of the map.
    pub fn map(&self) -> Vec<FrameRange> {
        let (mut at, mut left) = (self.base, FRAMES_MAX);
        let mut map = Vec::new();
        for &(gap, length) in &self.ranges {
            let start = at + u64::from(gap % 700).max(1);
            let end = start + (u64::from(length) % 1600).clamp(1, left.max(1));
            if end - start > left {
                break;
            }
            left -= end - start;
            map.extend(FrameRange::new(Pfn::new(start), Pfn::new(end)));
            at = end;
        }
        if map.is_empty() {
            map.extend(FrameRange::new(Pfn::new(self.base), Pfn::new(self.base + 600)));
        }
        map
    }

    pub fn config<'c>(&self, map: &'c [FrameRange]) -> Config<'c> {
        Config { memory: map, cpus: u16::from(self.cpus % 4) + 1, tuning: self.tuning() }
    }

    /// Takes `bits` of the choices from bit `at`.
    fn choice(&self, at: u32, bits: u32) -> usize {
        (self.choices >> at & ((1 << bits) - 1)) as usize
    }

    pub fn owner_lock(&self) -> OwnerLock {
        [OwnerLock::Biased, OwnerLock::Trylock][self.choice(0, 1)]
    }

    pub fn tuning(&self) -> Tuning {
        let mut tuning = Tuning::default();
        tuning.owner_lock = OwnerChoice::Fixed(self.owner_lock());
        tuning.pcp.bulk_free =
            [BulkFree::ChooseBeforeLock, BulkFree::ChooseUnderLock][self.choice(1, 1)];
        tuning.pcp.high_order_drain =
            [HighOrderDrain::SecondConsecutive, HighOrderDrain::EveryFree][self.choice(2, 1)];
        tuning.hardening = [Hardening::Checked, Hardening::Off][self.choice(3, 1)];
        let batches = [Auto::Auto, Auto::Fixed(1), Auto::Fixed(7), Auto::Fixed(63)];
        tuning.pcp.batch = batches[self.choice(4, 2)];
        let reserves = [Auto::Auto, Auto::Fixed(0), Auto::Fixed(50), Auto::Fixed(100_000)];
        tuning.zone.min_free = reserves[self.choice(6, 2)];
        tuning.pcp.high_fraction = [0, 8][self.choice(8, 1)];
        tuning.pcp.bundle_slots = [64, 1024][self.choice(9, 1)];
        tuning.zone.refill_pageblocks = [4, 1][self.choice(10, 1)];
        tuning.pcp.cache_frames = [0, 4096][self.choice(11, 1)];
        tuning.pcp.scale_max = [5, 0][self.choice(12, 1)];
        tuning
    }

    /// The setup that some bytes spell; the rest of them is for the steps.
    pub fn from_bytes(bytes: &[u8]) -> (Self, &[u8]) {
        let mut bytes = bytes.iter();
        let mut next = || u16::from(bytes.next().copied().unwrap_or(0));
        let mut word = || next() << 8 | next();
        let choices = u32::from(word()) << 16 | u32::from(word());
        let base = u64::from(word());
        let counts = word();
        let ranges = (0..1 + counts % 4).map(|_| (word(), word())).collect();
        let setup = Self { base, ranges, cpus: (counts >> 8) as u8, choices };
        (setup, bytes.as_slice())
    }
}
