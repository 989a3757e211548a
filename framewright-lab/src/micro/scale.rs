//! The sizes of a run.

use std::time::Duration;
use thiserror::Error;

/// Name of the metric for the size of metadata.
pub const METADATA: &str = "metadata_bytes_per_frame";

/// Names of the timed metrics, in the order of the table. All are nanoseconds per operation and
/// thread; a *pair* is an allocation and a free. `o9` means order 9, `2t` two threads.
pub const METRICS: [&str; 21] = [
    "pair_o0_1t_ns",
    "pair_o0_2t_ns",
    "bulk_alloc_1t_ns",
    "bulk_free_same_1t_ns",
    "bulk_free_random_1t_ns",
    "half_alloc_1t_ns",
    "half_free_random_1t_ns",
    "bulk_alloc_2t_ns",
    "bulk_free_random_2t_ns",
    "bulk_large_alloc_1t_ns",
    "bulk_large_free_random_1t_ns",
    "bulk_large_alloc_2t_ns",
    "bulk_large_free_random_2t_ns",
    "pair_o9_1t_ns",
    "pair_o9_2t_ns",
    "bulk_o9_alloc_1t_ns",
    "bulk_o9_free_1t_ns",
    "cross_cpu_ns",
    "tight_pool_ns",
    "pressure_alloc_1t_ns",
    "pressure_free_1t_ns",
];

/// A cell of the table: one measurement of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cell {
    /// Allocate a block and free it immediately, repeatedly, in a fresh pool.
    Pair { order: u8, threads: usize },
    /// Allocate many frames in a fresh pool, free them in the same order; allocate them again,
    /// free them in random order.
    Bulk,
    /// Allocate, and free in random order, in a pool of which a random half is allocated.
    Half,
    /// Two threads in parallel allocate many frames each, then free them in random order.
    BulkTwo,
    /// Allocate more frames in a fresh pool than the lists of a CPU may hold, and free them in
    /// random order; on one thread, or on two in parallel.
    BulkLarge { threads: usize },
    /// Allocate many huge blocks, and free them, repeatedly in one pool.
    BulkHuge,
    /// One thread allocates and sends, another frees; per frame.
    Cross,
    /// As `Cross`, in a pool of only 1.25 times the frames in use. Instead of the received frame, a
    /// random one of those in use is freed.
    TightPool,
    /// Free random frames of a pool that is exhausted, and allocate them again.
    Pressure,
}

impl Cell {
    /// All of them.
    pub(super) const ALL: [Self; 13] = [
        Self::Pair { order: 0, threads: 1 },
        Self::Pair { order: 0, threads: 2 },
        Self::Bulk,
        Self::Half,
        Self::BulkTwo,
        Self::BulkLarge { threads: 1 },
        Self::BulkLarge { threads: 2 },
        Self::Pair { order: 9, threads: 1 },
        Self::Pair { order: 9, threads: 2 },
        Self::BulkHuge,
        Self::Cross,
        Self::TightPool,
        Self::Pressure,
    ];

    pub(super) fn needs_two_cpus(self) -> bool {
        match self {
            Self::Pair { threads, .. } | Self::BulkLarge { threads } => threads == 2,
            Self::BulkTwo | Self::Cross | Self::TightPool => true,
            Self::Bulk | Self::Half | Self::BulkHuge | Self::Pressure => false,
        }
    }

    /// The largest order of its requests.
    pub(super) fn order(self) -> u8 {
        match self {
            Self::Pair { order, .. } => order,
            Self::BulkHuge => 9,
            _ => 0,
        }
    }
}

/// 64 MiB: the smallest memory that is enough for every cell.
const MIN_FRAMES: u64 = 1 << 14;
/// 64 GiB: the page descriptors of `list-buddy` then need a GiB.
const MAX_FRAMES: u64 = 1 << 24;

/// A memory size that cannot be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "{frames} frames cannot be measured: choose {MIN_FRAMES} (64 MiB) to {MAX_FRAMES} (64 GiB)"
)]
pub struct ScaleError {
    frames: u64,
}

/// Sizes of an `alloc-micro` run.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Frames that every allocator manages.
    pub frames: u64,
    /// Frames of the additional rows on a large machine; 0 omits these rows.
    pub large_frames: u64,
    /// Order-0 frames of a bulk cell, per thread.
    pub bulk: usize,
    /// Order-0 frames of a large bulk cell, per thread: four times as many as the lists of a CPU
    /// may hold.
    pub bulk_large: usize,
    /// Order-9 blocks of the bulk cell.
    pub huge: usize,
    /// Frames sent in the cross-CPU cell.
    pub cross: usize,
    /// Interleaved rounds.
    pub rounds: usize,
    /// Duration of a pair cell, per thread.
    pub pair_time: Duration,
    /// Bulk operations of one cell stop after this time; the figure is then that of the finished
    /// operations. Only allocators that take microseconds per operation reach the limit.
    pub limit: Duration,
}

impl Scale {
    /// The full table: 4 GiB of frames, and 256 GiB for the rows on a large machine.
    #[must_use]
    pub fn full() -> Self {
        Self {
            frames: 1 << 20,
            large_frames: 1 << 26,
            bulk: 1 << 16,
            bulk_large: 1 << 18,
            huge: 1 << 10,
            cross: 1 << 18,
            rounds: 15,
            pair_time: Duration::from_millis(20),
            limit: Duration::from_millis(100),
        }
    }

    /// A short run: a quarter of the memory, and few rounds.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            frames: 1 << 18,
            large_frames: 0,
            bulk: 1 << 14,
            bulk_large: 1 << 16,
            huge: 1 << 8,
            cross: 1 << 16,
            rounds: 3,
            pair_time: Duration::from_millis(5),
            limit: Duration::from_millis(50),
        }
    }

    /// The end of the labels of the rows on a large machine: `-256g`.
    pub(super) fn large_suffix(&self) -> String {
        format!("-{}g", self.large_frames >> 18)
    }

    /// The same scale with another amount of memory; cells shrink with it.
    ///
    /// # Errors
    ///
    /// If it is less than 64 MiB or more than 64 GiB.
    pub fn with_frames(self, frames: u64) -> Result<Self, ScaleError> {
        if !(MIN_FRAMES..=MAX_FRAMES).contains(&frames) {
            return Err(ScaleError { frames });
        }
        let at_most = |count: usize, share: u64| count.min((frames / share) as usize);
        Ok(Self {
            frames,
            bulk: at_most(self.bulk, 16),
            bulk_large: at_most(self.bulk_large, 4),
            huge: at_most(self.huge, 1024),
            cross: at_most(self.cross, 4),
            ..self
        })
    }

    /// For tests: every cell runs, figures are meaningless.
    #[cfg(test)]
    pub(super) fn tiny() -> Self {
        Self {
            frames: 1 << 14,
            large_frames: 1 << 15,
            bulk: 1 << 10,
            bulk_large: 1 << 12,
            huge: 8,
            cross: 1 << 11,
            rounds: 2,
            pair_time: Duration::from_micros(200),
            limit: Duration::from_millis(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_shrink_with_the_memory_but_do_not_grow() {
        let full = Scale::full();
        let small = full.clone().with_frames(1 << 16).unwrap();
        assert_eq!((small.bulk, small.huge, small.cross), (1 << 12, 1 << 6, 1 << 14));
        assert_eq!(small.bulk_large, 1 << 14);
        let large = full.clone().with_frames(1 << 22).unwrap();
        assert_eq!((large.bulk, large.huge, large.cross), (full.bulk, full.huge, full.cross));
    }

    #[test]
    fn impossible_sizes_are_refused_with_valid_ones() {
        for frames in [0, MIN_FRAMES - 1, MAX_FRAMES + 1] {
            let error = Scale::quick().with_frames(frames).unwrap_err().to_string();
            assert!(error.starts_with(&frames.to_string()), "{error}");
        }
    }
}
