//! Files in less memory than their size, with the library's reclaim of real memory.
//!
//! # Theory of operation
//!
//! A [`PageCache`] maps every file into a *region*, address space as large as the file. Page `n` of
//! the file is page `n` of the region, or is not in memory. The host's kernel allocates the memory
//! of a page at the first access, and frees it on request. *Frames* limit that memory: a thread
//! reads a page only after it has allocated a frame from the library's
//! [`Memory`](framewright::Memory). A frame is only a number, which permits its owner to use one
//! page of memory. So the machine of that `Memory` needs no frames with contents
//! ([`Backing::MetadataOnly`](crate::Backing::MetadataOnly)).
//!
//! A thread uses a page through a guard, [`Reading`] or [`Writing`]: if the page is in memory, this
//! is one compare-exchange on its word. Otherwise the thread requests a frame. When memory is
//! short, it enters direct reclaim or wakes background reclaim, by the library's rules. The library
//! calls the cache as the owner of pages ([`PageOwner`](framewright::reclaim::PageOwner)), through
//! a private type:
//!
//! | the library | here |
//! |---|---|
//! | locks a page | no thread has a guard of the page, and none can get one |
//! | unmaps it | the page leaves its file, and is added to a list of the reclaiming CPU |
//! | flushes that CPU | one system call frees the memory of all pages on the list |
//! | frees the frame | another page can get the frame |
//!
//! When the kernel frees memory, it interrupts every processor that runs a thread of the process,
//! to flush the translations. [`FlushBatching`](framewright::tuning::FlushBatching) decides how
//! many pages one such call frees: one (*off*), a batch (*clean-only*), a batch with earlier
//! batches that were too small (*all*), or as many as may be deferred (*lazy*). With *clean-only*,
//! every page can join a batch: dirty pages are written before they are unmapped. A frame becomes
//! free only after the kernel has freed its page.
//!
//! A page that is used again while its frame waits in a batch or among the deferred frees is
//! *rescued*: the contents are still in memory, and the page only needs a new frame. So a page can
//! be used again without a flush.
//!
//! # Guarantees and limits
//!
//! * A guard accesses the requested page. The contents are words. Any thread may load and store them, atomically and
//!   with relaxed order. Threads that write to the same page must synchronise with each other.
//! * After a store through a guard, the page is dirty until it is written with that store: a page
//!   is written while it is locked and has no guard. A page whose write fails (EIO, a full store)
//!   stays in memory and dirty, and is counted ([`PageCache::failed`]). When only such pages are
//!   left, requests fail.
//! * A kernel makes pages read-only before it writes them, and notices later stores by a fault. In
//!   user space, that costs a system call and an interrupt per page. So here the guard marks the
//!   page dirty. The cache does not notice accesses to an address after the guard was dropped:
//!   loads may read zeros, and stores are lost. Safe code cannot use an address longer than its
//!   guard.
//! * No dirty page is dropped silently: the result of a run counts the pages that are still dirty
//!   ([`RunOutcome::unwritten`]).
//! * A cache belongs to one memory, the only one on its machine. Safe code with access to that
//!   memory or to the [`Pager`] can change the LRU lists. Even then no page or frame gets two
//!   owners, because each step of reclaim checks the word of the page first. But pages can become
//!   unreclaimable.
//! * A store that panics leaves pages as they were: missing, or dirty. The panic unwinds the caller, or
//!   [`Pager::run`] if reclaim called the store.
//! * The thread that needs a page reads or writes it synchronously. So a deep device queue needs
//!   many threads.
//!
//! | module      | job                                                            |
//! |-------------|----------------------------------------------------------------|
//! | `page`      | the state word of a page                                    |
//! | `region`    | address space that maps a file                                 |
//! | `store`     | storage of pages that are not in memory                        |
//! | `cache`     | files, and the page in each frame                              |
//! | `table`     | tables with memory only for used entries                  |
//! | `stats`     | counters                                                       |
//! | `pager_cpu` | a CPU of the pager, which uses pages                                |
//! | `page_in`   | reading missing pages into memory                              |
//! | `guard`     | pages in use                                                   |
//! | `owner`     | the cache as the owner of pages that the library reclaims      |
//! | `unmapped`  | unmapped pages, and the flush that frees their memory          |
//! | `eviction`  | the system calls that free the memory of pages                 |
//! | `pager`     | the library with a cache: relief, background reclaim           |
//! | `pauses`    | the wait queue of reclaim                                      |
//! | `interrupts`| the kernel's count of TLB interrupts                           |
//! | `error`     | errors                                                         |

mod cache;
mod error;
mod eviction;
mod guard;
mod interrupts;
mod owner;
mod page;
mod page_in;
mod pager;
mod pager_cpu;
mod pauses;
mod region;
mod stats;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod unmapped;

pub use cache::{FileId, PageCache};
pub use error::PagingError;
pub use eviction::{EvictionMethod, NoVectors};
pub use guard::{Reading, Writing};
pub use interrupts::shootdowns;
pub use pager::{Pager, RunOutcome};
pub use pager_cpu::PagerCpu;
pub use stats::PagingStats;
pub use store::{FileStore, Store};
