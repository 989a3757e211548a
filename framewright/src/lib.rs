//! Framewright: an embeddable physical-memory manager.
//!
//! The page allocator of a production kernel as a library: a buddy allocator on pageblocks,
//! per-CPU page lists, grouping by mobility, watermarks. It uses no standard library, no heap and
//! no globals: the embedder provides a [`Platform`], a memory map and a buffer for metadata, and
//! gets a [`Memory`]. The same code runs on bare metal, on threads, and in a simulator.
//!
//! ```text
//!  alloc     Request -> Block: fast path, slow path, bulk
//!    |
//!  core      state that all layers above share: platform, zones, CPUs with their lists
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
//! Above `core`: [`reclaim`] (page reclaim), [`compact`] and [`migrate`] (compaction and page
//! migration), [`tlb`] (batched TLB flushes).
//!
//! Between `types` and `buddy`, lowest first: `sync` (all atomics), [`platform`] (the machine),
//! [`observe`] (counters, text), `hardening` (the data structures of its two highest levels),
//! [`tuning`] (settings). On top: [`memory`](Memory) (construction, and the embedder's interface),
//! and [`global`] (one memory for a whole kernel, in a `static`).
//! A module uses only modules below itself; `.ci/layers` checks this.
//!
//! # Example
//!
//! A machine with one CPU and 8 MiB of frames without contents. The [guide] continues from here:
//! several CPUs, frames with contents, reclaim, TLB flushes, compaction.
//!
//! ```
//! use std::mem::MaybeUninit;
//!
//! use framewright::{
//!     Config, CpuId, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Platform, Request,
//!     observe::Corruption,
//!     platform::{BarrierTarget, OwnerLock, Probe, Wait},
//!     sync::{PlainWord, SpinFlag},
//! };
//!
//! struct Machine;
//!
//! // SAFETY: the lock is the library's own. There is one CPU, so no barrier has to reach another.
//! unsafe impl Platform for Machine {
//!     type Lock = SpinFlag;
//!     type Word = PlainWord;
//!     type Irq = ();
//!
//!     fn irq_save(&self) {}
//!     fn irq_restore(&self, (): ()) {}
//!     fn owner_lock(&self) -> OwnerLock {
//!         OwnerLock::Biased
//!     }
//!     fn remote_barrier(&self, _: BarrierTarget) {}
//!     fn wait(&self, _: Wait, _: u32) {}
//!     unsafe fn clear(&self, _: Pfn, _: Order) {}
//!     unsafe fn copy(&self, _: Pfn, _: Pfn) {}
//!     fn now(&self) -> u64 {
//!         0
//!     }
//!     fn corruption(&self, report: &Corruption) {
//!         panic!("{report}");
//!     }
//! }
//!
//! impl Probe for Machine {}
//!
//! // 2048 frames from frame 0 on, one CPU, default settings.
//! let map = [FrameRange::new(Pfn::new(0), Pfn::new(2048)).expect("not empty").into()];
//! let config = Config::new(&map, 1);
//! let layout = Layout::new::<Machine>(&config)?;
//! let mut metadata = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
//! let start = metadata.as_ptr().align_offset(layout.align());
//! let memory = Memory::new(Machine, &config, &mut metadata[start..])?;
//!
//! let mut cpu = memory.cpu(CpuId::new(0))?;
//! let block = cpu.alloc(Request::new(Order::ZERO, MigrateType::Movable))?;
//! println!("frame {}", block.pfn().get());
//! cpu.free(block).expect("it is of this memory");
//! drop(cpu);
//! memory.drain_all();
//! assert_eq!(memory.free(), 2048);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Methods for comparison
//!
//! The feature `compare`, off by default, adds alternatives to the default methods, for comparison:
//! compaction by two scanners (`compact.method=scan`, and its settings), allocation of free blocks in
//! Linux's order (`zone.bulk_take`), selection of blocks under the zone lock (`pcp.bulk_free`), refills
//! that free memory does not limit (`pcp.refill_ignores_free`), drains of a whole burst at once
//! (`pcp.high_order_at_once`), a shorter emptying of sparse pageblocks
//! (`zone.any_refill_ends_emptying`), batches that break a huge page for their last frames
//! (`zone.rest_breaks_pageblock`), and a watermark test by order (`zone.watermark_by_order`). Without the
//! feature, [`Tuning::set`] refuses these settings and names the feature.
//!
//! # Locks and callbacks
//!
//! Lock order, outermost first: the embedder's own locks, the hotplug lock, the lists of a CPU, one spin lock of the
//! library. A spin lock protects a zone, the LRU lists of a node, the batch of LRU moves of a CPU, the deferred frees,
//! or (with [`Platform::TRACING`]) the log of a drain; under it no other lock is taken. Inside the lists of a CPU and
//! under spin locks, the library calls no code of the embedder except [`Platform::wait`] for these locks, interrupt
//! masking, and the hooks of a simulator ([`Probe`](platform::Probe)).

// Users copy the examples, so these import no more than they use.
#![doc(test(attr(deny(unused_imports))))]
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, framewright_tso))]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod alloc;
pub mod buddy;
pub mod compact;
mod core;
pub mod global;
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
pub use global::Global;
pub use memory::{
    Config, InitError, IsolateError, IsolatedBlock, Layout, Memory, MemoryRange, OrderTooSmall,
    Presence, SideTables, ZoneInfo,
};
pub use platform::Platform;
pub use tuning::Tuning;
pub use types::{
    AllocError, Block, Contiguous, CpuId, Extent, FrameRange, FreeError, HotplugError, MigrateType,
    NodeId, NodeMask, Order, Pfn, RangeError, Request, Shortage, Violation, Watermark, ZoneId,
    ZoneKind,
};

/// The guide to embedding, step by step. This is `docs/embedding.md` of the source tree, where its links work.
#[cfg(doc)]
#[doc = include_str!("../docs/embedding.md")]
pub mod guide {}

/// Physical memory: frame numbers, orders, ranges, and owned blocks.
pub mod frame {
    pub use crate::types::{
        Block, Extent, FRAME_SIZE, FrameRange, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn,
        SingleFrames,
    };
}
