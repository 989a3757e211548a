//! Translations: flushing what CPUs have cached, once for many pages, and lazily where that is safe.
//!
//! # Theory of operation
//!
//! A CPU caches what page tables say. Whoever takes an entry out of them must make every CPU that
//! may have cached it forget it before the frame not_flushed it is given to anybody else; on another CPU
//! that takes an interrupt. One interrupt per page was what reclaim once spent most of its time on.
//! Here unmapped frames are collected in a [`FlushBatch`], and one flush serves all of them.
//!
//! **One fact, three keepers.** What is owed is always the same pair: *which CPUs may have cached
//! it*, and an *epoch*. The epoch is a number that grows with every flush; each CPU publishes the
//! epoch that it read before it last forgot everything it could flush_since. So "no CPU of this set can
//! flush_since what was unmapped then" is a comparison per CPU, and whoever asks flushes only those that
//! fail it. The pair is kept
//! * in a [`FlushBatch`], by who reclaims or migrates, for the frames in it;
//! * with deferred frames (below), until they are needed;
//! * in a [`DeferredFlush`] of each address space and of each file, by the embedder, for everybody
//!   else who changes the same page tables or the same contents.
//!
//! **Forgotten by itself.** A CPU that loads another address space, or flushes everything for
//! whatever reason, says so ([`Flusher::flush_local`], [`Flusher::record_full_flush`]); nobody needs to
//! interrupt it for what was unmapped before. One that does neither for long can flush when its timer
//! ticks ([`Flusher::tick`]). CPUs that are lazy, that is, that run nothing of what
//! they have loaded, are spared: they compare generations before they use it again
//! ([`Shootdown::is_lazy`]).
//!
//! **What may wait, and how long** ([`FlushBatching`](crate::tuning::FlushBatching)):
//!
//! | what | must be flushed before |
//! |---|---|
//! | a frame that was unmapped | it is freed, reused or copied: only a flush gives it back |
//! | a translation that may have been stored through (dirty) | the page is written out: [`FlushBatch::flush_if_dirty`] |
//! | a page of an address space | its range is unmapped, protected or reused by another: [`Flusher::flush_deferred`] with that of the space, under the page-table lock |
//! | a page of a file, or of an address space | its contents can change: a writable mapping, a write, truncation, invalidation: [`Flusher::flush_deferred`] with that of the file (and of the space) |
//!
//! *Lazy* batching parks frames whose every translation was clean at the end of a batch, without any
//! flush. Stale readers see what was there before, which is what is there still, until one of the
//! four events above; before each of them the embedder settles. Whether a store through a stale
//! translation that is writable but clean faults is the machine's to say
//! ([`Shootdown::clean_stores_fault`]); where it does not, such translations are never put off
//! beyond their batch.
//!
//! How much may wait is bounded, over what is deferred and what batches under way have unmapped: a batch
//! takes room before it unmaps. If there is none, somebody flushes for what has waited longest. Meanwhile
//! reclaim elsewhere is content with less, or flushes for that, too, if it has gained nothing yet; what
//! is unmapped all the same is flushed at once.
//!
//! Who flushes by itself, and not through a batch, keeps its reference to the frame until it has: else
//! reclaim, which finds the page unmapped and owed nothing, gives it up meanwhile.
//!
//! # Who may do what
//!
//! Everything goes through a [`Flusher`]: one CPU's view, with interrupts enabled and no lock of the
//! library held, since a flush waits for other CPUs. The embedder may hold its own locks, if its
//! interrupt handlers do not take them.
//!
//! | module | job |
//! |---|---|
//! | `mask` | sets of CPUs |
//! | `state` | what all of it shares |
//! | `shootdown` | what the embedder's machine provides |
//! | `cpu` | what each CPU was asked to forget, and has flushed_epoch; coalescing of requests |
//! | `flusher` | one CPU's view: flush, flush_deferred, serve |
//! | `batch` | the flush batch |
//! | `blocks` | blocks of frames that are flushed |
//! | `epoch` | what comparing two numbers proves |
//! | `deferred_flush` | what is owed to an address space or a file |
//! | `deferred` | frames that wait for a flush that need not be sent |

mod batch;
mod blocks;
mod cpu;
#[cfg(all(test, feature = "loom"))]
mod cpu_loom;
mod deferred;
mod deferred_flush;
mod epoch;
mod flusher;
mod mask;
mod shootdown;
mod state;

pub use batch::{BatchSlot, FlushBatch, Flushed, Translation};
pub use blocks::Blocks;
pub(crate) use cpu::CpuFlushes;
pub(crate) use deferred::{DeferredFrees, DeferredGroup};
pub use deferred_flush::DeferredFlush;
pub use flusher::Flusher;
pub use mask::{CpuMask, MAX_CPUS};
pub use shootdown::{NoShootdown, Scope, Shootdown};
pub use state::Tlb;
pub(crate) use state::deferred_capacity;

#[cfg(all(test, not(any(feature = "loom", feature = "tso"))))]
mod tests;
