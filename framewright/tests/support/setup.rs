//! Memory maps and settings from plain numbers.

use framewright::{
    Config, FrameRange, MemoryRange, Pfn, Tuning, platform::OwnerLock, tuning::Hardening,
};

/// Frames a map may have.
const FRAMES_MAX: u64 = 6 * 512;

/// Settings that are tried, each with 2^n values.
const SETTINGS: &[(&str, &[&str])] = &[
    ("owner_lock", &["biased", "trylock"]),
    ("pcp.bulk_free", &["choose-before-lock", "choose-under-lock"]),
    ("pcp.high_order_drain", &["second-consecutive", "every-free"]),
    ("hardening", &["checked", "off"]),
    ("pcp.batch", &["auto", "1", "7", "63"]),
    ("zone.min_free", &["auto", "0", "50", "100000"]),
    ("pcp.high_fraction", &["0", "8"]),
    ("pcp.bundle_slots", &["64", "1024"]),
    ("zone.refill_pageblocks", &["4", "1"]),
    ("pcp.cache_frames", &["0", "4096"]),
    ("pcp.scale_max", &["5", "0"]),
    ("hardening.quarantine", &["256", "0", "1", "20"]),
    ("hardening.poison", &["on", "off"]),
];

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
    /// Choices of a setup at the highest level of hardening. They are the last ones, so that
    /// the numbers of older setups keep their meaning.
    pub const PARANOID: u32 = 3 << 30;

    /// The ranges of the map.
    pub fn map(&self) -> Vec<MemoryRange> {
        let (mut at, mut left) = (self.base, FRAMES_MAX);
        let mut map = Vec::new();
        for &(gap, length) in &self.ranges {
            let start = at + u64::from(gap % 700);
            let end = start + (u64::from(length) % 1600).clamp(1, left.max(1));
            if end - start > left {
                break;
            }
            left -= end - start;
            map.extend(FrameRange::new(Pfn::new(start), Pfn::new(end)).map(MemoryRange::from));
            at = end;
        }
        if map.is_empty() {
            map.extend(
                FrameRange::new(Pfn::new(self.base), Pfn::new(self.base + 600))
                    .map(MemoryRange::from),
            );
        }
        map
    }

    pub fn config<'c>(&self, map: &'c [MemoryRange]) -> Config<'c> {
        Config { tuning: self.tuning(), ..Config::new(map, u16::from(self.cpus % 4) + 1) }
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
        let mut at = 0;
        for (path, values) in SETTINGS {
            let bits = values.len().ilog2();
            let value = values[self.choice(at, bits)];
            tuning.set(path, value).unwrap_or_else(|error| panic!("{error}"));
            at += bits;
        }
        if self.choices & Self::PARANOID == Self::PARANOID {
            tuning.hardening = Hardening::Paranoid;
        }
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
