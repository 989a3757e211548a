//! The sizes of a CPU's lists, and the choice among historical rules.

/// When a bulk free selects the blocks that it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BulkFree {
    /// While holding the zone lock (the rule since 5.18).
    #[default]
    SelectUnderLock,
    /// Before taking the zone lock (the rule of 4.17).
    SelectBeforeLock,
}

/// The lists from which a bulk free takes its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListTurns {
    /// The list of the last free, and the next one when it is empty (the rule since 5.18).
    #[default]
    OneAfterAnother,
    /// All lists in turn. A list gives as many blocks as lists were passed since the one before it: one, and more
    /// after empty lists (the rule before).
    RoundRobin,
}

/// The free of order 1 to 3 that drains the lists of a CPU that mostly frees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HighOrderDrain {
    /// The second in a row (the rule since 6.7).
    #[default]
    SecondConsecutive,
    /// Each one (the rule before).
    EveryFree,
}

/// The frees after which a free of order 1 to 3 may drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DrainAfter {
    /// Frees of a batch of frames. Each allocation halves their count (the rule since 6.7).
    #[default]
    Batch,
    /// A bulk free because the lists were full. Each allocation halves the count of these (the rule before).
    FullLists,
}

/// Settings, chosen at construction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// When bulk frees select their blocks.
    pub bulk_free: BulkFree,
    /// The lists that they take them from.
    pub list_turns: ListTurns,
    /// Whether a bulk free that selects before the lock also prefetches the descriptors of the
    /// buddies that merging will read (4.17 to 5.17).
    pub prefetch_buddies: bool,
    /// When high-order frees drain.
    pub high_order_drain: HighOrderDrain,
    /// The frees that must precede such a drain.
    pub drain_after: DrainAfter,
    /// Largest power of two by which a batch is scaled, 0 to 6.
    pub batch_scale_max: u8,
    /// Frames per refill or bulk free, before scaling; `None`: computed from the size of the zone.
    pub batch: Option<u32>,
    /// Fixes the limit of a CPU's lists at this number of frames. Kernels before 6.7 fixed it at
    /// six batches. `None`: computed from `high_fraction`.
    pub high: Option<u32>,
    /// `percpu_pagelist_high_fraction`: 0 tunes the size of the lists automatically; 8 or more
    /// fixes the size at that fraction of the zone per CPU.
    pub high_fraction: u32,
    /// `watermark_scale_factor`, in ten-thousandths of the zone.
    pub watermark_scale_factor: u32,
    /// A CPU's share of the last-level cache in frames, if known: more frames stay on lists that
    /// fit into it.
    pub cache_frames: Option<u32>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            bulk_free: BulkFree::default(),
            list_turns: ListTurns::default(),
            prefetch_buddies: true,
            high_order_drain: HighOrderDrain::default(),
            drain_after: DrainAfter::default(),
            batch_scale_max: 5,
            batch: None,
            high: None,
            high_fraction: 0,
            watermark_scale_factor: 10,
            cache_frames: None,
        }
    }
}

/// Numbers computed from settings, memory and CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizing {
    /// Frames per refill or bulk free, before scaling.
    pub batch: u32,
    /// Lower bound of the limit of a CPU's lists, in frames.
    pub high_min: u32,
    /// Upper bound of that limit.
    pub high_max: u32,
}

impl Sizing {
    /// For a zone of `managed` frames used by `cpus` CPUs.
    #[must_use]
    pub fn new(managed: u32, cpus: usize, tuning: &Tuning) -> Self {
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX).max(1);
        let batch = tuning.batch.unwrap_or_else(|| batch(managed));
        if let Some(high) = tuning.high {
            return Self { batch, high_min: high, high_max: high };
        }
        let floor = 4 * batch;
        if tuning.high_fraction >= 8 {
            let high = (managed / tuning.high_fraction / cpus).max(floor);
            return Self { batch, high_min: high, high_max: high };
        }
        let low = low_watermark(managed, tuning.watermark_scale_factor);
        Self { batch, high_min: (low / cpus).max(floor), high_max: (managed / 8 / cpus).max(floor) }
    }
}

/// Frames per batch: a 4096th of the zone, at most a quarter of a MiB, rounded to one less than a
/// power of two. With batches of a power of two, CPUs that refill in turns would each get frames of
/// only some cache colours.
fn batch(managed: u32) -> u32 {
    let quarter = ((managed / 1024).min(256) / 4).max(1);
    ((1 << (quarter + quarter / 2).ilog2()) - 1).max(1)
}

/// The low watermark of a zone that is the whole machine, with huge pages in use.
fn low_watermark(managed: u32, scale: u32) -> u32 {
    let kib = u64::from(managed) * 4;
    let min_free = (kib * 16).isqrt().clamp(128, 262_144) as u32 / 4;
    let huge = (512 * (2 + 9)).min(managed / 20);
    let min = min_free.max(huge);
    let scaled = u64::from(managed) * u64::from(scale) / 10_000;
    min + (min / 4).max(scaled as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 256;

    #[test]
    fn batches_match_the_published_table() {
        for (mib, expected) in
            [(4096, 63), (1024, 63), (512, 31), (256, 15), (128, 7), (64, 3), (32, 1), (1, 1)]
        {
            assert_eq!(batch(mib * MIB), expected, "{mib} MiB");
        }
    }

    #[test]
    fn bounds_follow_watermark_and_memory() {
        let sizing = Sizing::new(4096 * MIB, 2, &Tuning::default());
        assert_eq!(sizing, Sizing { batch: 63, high_min: 7040 / 2, high_max: 65_536 });
        let small = Sizing::new(32 * MIB, 16, &Tuning::default());
        assert_eq!((small.batch, small.high_max), (1, 64));
    }

    #[test]
    fn sizes_of_2018_can_be_asked_for() {
        let tuning = Tuning { batch: Some(31), high: Some(186), ..Tuning::default() };
        let sizing = Sizing::new(4096 * MIB, 2, &tuning);
        assert_eq!(sizing, Sizing { batch: 31, high_min: 186, high_max: 186 });
    }

    #[test]
    fn a_fraction_switches_tuning_off() {
        let tuning = Tuning { high_fraction: 8, ..Tuning::default() };
        let sizing = Sizing::new(1024 * MIB, 4, &tuning);
        assert_eq!((sizing.high_min, sizing.high_max), (8192, 8192));
    }
}
