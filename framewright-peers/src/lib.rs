//! Other frame allocators behind one small trait, for comparison with Framewright.
//!
//! Only the experiments in `framewright-lab` use this crate.
//!
//! * [`ListBuddy`]: the classic kernel design, rebuilt small: a descriptor per frame, doubly linked
//!   free lists, merging page by page under one lock, spinlocked per-CPU lists.
//! * [`FrameAllocDepot`], [`SummaryBuddy`], [`BitmapAllocator`], [`BuddySystem`], [`FreeListPeer`]:
//!   allocators from the package registry, used as their documentation recommends. They are the feature `registry`, a
//!   default.
//! * [`Floor`], [`FloorTrylock`]: not allocators, but lower bounds: the cost of a per-CPU stack of
//!   frames without a lock, and with one atomic try-lock per operation.
//!
//! Every peer manages frame *numbers*; there is no memory behind the frames. All of them implement
//! [`Peer`] and [`Worker`] with static dispatch: a benchmark can put the same never-inlined wrapper
//! around each.

mod floor;
pub mod list_buddy;
mod peer;
#[cfg(feature = "registry")]
mod registry;

pub use floor::{Floor, FloorTrylock};
pub use list_buddy::ListBuddy;
pub use peer::{Metadata, Peer, Worker};
#[cfg(feature = "registry")]
pub use registry::{BitmapAllocator, BuddySystem, FrameAllocDepot, FreeListPeer, SummaryBuddy};
