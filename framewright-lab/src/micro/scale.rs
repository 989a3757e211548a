//! How much is measured.

use std::time::Duration;
use thiserror::Error;

/// 64 MiB: the smallest memory in which every cell finds what it needs.
const MIN_FRAMES: u64 = 1 << 14;
/// 64 GiB: the descriptors of the list design need a GiB for that.
const MAX_FRAMES: u64 = 1 << 24;

/// A memory size that cannot be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{frames} frames cannot be measured: give {MIN_FRAMES} (64 MiB) to {MAX_FRAMES} (64 GiB)")]
pub struct ScaleError {
    frames: u64,
}

/// Sizes of an `alloc-micro` run.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Frames that every allocator manages.
    pub frames: u64,
    /// Frames of the additional row that shows ours on a large machine; 0 leaves it out.
    pub large_frames: u64,
    /// Order-0 frames of a bulk cell, per thread.
    pub bulk: usize,
    /// Order-9 blocks of the bulk cell.
    pub huge: usize,
    /// Frames handed over in the cross-CPU cell.
    pub cross: usize,
    /// Interleaved rounds.
    pub rounds: usize,
    /// How long each thread of a pair cell runs.
    pub pair_time: Duration,
    /// Bulk operations of one cell stop after this time; the figure is that of the operations
    /// made. Only allocators that need microseconds per operation notice.
    pub limit: Duration,
}

impl Scale {
    /// The table as published: 4 GiB of frames, and 256 GiB for the large row.
    #[must_use]
    pub fn full() -> Self {
        Self {
            frames: 1 << 20,
            large_frames: 1 << 26,
            bulk: 1 << 16,
            huge: 1 << 10,
            cross: 1 << 18,
            rounds: 15,
            pair_time: Duration::from_millis(20),
            limit: Duration::from_millis(200),
        }
    }

    /// A first look: a sixteenth of the memory, and few rounds.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            frames: 1 << 18,
            large_frames: 0,
            bulk: 1 << 14,
            huge: 1 << 8,
            cross: 1 << 16,
            rounds: 3,
            pair_time: Duration::from_millis(5),
            limit: Duration::from_millis(50),
        }
    }

    /// The same with another amount of memory; cells take their share of it.
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
            huge: at_most(self.huge, 1024),
            cross: at_most(self.cross, 4),
            ..self
        })
    }

    /// For tests: it has to work, its figures mean nothing.
    #[cfg(test)]
    pub(super) fn tiny() -> Self {
        Self {
            frames: 1 << 14,
            large_frames: 1 << 15,
            bulk: 1 << 10,
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
        let large = full.clone().with_frames(1 << 22).unwrap();
        assert_eq!((large.bulk, large.huge, large.cross), (full.bulk, full.huge, full.cross));
    }

    #[test]
    fn impossible_sizes_are_refused_by_number() {
        for frames in [0, MIN_FRAMES - 1, MAX_FRAMES + 1] {
            let error = Scale::quick().with_frames(frames).unwrap_err().to_string();
            assert!(error.starts_with(&frames.to_string()), "{error}");
        }
    }
}
