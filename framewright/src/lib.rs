//! Framewright: a physical-memory manager to embed.
//!
//! The page allocator of a production kernel as a library: a buddy allocator on pageblocks,
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
//! # Example
//!
//! A machine with one CPU and 8 MiB of frames that nothing reads. The guide, `docs/embedding.md` in the source tree, goes on
//! from here: several CPUs, frames with contents, reclaim, flushes of translations, compaction.
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
//!     fn clear(&self, _: Pfn, _: Order) {}
//!     fn copy(&self, _: Pfn, _: Pfn) {}
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
//! # What is only there to compare
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
    Presence, SideTables, ZoneInfo,
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
