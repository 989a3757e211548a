//! Other frame allocators behind one small trait, to measure Framewright against.
//!
//! Nothing here is part of the product: these are the yardsticks of its benchmarks.
//!
//! * [`ListBuddy`]: the classic kernel design, re-created small and faithfully: a descriptor per
//!   frame, doubly linked free lists, per-page merging under one lock, spinlocked per-CPU lists.
//! * [`FrameAllocDepot`], [`SummaryBuddy`], [`BitmapAllocator`], [`BuddySystem`], [`FreeListPeer`]:
//!   allocators from the package registry, used the way their documentation recommends.
//! * [`Floor`], [`FloorTrylock`]: not allocators but lower bounds; what a per-CPU stack of frames
//!   costs without any lock, and with one atomic try-lock per operation.
//!
//! Every peer manages frame *numbers*; no memory stands behind the frames. All of them go
//! through [`Peer`] and [`Worker`] with static dispatch, so that a harness can put the same
//! never-inlined wrapper around each.

mod bitmap;
mod buddy_system;
mod floor;
mod frame_alloc;
mod free_list;
pub mod list_buddy;
mod peer;

pub use bitmap::BitmapAllocator;
pub use buddy_system::BuddySystem;
pub use floor::{Floor, FloorTrylock};
pub use frame_alloc::{FrameAllocDepot, SummaryBuddy};
pub use free_list::FreeListPeer;
pub use list_buddy::ListBuddy;
pub use peer::{Metadata, Peer, Worker};
