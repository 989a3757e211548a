//! Plain values that all modules use: frames, requests, zone kinds, errors.
//!
//! A *frame* is [`FRAME_SIZE`] bytes of physical memory; a *pageblock* is [`PAGEBLOCK_FRAMES`] of
//! them, the unit in which the allocator records free frames and groups frames by mobility. The
//! module has no state. Every quantity has its own type, so that a frame number cannot be mistaken
//! for a byte address or an order for a count.

mod block;
mod contiguous;
mod cpu;
mod error;
mod event;
mod extent;
mod extfrag;
mod hint;
mod lru;
mod migratetype;
mod order;
mod pfn;
mod range;
mod request;
pub(crate) mod set;
mod topology;
mod watermark;

pub use block::Block;
pub(crate) use block::MemoryTag;
pub use contiguous::Contiguous;
pub use cpu::CpuId;
pub(crate) use error::Refusal;
pub use error::{AllocError, FreeError, HotplugError, RangeError, Shortage, Violation};
pub use event::{
    CompactEvent, Corruption, DeferStep, Event, Finding, FlushReason, Scanner, VmscanEvent,
};
pub use extent::{Extent, SingleFrames};
pub(crate) use extfrag::fragmentation_index;
pub use extfrag::unusable_index;
pub(crate) use hint::cold_path;
pub use lru::{LruList, PageKind};
pub use migratetype::MigrateType;
pub use order::Order;
pub use pfn::Pfn;
pub use range::FrameRange;
pub(crate) use request::FirstZone;
pub use request::Request;
pub(crate) use request::flags;
pub use topology::{NodeId, NodeMask, ZoneId, ZoneKind};
pub use watermark::Watermark;

/// Bytes in one frame (4 KiB).
pub const FRAME_SIZE: usize = 4096;

/// Order of a pageblock: 2^9 frames, 2 MiB, the size of a huge page.
pub const PAGEBLOCK_ORDER: u8 = 9;

/// Frames in one pageblock (512).
pub const PAGEBLOCK_FRAMES: usize = 1 << PAGEBLOCK_ORDER;
