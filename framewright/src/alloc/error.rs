//! What can happen to a request.

use core::fmt;

use crate::{
    buddy::{MigrateType, Refusal},
    frame::Order,
    zone::Watermark,
};

/// Why an allocation was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// Serving it would leave less than this watermark free.
    BelowWatermark(Watermark),
    /// There is enough free memory, but no free block of this order: it is fragmented.
    NoBlockOfOrder(Order),
    /// Requests may not ask for this type.
    NotRequestable(MigrateType),
    /// No zone with memory is among those that the request can use.
    NoZone,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::BelowWatermark(mark) => {
                write!(f, "out of memory: the request would dip below the {mark} watermark")
            }
            AllocError::NoBlockOfOrder(order) => {
                write!(f, "no free block of order {order}: free memory is too fragmented")
            }
            AllocError::NotRequestable(of) => {
                write!(f, "requests may not ask for {of} memory")
            }
            AllocError::NoZone => {
                f.write_str("no zone has memory that the request could use: see its zone and nodes")
            }
        }
    }
}

impl core::error::Error for AllocError {}

/// Why a raw free or an adoption was refused. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// The frames do not belong to this memory, or lie in a hole of it.
    NotOurs,
    /// A block of this order cannot start at this frame.
    Misaligned,
    /// Frames of it are free already.
    AlreadyFree,
    /// No allocated block starts there: the frame is inside one, or was never handed out.
    NotAllocated,
    /// An allocated block starts there, but it has another order.
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
