//! What an embedder says about its machine, and what can be wrong with that.

use core::fmt;

use super::Planes;
use crate::{
    frame::{FrameRange, Pfn},
    tuning::Tuning,
};

/// What a memory is made from.
#[derive(Clone, Copy, Debug)]
pub struct Config<'c> {
    /// The frames to manage: ascending, not overlapping, not empty. Gaps are holes.
    pub memory: &'c [FrameRange],
    /// CPUs that may ever use it.
    pub cpus: u16,
    /// Settings.
    pub tuning: Tuning,
    /// Arrays per frame that the embedder wants beside what the allocator needs.
    pub planes: Planes,
}

impl<'c> Config<'c> {
    /// `memory` on `cpus` CPUs with default settings.
    #[must_use]
    pub fn new(memory: &'c [FrameRange], cpus: u16) -> Self {
        Self { memory, cpus, tuning: Tuning::default(), planes: Planes::default() }
    }

    /// Frames to manage.
    pub(super) fn managed(&self) -> u64 {
        self.memory.iter().map(|range| range.frames()).sum()
    }

    pub(super) fn validate(&self) -> Result<(), InitError> {
        if let Some(key) = self.tuning.first_invalid() {
            return Err(InitError::BadTuning { path: key.path, range: key.range });
        }
        if self.cpus == 0 {
            return Err(InitError::NoCpus);
        }
        if self.memory.is_empty() {
            return Err(InitError::NoMemory);
        }
        for (index, range) in self.memory.iter().enumerate() {
            if range.frames() == 0 {
                return Err(InitError::EmptyRange { index });
            }
            if range.end() > Pfn::MAX {
                return Err(InitError::AddressTooHigh { index });
            }
            let Some(before) = index.checked_sub(1).map(|before| self.memory[before]) else {
                continue;
            };
            if range.start() < before.start() {
                return Err(InitError::Unsorted { index });
            }
            if range.start() < before.end() {
                return Err(InitError::Overlapping { index });
            }
        }
        Ok(())
    }
}

/// Why a memory could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitError {
    /// A memory needs a CPU.
    NoCpus,
    /// A setting has a value that it does not take.
    BadTuning {
        /// Its path.
        path: &'static str,
        /// What it takes.
        range: &'static str,
    },
    /// The memory map is empty.
    NoMemory,
    /// A range of the memory map is empty.
    EmptyRange {
        /// Its index.
        index: usize,
    },
    /// A range of the memory map starts below the one before.
    Unsorted {
        /// Its index.
        index: usize,
    },
    /// A range of the memory map overlaps the one before.
    Overlapping {
        /// Its index.
        index: usize,
    },
    /// A range of the memory map reaches beyond [`Pfn::MAX`].
    AddressTooHigh {
        /// Its index.
        index: usize,
    },
    /// The settings ask for the biased owner lock, which needs remote barriers; the machine has
    /// none.
    NoRemoteBarrier,
    /// First and last frame are further apart than a zone can span (16 TiB).
    SpanTooLarge,
    /// The buffer for metadata is too small.
    MetadataTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The buffer for metadata does not start at a multiple of this.
    MetadataMisaligned {
        /// Alignment needed, in bytes.
        align: usize,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitError::NoCpus => f.write_str("a memory needs at least one CPU"),
            InitError::BadTuning { path, range } => {
                write!(f, "the setting '{path}' has a value it does not take: it takes {range}")
            }
            InitError::NoMemory => f.write_str("the memory map is empty"),
            InitError::EmptyRange { index } => {
                write!(f, "range {index} of the memory map is empty")
            }
            InitError::Unsorted { index } => {
                write!(f, "range {index} of the memory map starts below range {}", index - 1)
            }
            InitError::Overlapping { index } => {
                write!(f, "range {index} of the memory map overlaps range {}", index - 1)
            }
            InitError::AddressTooHigh { index } => {
                write!(f, "range {index} of the memory map reaches beyond {}", Pfn::MAX)
            }
            InitError::NoRemoteBarrier => f.write_str(
                "owner_lock=biased needs remote barriers, which this machine does not have; \
                 use owner_lock=trylock",
            ),
            InitError::SpanTooLarge => f.write_str("the memory map spans more than 16 TiB"),
            InitError::MetadataTooSmall { needed, given } => {
                write!(f, "the metadata buffer has {given} bytes; {needed} are needed")
            }
            InitError::MetadataMisaligned { align } => {
                write!(f, "the metadata buffer must start at a multiple of {align} bytes")
            }
        }
    }
}

impl core::error::Error for InitError {}
