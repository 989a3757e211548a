//! Allocators from the package registry.

mod bitmap;
mod buddy_system;
mod frame_alloc;
mod free_list;

pub use bitmap::BitmapAllocator;
pub use buddy_system::BuddySystem;
pub use frame_alloc::{FrameAllocDepot, SummaryBuddy};
pub use free_list::FreeListPeer;
