//! A topology with settings, decoded from a fuzzer's bytes or drawn by a random test.

use framewright::{
    Config, MemoryRange, NodeId, Tuning,
    platform::OwnerLock,
    tuning::{Hardening, OwnerChoice},
};

use super::topology::{RangeSpec, Topology};

/// The varied settings, with their values.
const SETTINGS: &[(&str, &[&str])] = &[
    ("owner_lock", &["biased", "trylock"]),
    (
        "pcp.bulk_free",
        if cfg!(feature = "compare") {
            &["select-before-lock", "select-under-lock"]
        } else {
            &["select-before-lock"]
        },
    ),
    ("pcp.high_order_drain", &["second-consecutive", "every-free"]),
    ("hardening", &["checked", "off"]),
    ("pcp.batch", &["auto", "1", "7", "63"]),
    ("zone.min_free", &["auto", "0", "50", "100000"]),
    ("pcp.high_fraction", &["0", "8"]),
    ("pcp.bundle_slots", &["64", "1024"]),
    ("zone.refill_pageblocks", &["4", "1"]),
    ("pcp.cache_frames", &["0", "4096"]),
    ("pcp.scale_max", &["5", "0"]),
    ("zone.reserve_ratio.dma", &["256", "3"]),
    ("zone.reserve_ratio.dma32", &["256", "9"]),
    ("zone.reserve_ratio.normal", &["32", "0"]),
    ("zone.watermark_scale", &["10", "300"]),
    ("hardening.quarantine", &["256", "0", "1", "20"]),
    ("hardening.poison", &["on", "off"]),
    (
        "zone.bulk_take",
        if cfg!(feature = "compare") {
            &["bulk", "one-by-one", "smallest-first"]
        } else {
            &["bulk"]
        },
    ),
    ("zone.depot_divisor", &["auto", "8", "30", "200"]),
];

/// The description of an allocator: its topology and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub topology: Topology,
    /// Settings, one or a few bits for each.
    pub choices: u32,
}

/// The data that a configuration borrows.
pub struct Parts {
    pub map: Vec<MemoryRange>,
    pub cpu_nodes: Vec<NodeId>,
    pub distances: Vec<u8>,
    pub tuning: Tuning,
}

impl Parts {
    pub fn config(&self) -> Config<'_> {
        Config::new(&self.map, self.cpu_nodes.len() as u16)
            .with_cpu_nodes(&self.cpu_nodes)
            .with_distances(&self.distances)
            .with_tuning(self.tuning)
    }
}

impl Setup {
    /// The bits of the choices that select the highest level of hardening.
    pub const PARANOID: u32 = 3 << 30;
    /// The bits of the choices that select the second highest level of hardening, unless [`Setup::PARANOID`] is set,
    /// too.
    pub const TRACKED: u32 = 3 << 28;

    pub fn parts(&self) -> Parts {
        let (map, cpu_nodes) = (self.topology.map(), self.topology.cpu_nodes());
        let distances = self.topology.table(&map, &cpu_nodes);
        Parts { map, cpu_nodes, distances, tuning: self.tuning() }
    }

    /// The number in `bits` bits of the choices, from bit `at`.
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
            // If a setting has three values, the first is twice as likely as each of the others.
            let bits = values.len().next_power_of_two().ilog2();
            let value = values[self.choice(at, bits) % values.len()];
            tuning.set(path, value).unwrap_or_else(|error| panic!("{error}"));
            at += bits;
        }
        if self.choices & Self::PARANOID == Self::PARANOID {
            tuning.hardening = Hardening::Paranoid;
        } else if self.choices & Self::TRACKED == Self::TRACKED {
            tuning.hardening = Hardening::Tracked;
            tuning.owner_lock = OwnerChoice::Auto;
        }
        tuning
    }

    /// The setup at the start of `bytes`, and the rest of the bytes, for the steps.
    pub fn from_bytes(bytes: &[u8]) -> (Self, &[u8]) {
        let mut bytes = bytes.iter();
        let mut byte = || bytes.next().copied().unwrap_or(0);
        let word = |byte: &mut dyn FnMut() -> u8| u16::from(byte()) << 8 | u16::from(byte());
        let choices = u32::from(word(&mut byte)) << 16 | u32::from(word(&mut byte));
        let base = u64::from(word(&mut byte));
        let (nodes, cpus, distances) = (byte(), byte() % 4 + 1, byte() % 16);
        let cpus = (0..cpus).map(|_| byte()).collect();
        let distances = (0..distances).map(|_| byte()).collect();
        let count = byte() % 12 + 1;
        let range_specs = (0..count).map(|_| RangeSpec {
            gap: word(&mut byte),
            length: word(&mut byte),
            place: byte(),
        });
        let range_specs = range_specs.collect();
        let topology = Topology { base, range_specs, nodes, cpus, distances, unit: 0 };
        (Self { topology, choices }, bytes.as_slice())
    }
}
