//! Framewright: a physical-memory manager to embed.
//!
//! The page allocator of a grown-up kernel as a library: a buddy allocator on pageblocks,
//! per-CPU page lists, grouping by mobility, watermarks. No standard library, no heap, no
//! globals: the embedder gives a [`Platform`], a memory map and a buffer for metadata, and gets
//! a [`Memory`] that owns everything else. The same code runs on bare metal, on threads, and
//! in a simulator.
//!
//! ```text
//!  alloc     front door: Request -> Block, fast path, slow path, bulk
//!    |
//!  pcp       per-CPU lists: no lock, no atomic read-modify-write on the hot path
//!    |
//!  zone      nodes, zones, zonelists, watermarks, the zone lock
//!    |
//!  buddy     free frames as one 512-bit map per pageblock; lists of pageblocks
//!    |
//!  types     Pfn, Order, FrameRange, Block, Request
//! ```
//!
//! Above them: [`reclaim`] (which pages can go), [`tlb`] (what CPUs remember of those that went).
//!
//! Between `types` and `buddy`, lowest first: `sync` (every atomic), [`platform`] (the machine), [`observe`]
//! (counters, text), `hardening` (the parts that its two highest levels add), [`tuning`] (every threshold). On top:
//! [`memory`](Memory) (construction). A module names modules below itself only; `.ci/layers` checks this.
//!
//! The feature `scanners`, on by default, is compaction by two scanners as Linux does it, to compare:
//! without it `compact.method` is `index` or `off`, rules of the scanners mean nothing, and some 10 KiB
//! of code are saved. The feature `smallest-first`, on as well, is there to compare too: free blocks are
//! taken in the order that Linux takes them in (`zone.bulk_take`).
//!
//! Lock order, outermost first: the embedder's own locks, the LRU lists of a node, the lists of a
//! CPU, the zone. Nothing of the embedder is called under the latter three, but for the wait hook
//! of these locks themselves.

#![cfg_attr(doctest, doc = include_str!("../../docs/embedding.md"))]
// What only scanners use is spread over what they share with the index.
#![cfg_attr(not(feature = "scanners"), allow(dead_code))]
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, feature = "loom", feature = "tso"))]
extern crate std;

mod alloc;
pub mod buddy;
pub mod compact;
mod hardening;
mod memory;
pub mod migrate;
pub mod observe;
mod pcp;
pub mod platform;
pub mod reclaim;
pub mod sync;
pub mod tlb;
pub mod tuning;
mod types;
mod zone;

pub use alloc::CpuToken;
pub use memory::{
    Config, CpuError, InitError, IsolateError, IsolatedBlock, Layout, Memory, MemoryRange,
    OrderTooSmall, Presence, SideTables, ZoneInfo,
};
pub use platform::Platform;
pub use tuning::Tuning;
pub use types::{
    AllocError, Block, Contiguous, CpuId, Extent, FrameRange, FreeError, HotplugError, MigrateType,
    NodeId, NodeMask, Order, Pfn, RangeError, Request, Shortage, Violation, Watermark, ZoneId,
    ZoneKind,
};

/// Names for physical memory: frame numbers, orders, ranges, and blocks that are owned.
pub mod frame {
    pub use crate::types::{
        Block, Extent, FRAME_SIZE, FrameRange, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn,
    };
}
