//! TLB flushes: one flush for many pages, and deferred flushes where a stale read does no harm.
//!
//! # Theory of operation
//!
//! A CPU caches page-table entries in its TLB. When an entry is removed from a page table, each CPU
//! that may have cached it must invalidate it before the frame gets another owner. On another CPU,
//! this requires an interrupt. One interrupt per page would be most of the cost of reclaim. So a
//! [`FlushBatch`] collects unmapped frames, and one flush serves all of them.
//!
//! **One pair, in three places.** The same pair describes every pending flush: *the CPUs that may
//! have cached the entries*, and an *epoch*, a number that grows with every flush. Each CPU
//! publishes the epoch that it read before its last full flush. If this epoch is older than that of
//! a pending flush, the CPU may still have stale entries. One comparison per CPU therefore tells
//! which CPUs must be flushed. The pair is part of
//! * a [`FlushBatch`] of reclaim or migration, for the frames in it;
//! * deferred frames (below), until these frames are needed;
//! * a [`DeferredFlush`] of each address space and of each file, which the embedder owns, for all
//!   other code that changes the same page tables or the same contents.
//!
//! **Flushes that happen anyway.** A CPU that loads another address space, or flushes everything
//! for another reason, reports it ([`Flusher::flush_local`], [`Flusher::record_full_flush`]). Then
//! no CPU has to interrupt it for entries that were removed before. A CPU that does neither for a
//! long time can flush in its timer tick ([`Flusher::tick`]). *Lazy* CPUs use no entries of the
//! address space that they have loaded. They are not interrupted, because they compare generations
//! before they use that address space again ([`Shootdown::is_lazy`]).
//!
//! **Flushes that may be deferred** ([`FlushBatching`](crate::tuning::FlushBatching)):
//!
//! | a flush for | must be made before |
//! |---|---|
//! | a frame that was unmapped | it is freed, reused or copied: the batch returns it only after the flush |
//! | a translation that may have been stored through (dirty) | the page is written out: [`FlushBatch::flush_if_dirty`] |
//! | a page of an address space | its range is unmapped, protected or reused for another mapping: [`Flusher::flush_deferred`] with the [`DeferredFlush`] of the address space, under the page-table lock |
//! | a page of a file, or of an address space | its contents can change: a writable mapping, a write, truncation, invalidation: [`Flusher::flush_deferred`] with the [`DeferredFlush`] of the file (and of the space) |
//!
//! *Lazy* batching defers the free of frames whose translations were all clean at the end of a
//! batch, and does not flush for them. Stale readers see the old contents, which stay in the frame
//! until one of the four events above. Before each of these events, the pending flush is performed.
//! The machine tells whether a store through a stale, writable, clean translation faults
//! ([`Shootdown::clean_stores_fault`]). If such a store does not fault, these translations are
//! flushed with their batch at the latest.
//!
//! With lazy batching, the number of unflushed frames is bounded: deferred frames, and frames that
//! batches in progress have unmapped. A batch reserves frames within this bound before it unmaps.
//! If none are left, one CPU flushes for the oldest deferred frames. Meanwhile reclaim on other
//! CPUs continues with a smaller reservation. Without any, it leaves the mapped pages of a cluster
//! for later, or also flushes if it has released no page of the cluster yet. A page that is unmapped
//! without a reservation is flushed at once.
//!
//! Code that flushes without a batch must keep its reference to the frame until the flush is done.
//! Otherwise reclaim finds the page unmapped with no flush pending, and frees the frame too early.
//!
//! # Callers and modules
//!
//! All operations are methods of a [`Flusher`], which belongs to one CPU. The caller has interrupts
//! enabled and holds no lock of the library, because a flush waits for other CPUs. The embedder may
//! hold locks of its own if its interrupt handlers do not take them.
//!
//! | module | job |
//! |---|---|
//! | `mask` | sets of CPUs |
//! | `state` | state that all CPUs share |
//! | `shootdown` | the trait that the embedder's machine implements |
//! | `cpu` | the flush requests to each CPU, which can be joined, and its last full flush |
//! | `flusher` | the flushes of one CPU, pending flushes, and serving requests |
//! | `batch` | the flush batch |
//! | `unmapping` | the view of a batch through which owners of pages add translations |
//! | `blocks` | flushed frames as blocks |
//! | `epoch` | the epoch, and the proof that a comparison of two numbers suffices |
//! | `deferred_flush` | the pending flush of an address space or a file |
//! | `deferred`, `drain` | frames whose free is deferred until CPUs have flushed |

mod batch;
mod blocks;
mod cpu;
#[cfg(all(test, framewright_loom))]
mod cpu_loom;
mod deferred;
mod deferred_flush;
mod drain;
mod epoch;
mod flusher;
mod mask;
mod shootdown;
mod state;
mod unmapping;

pub use batch::{BatchSlot, FlushBatch, Flushed, Translation};
pub use blocks::Blocks;
pub(crate) use cpu::CpuFlushes;
pub(crate) use deferred::DeferredFrees;
pub use deferred_flush::DeferredFlush;
pub use flusher::Flusher;
pub use mask::{CpuMask, MAX_CPUS};
pub use shootdown::{NoShootdown, Scope, Shootdown};
pub use state::Tlb;
pub(crate) use state::deferred_capacity;
pub use unmapping::Unmapping;

#[cfg(all(test, not(any(framewright_loom, framewright_tso))))]
mod tests;
