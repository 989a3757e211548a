//! Errors of contiguous memory and of hotplug.

use core::fmt;

use crate::types::{FreeError, MigrateType, PAGEBLOCK_FRAMES, Pfn};

/// The reason why contiguous memory could not be allocated, taken or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RangeError {
    /// The range is empty.
    Empty,
    /// Not all frames of the range are present memory of one zone.
    NotOurs,
    /// Requests cannot ask for this type.
    NotRequestable(MigrateType),
    /// A pageblock of the range is isolated by another caller.
    Isolated {
        /// The first frame of the pageblock.
        at: Pfn,
    },
    /// Frames of the range are in use.
    Busy {
        /// Number of these frames.
        frames: u64,
    },
    /// No run of free frames is long enough, or allocating it would violate a watermark.
    NotFound,
    /// The memory map does not name the range as in use from the start.
    NotInUse,
    /// The range that was in use from the start has an owner already.
    HandedOut,
    /// A raw free was refused.
    BadFree {
        /// The first frame that cannot be freed.
        at: Pfn,
        /// The reason.
        why: FreeError,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Empty => f.write_str("the range has no frames"),
            RangeError::NotOurs => {
                f.write_str("not all frames of the range are present memory of one zone")
            }
            RangeError::NotRequestable(of) => {
                write!(f, "requests may not ask for {of} memory")
            }
            RangeError::Isolated { at } => {
                write!(f, "the pageblock at frame {at} is isolated by another caller")
            }
            RangeError::Busy { frames } => write!(f, "{frames} frames of the range are in use"),
            RangeError::NotFound => {
                f.write_str("no run of free frames above the watermark is long enough")
            }
            RangeError::NotInUse => {
                f.write_str("the memory map does not name this range as in use from the start")
            }
            RangeError::HandedOut => {
                f.write_str("the range that was in use from the start was handed out before")
            }
            RangeError::BadFree { at, why } => write!(f, "frame {at} cannot be freed: {why}"),
        }
    }
}

impl core::error::Error for RangeError {}

/// The reason why memory could not be added or removed. A refused call changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HotplugError {
    /// The range is empty; or it neither consists of whole pageblocks nor lies within a range that is added in pieces.
    NotWhole,
    /// The memory map does not name the whole range as memory of one zone.
    NotInMap,
    /// Part of the memory to add is present already.
    Present {
        /// The first such frame.
        at: Pfn,
    },
    /// Part of the memory to remove is not present.
    Absent {
        /// The first frame of the first pageblock that is not present as a whole.
        at: Pfn,
    },
    /// A pageblock of the memory to remove is isolated by another caller.
    Isolated {
        /// The first frame of the pageblock.
        at: Pfn,
    },
    /// Frames of the memory to remove are in use.
    Busy {
        /// Number of these frames.
        frames: u64,
    },
}

impl fmt::Display for HotplugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HotplugError::NotWhole => {
                write!(
                    f,
                    "the range is empty, or it neither consists of whole pageblocks of {PAGEBLOCK_FRAMES} frames nor lies \
                     within a range that is added in pieces"
                )
            }
            HotplugError::NotInMap => f.write_str("the memory map has no such memory in one zone"),
            HotplugError::Present { at } => {
                write!(f, "the memory at frame {at} is present already")
            }
            HotplugError::Absent { at } => write!(f, "the pageblock at frame {at} is not present"),
            HotplugError::Isolated { at } => {
                write!(f, "the pageblock at frame {at} is isolated by another caller")
            }
            HotplugError::Busy { frames } => write!(f, "{frames} frames of the range are in use"),
        }
    }
}

impl core::error::Error for HotplugError {}
