//! Framewright: a physical-memory manager to embed.
//!
//! The page allocator of a grown-up kernel as a library: a buddy allocator on pageblocks,
//! per-CPU page lists, grouping by mobility, watermarks. No standard library, no heap, no
//! globals: the embedder gives a [`Platform`], a memory map and a buffer for metadata, and gets
//! a [`Memory`] that owns everything else. The same code runs on bare metal, on threads, and
//! in a simulator.
//!
//! ```text
//!  alloc     Request -> Block: fast path, slow path, bulk
//!    |
//!  core      what all layers above share: machine, zones, CPUs with their lists
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
//! [`memory`](Memory) (construction, and what an embedder calls). A module names modules below itself only; `.ci/layers` checks this.
//!
//! The feature `compare`, off by default, adds methods that are there only to be compared with the ones that
//! are used: compaction by two scanners (`compact.method=scan`), free blocks taken in the order that Linux
//! takes them in (`zone.bulk_take`), and blocks selected under the zone lock (`pcp.bulk_free`). Without it,
//! [`Tuning::set`] refuses these settings and names the feature.
//!
//! Lock order, outermost first: the embedder's own locks, the LRU lists of a node, the lists of a
//! CPU, the zone. Nothing of the embedder is called under the latter three, but for the wait hook
//! of these locks themselves.

#![cfg_attr(doctest, doc = include_str!("../../docs/embedding.md"))]
#![no_std]
#![deny(unsafe_code)]

#[cfg(all(test, framewright_loom))]
extern crate self as framewright;
#[cfg(any(test, framewright_tso))]
extern crate std;

mod alloc;
pub mod buddy;
pub mod compact;
mod core;
mod hardening;
#[cfg(all(test, framewright_loom))]
mod lock_free_loom;
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

pub use crate::core::CpuError;
pub use alloc::CpuToken;
pub use memory::{
    Config, InitError, IsolateError, IsolatedBlock, Layout, Memory, MemoryRange, OrderTooSmall,
    Planes, Presence, ZoneInfo,
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
