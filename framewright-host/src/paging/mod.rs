//! Files in less memory than their size: the library's reclaim over real memory.
//!
//! # Theory of operation
//!
//! A [`PageCache`] maps every file into a *region*, address space as large as the file. Page `n` of
//! the file is at page `n` of the region, or not in memory. The kernel provides memory for a page
//! when it is touched, and frees it on request. *Frames* limit that memory: a thread reads a page
//! only after it has allocated a frame from the library's [`Memory`](framewright::Memory). The
//! frame is a number that entitles its owner to one page of memory, so the machine of that memory
//! has no memory itself ([`Backing::MetadataOnly`](crate::Backing::MetadataOnly)).
//!
//! A thread uses a page through a guard, [`Reading`] or [`Writing`]: one compare-exchange on the
//! word of the page if it is in memory. Otherwise the thread requests a frame. When memory is
//! short, it enters direct reclaim or wakes background reclaim, by the library's rules. The library
//! calls the cache as the owner of pages ([`PageOwner`](framewright::reclaim::PageOwner)), through
//! a private type:
//!
//! | the library | here |
//! |---|---|
//! | locks a page | no thread has a guard of it, and none can get one |
//! | unmaps it | it is removed from its file, and put on a list of the CPU that reclaims |
//! | flushes that CPU | one system call frees the memory of the pages on its list |
//! | frees the frame | another page can get it |
//!
//! The kernel frees the memory of pages, and interrupts every processor that runs a thread of the
//! process to flush the translations. [`FlushBatching`](framewright::tuning::FlushBatching) decides
//! how many pages one such call frees: one (*off*), a batch (*clean-only*; dirty pages are written
//! before they are unmapped, so all pages here are clean), a batch with earlier ones that were too
//! small (*all*), or as many as may be deferred (*lazy*). A frame is free after the kernel has
//! freed its page, not before.
//!
//! A page that is used again while its frame waits in a batch or among the deferred frees is
//! *rescued*: its contents are still there, and it only needs a new frame. So no region ever needs
//! a flush first.
//!
//! # Guarantees and limits
//!
//! * A guard gives access to the requested page. Contents are words that any thread may load and store,
//!   atomically and without order: threads that write to one page must coordinate among themselves.
//! * A store through a guard is part of the next write of the page, or the page is still dirty: a
//!   page is written while it is locked and has no guard. A page whose write fails (EIO, a full
//!   store) stays in memory and dirty, and is counted ([`PageCache::failed`]). When only such pages
//!   are left, requests fail.
//! * A kernel makes pages read-only before it writes them, and notices later stores by a fault. In
//!   user space that costs a system call and an interrupt per page; here the guard marks the page
//!   dirty. So the cache does not know of accesses to an address after its guard was dropped: loads
//!   may find zeros, and stores are lost. Safe code cannot keep such an address.
//! * No dirty page is dropped silently: the result of a run counts the pages that are still dirty
//!   ([`RunOutcome::unwritten`]).
//! * A cache belongs to the one memory that is made on its machine. Safe code that has that memory or the
//!   [`Pager`] cannot give a page or a frame two owners, even if it changes the LRU lists: each step of
//!   reclaim checks the word of the page first. Such changes can make pages unreclaimable.
//! * A store that panics leaves pages as they were: missing, or dirty. The panic unwinds the caller, or
//!   [`Pager::run`] if reclaim called the store.
//! * The thread that needs a page reads or writes it, and waits. So a store with a deep queue needs
//!   more threads.
//!
//! | module      | job                                                            |
//! |-------------|----------------------------------------------------------------|
//! | `page`      | the state of a page: a word                                    |
//! | `region`    | address space that maps a file                                 |
//! | `store`     | storage of pages that are not in memory                        |
//! | `cache`     | files, and the page in each frame                              |
//! | `table`     | tables that take memory only for used entries                  |
//! | `stats`     | counters                                                       |
//! | `pager_cpu` | a CPU of the pager: using pages                                |
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
