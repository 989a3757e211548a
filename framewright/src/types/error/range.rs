//! Why ranges of frames could not be had, added or removed.

use core::fmt;

use crate::types::{MigrateType, PAGEBLOCK_FRAMES, Pfn};

/// Why contiguous memory could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RangeError {
    /// The range is empty.
    Empty,
    /// Not all of it is memory of one zone that is present.
    NotOurs,
    /// Requests may not ask for this type.
    NotRequestable(MigrateType),
    /// Somebody withholds a pageblock of it.
    Isolated {
        /// Its first frame.
        at: Pfn,
    },
    /// Frames of it are in use.
    Busy {
        /// How many.
        frames: u64,
    },
    /// No run of free frames is long enough.
    NotFound,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Empty => f.write_str("the range has no frames"),
            RangeError::NotOurs => {
                f.write_str("the range is not memory of one zone that is present as a whole")
            }
            RangeError::NotRequestable(of) => {
                write!(f, "requests may not ask for {of} memory")
            }
            RangeError::Isolated { at } => {
                write!(f, "the pageblock at frame {at} is isolated by somebody else")
            }
            RangeError::Busy { frames } => write!(f, "{frames} frames of the range are in use"),
            RangeError::NotFound => f.write_str("no run of free frames is long enough"),
        }
    }
}

impl core::error::Error for RangeError {}

/// Why memory could not be added or removed. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HotplugError {
    /// The range does not consist of whole pageblocks, or is empty.
    NotWhole,
    /// The memory map has no such memory in one zone.
    NotInMap,
    /// Part of what shall be added is there already.
    Present {
        /// The first frame of the first such pageblock.
        at: Pfn,
    },
    /// Part of what shall be removed is not there.
    Absent {
        /// The first frame of the first such pageblock.
        at: Pfn,
    },
    /// Somebody withholds a pageblock of what shall be removed.
    Isolated {
        /// Its first frame.
        at: Pfn,
    },
    /// Frames of what shall be removed are in use.
    Busy {
        /// How many.
        frames: u64,
    },
}

impl fmt::Display for HotplugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HotplugError::NotWhole => {
                write!(f, "the range is not made of whole pageblocks of {PAGEBLOCK_FRAMES} frames")
            }
            HotplugError::NotInMap => f.write_str("the memory map has no such memory in one zone"),
            HotplugError::Present { at } => {
                write!(f, "the pageblock at frame {at} is there already")
            }
            HotplugError::Absent { at } => write!(f, "the pageblock at frame {at} is not there"),
            HotplugError::Isolated { at } => {
                write!(f, "the pageblock at frame {at} is isolated by somebody else")
            }
            HotplugError::Busy { frames } => write!(f, "{frames} frames of the range are in use"),
        }
    }
}

impl core::error::Error for HotplugError {}
