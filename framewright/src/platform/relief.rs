//! Relief: what an embedder can do when memory runs short.
//!
//! The allocator's slow path asks in this order: wake the background reclaimer, compact,
//! reclaim. The defaults do nothing, so that an embedder without reclaim writes nothing. All
//! methods are called without any lock of the library and may allocate and free on other CPU
//! tokens.

use crate::frame::Order;

/// What an attempt at relief achieved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing, and trying again is pointless for now.
    None,
    /// Something was freed or moved; a retry is worth while.
    Some,
}

/// Reclaim and compaction as the allocator sees them.
pub trait Relief {
    /// A request met the low watermark: wake whoever reclaims in the background. Must not wait.
    fn wake(&self, order: Order) {
        let _ = order;
    }

    /// Frees about `frames` frames now. Only for requests that may wait.
    fn reclaim(&self, order: Order, frames: u64) -> Progress {
        let _ = (order, frames);
        Progress::None
    }

    /// Moves frames so that a block of `order` forms. Only for requests that may wait.
    fn compact(&self, order: Order) -> Progress {
        let _ = order;
        Progress::None
    }
}

/// No relief: every attempt reports no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRelief;

impl Relief for NoRelief {}
