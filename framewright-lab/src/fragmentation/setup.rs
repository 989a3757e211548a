//! The parameters of both experiments.

use framewright::{InitError, frame::PAGEBLOCK_FRAMES};
use framewright_peers::list_buddy::MigrateType;
use thiserror::Error;

use super::{
    contender::{Contender, MOST_CPUS},
    cpu::HUGE,
};

/// 64 MiB: less has too few pageblocks to say anything.
const LEAST: u64 = 1 << 14;
/// 64 GiB: the descriptors of the list design need a GiB for that.
const MOST: u64 = 1 << 24;
/// 16 MiB: with less, frames on lists of CPUs are what is measured.
const LEAST_PER_THREAD: u64 = 1 << 12;

/// The parameters of both experiments.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Frames that every allocator manages: whole pageblocks.
    pub frames: u64,
    /// Threads, each a CPU with an equal share of the memory and of the work.
    pub threads: u16,
    /// Migratetypes of the blocks.
    pub types: Types,
    /// The CPU that frees a block.
    pub free_by: FreeBy,
    /// The allocators.
    pub contenders: Vec<Contender>,
    /// Shares of memory in percent: in use for `churn`, free for `replace`.
    pub shares: Vec<u8>,
    /// Seeds; figures are medians over them.
    pub seeds: Vec<u64>,
}

/// Migratetypes of the blocks. Huge pages are movable in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Types {
    /// Movable contents.
    Movable,
    /// 5 % are unmovable, 15 % reclaimable, the others movable.
    Mixed,
}

/// The CPU that frees a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeBy {
    /// The CPU that allocated it.
    Itself,
    /// Another CPU: the next thread, or for a single thread a second CPU for which it acts.
    Other,
}

/// A run that cannot be done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SetupError {
    /// Too little or too much memory.
    #[error("{} MiB cannot be measured: give {} MiB to {} GiB", frames >> 8, LEAST >> 8, MOST >> 18)]
    Memory {
        /// Frames asked for.
        frames: u64,
    },
    /// No threads, or too many.
    #[error("{threads} threads with {} MiB: give 1 to {most} threads", frames >> 8)]
    Threads {
        /// Threads asked for.
        threads: u16,
        /// Frames of all.
        frames: u64,
        /// Threads that would do.
        most: u64,
    },
    /// A share that is none.
    #[error("{share} % of memory cannot be measured: give 1 to 99")]
    Share {
        /// The share asked for.
        share: u8,
    },
    /// A share is named twice.
    #[error("{share} % is named twice")]
    Twice {
        /// The share.
        share: u8,
    },
    /// Fewer frames in use than a few of the largest blocks have.
    #[error("{share} % in use are {frames} frames for each thread: it takes at least {least}")]
    TooFew {
        /// The share asked for.
        share: u8,
        /// Frames that a thread would have in use.
        frames: u64,
        /// Frames that would do.
        least: u64,
    },
    /// The library refuses the settings.
    #[error("{label}: {error}")]
    Tuning {
        /// The contender with these settings.
        label: String,
        /// The library's words.
        error: InitError,
    },
}

impl Setup {
    /// Frames of each thread.
    pub(super) fn frames_per_thread(&self) -> u64 {
        self.frames / u64::from(self.threads)
    }

    /// Huge pages that the free frames would make if they were together.
    pub(super) fn ideal(&self, used: u64) -> u64 {
        (self.frames - used) >> HUGE
    }

    /// Checks the parameters.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        let (frames, threads) = (self.frames, self.threads);
        if !(LEAST..=MOST).contains(&frames) || !frames.is_multiple_of(PAGEBLOCK_FRAMES as u64) {
            return Err(SetupError::Memory { frames });
        }
        let most = (frames / LEAST_PER_THREAD).min(MOST_CPUS.into());
        if !(1..=most).contains(&threads.into()) {
            return Err(SetupError::Threads { threads, frames, most });
        }
        for (index, &share) in self.shares.iter().enumerate() {
            if !(1..=99).contains(&share) {
                return Err(SetupError::Share { share });
            }
            if self.shares[..index].contains(&share) {
                return Err(SetupError::Twice { share });
            }
        }
        self.contenders.iter().try_for_each(|contender| {
            contender
                .check(self)
                .map_err(|error| SetupError::Tuning { label: contender.label.clone(), error })
        })
    }
}

impl Types {
    /// The migratetype of a block of this order.
    pub(super) fn draw(self, order: u8, random: &mut fastrand::Rng) -> MigrateType {
        if self == Types::Movable || order == HUGE {
            return MigrateType::Movable;
        }
        match random.u8(..100) {
            0..5 => MigrateType::Unmovable,
            5..20 => MigrateType::Reclaimable,
            _ => MigrateType::Movable,
        }
    }
}
