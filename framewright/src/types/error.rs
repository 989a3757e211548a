//! Errors of requests and of raw frees.

mod range;
mod violation;

use core::fmt;

use super::{MigrateType, Order, Watermark, ZoneId};

pub use range::{HotplugError, RangeError};
pub use violation::Violation;

/// The reason why an allocation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// Fewer frames would stay free than the request must leave free.
    BelowWatermark(Shortage),
    /// There is enough free memory, but no free block of the order: memory is fragmented.
    NoBlockOfOrder(Shortage),
    /// Requests cannot ask for this type.
    NotRequestable(MigrateType),
    /// None of the zones that the request can use has memory.
    NoZone,
}

/// The shortage that made a request fail, and the number of rounds of reclaim and compaction
/// of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct Shortage {
    /// The zone that explains best why all zones refused: the first zone with enough memory but
    /// without a block, else the last zone tried.
    pub zone: ZoneId,
    /// The requested order.
    pub order: Order,
    /// The watermark that the request was measured against last.
    pub mark: Watermark,
    /// Rounds of reclaim and compaction that the request waited for; 0 if it cannot wait.
    pub rounds: u16,
}

// A result with a block or this error has to fit into two registers.
const _: () = assert!(size_of::<AllocError>() <= 8);

impl AllocError {
    /// The shortage, if there was one.
    #[must_use]
    pub const fn shortage(&self) -> Option<Shortage> {
        match self {
            AllocError::BelowWatermark(shortage) | AllocError::NoBlockOfOrder(shortage) => {
                Some(*shortage)
            }
            _ => None,
        }
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::BelowWatermark(Shortage { order, mark, .. }) => write!(
                f,
                "out of memory: a request of order {order} would go below the {mark} watermark"
            )?,
            AllocError::NoBlockOfOrder(Shortage { order, .. }) => {
                write!(f, "no free block of order {order}: free memory is too fragmented")?;
            }
            AllocError::NotRequestable(of) => {
                write!(f, "requests may not ask for {of} memory")?;
            }
            AllocError::NoZone => f.write_str(
                "no zone has memory that the request could use: see its zone and nodes",
            )?,
        }
        match self.shortage() {
            Some(Shortage { rounds, .. }) if rounds > 0 => {
                let s = if rounds == 1 { "" } else { "s" };
                write!(f, ", after {rounds} round{s} of reclaim and compaction")
            }
            _ => Ok(()),
        }
    }
}

impl core::error::Error for AllocError {}

/// The reason why a raw free or an adoption was refused. A refused call changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FreeError {
    /// The frames do not belong to this memory, or lie in a hole of it.
    NotOurs,
    /// A block of this order cannot start at this frame.
    Misaligned,
    /// Frames of the block are free already.
    AlreadyFree,
    /// No allocated block starts there: the frame is inside a block, or was never allocated.
    NotAllocated,
    /// An allocated block starts there, but it has another order.
    WrongOrder,
}

/// A free that was refused because the map contradicts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Frames of the block are free already.
    AlreadyFree,
    /// No allocated block starts at the frame.
    NotAllocated,
    /// An allocated block starts at the frame, but it has another order.
    WrongOrder,
}

impl From<Refusal> for FreeError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::AlreadyFree => FreeError::AlreadyFree,
            Refusal::NotAllocated => FreeError::NotAllocated,
            Refusal::WrongOrder => FreeError::WrongOrder,
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FreeError::NotOurs => "the frames do not belong to this memory",
            FreeError::Misaligned => "a block of this order cannot start at this frame",
            FreeError::AlreadyFree => "frames of the block are free already",
            FreeError::NotAllocated => "no allocated block starts at this frame",
            FreeError::WrongOrder => "the block at this frame has another order",
        })
    }
}

impl core::error::Error for FreeError {}
