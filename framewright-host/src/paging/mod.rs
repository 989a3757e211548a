//! Pages of files in less memory than they take: the library's reclaim over real memory.
//!
//! # Theory of operation
//!
//! A [`PageCache`] shows every file in a *region*, address space as large as the file: page `n` of the
//! file is at page `n` of the region, or nowhere. The kernel puts memory behind a page when it is
//! touched, and takes it back when it is told to. What there is in between is bounded by *frames*: a
//! page is read only by who has got a frame from the library's [`Memory`](framewright::Memory). The
//! frame is a number, an entitlement to one page of memory, so the machine of that memory has none of
//! its own ([`Backing::MetadataOnly`](crate::Backing::MetadataOnly)).
//!
//! A thread uses a page through a guard, [`Reading`] or [`Writing`]: one compare-exchange on the word of
//! the page if it is in memory. If it is not, the thread asks for a frame, and when memory is short it
//! reclaims, or wakes the thread that does: everything about that is the library's. The library asks the
//! cache as the owner of pages ([`PageOwner`](framewright::reclaim::PageOwner)), through a private type:
//!
//! | the library | here |
//! |---|---|
//! | locks a page | nobody has fixed it, and nobody can |
//! | unmaps it | it leaves its file, and goes on a list of the CPU that reclaims |
//! | flushes that CPU | the kernel is told to take back what is on its list, in one call |
//! | frees the frame | there is memory for another page |
//!
//! The kernel frees the memory behind pages, and interrupts every processor that runs a thread of the
//! process to make it forget where they were. How many pages one such call serves is what
//! [`FlushBatching`](framewright::tuning::FlushBatching) says: one (*off*), a batch (*clean-only*; what is
//! dirty is written before it is unmapped, so nothing here is), a batch and those that were too small
//! (*all*), or as many as may be deferred (*lazy*). The frame is free when the kernel has taken the page
//! back, not before.
//!
//! A page that is wanted again while its frame waits in a batch or among the deferred frees is *rescued*: its
//! contents are where they were, and it needs no more than a new frame. So no region ever needs a flush first.
//!
//! # What is guaranteed, and what cannot be
//!
//! * Who holds a guard uses the page that it asked for. Contents are words that any thread may load and
//!   store, atomically and without order: threads that write to one page must agree among themselves.
//! * What was stored through a guard is in what is written, or the page is dirty: it is written locked,
//!   when nobody has it. A page that cannot be written (EIO, a full store) stays in memory, dirty, and
//!   says so ([`PageCache::failed`]); when nothing but such pages is left, requests fail.
//! * A kernel makes pages read-only before it writes them, and finds out who stores to them by a fault.
//!   In user space that costs a system call and an interrupt per page; here the guard is what tells. So
//!   nothing is known of who keeps an address beyond its guard: loads through it may find zeros, and
//!   stores are lost. Safe code cannot keep one.
//! * No dirty page is dropped silently: the result of a run counts the pages that are still dirty
//!   ([`Ran::unwritten`]).
//! * A cache belongs to the one memory that is made on its machine. Safe code that has that memory or the
//!   [`Pager`] cannot give a page or a frame two owners, even if it changes the LRU lists: each step of
//!   reclaim checks the word of the page first. Such changes can make pages unreclaimable.
//! * A store that panics leaves pages as they were: missing, or dirty. The panic is that of who called,
//!   or of [`Pager::run`] if it was reclaim.
//! * Pages are read and written by the thread that needs them, and it waits. A store with a deep queue
//!   wants more threads.
//!
//! | module      | job                                                            |
//! |-------------|----------------------------------------------------------------|
//! | `page`      | what is known of a page: a word                                |
//! | `region`    | address space that shows a file                                |
//! | `store`     | where pages come from and go to                                |
//! | `cache`     | files, and which page each frame holds                         |
//! | `stats`     | what is counted                                                |
//! | `seat`      | a thread's view: using pages                                   |
//! | `bringing`  | bringing pages in that are missing                             |
//! | `guard`     | pages in use                                                   |
//! | `owner`     | the cache as the owner of pages that the library reclaims      |
//! | `leaving`   | pages on their way out, and the flush that ends it             |
//! | `giving`    | how the kernel takes pages back: detected, and said            |
//! | `pager`     | the library with a cache: relief, background reclaim           |
//! | `pauses`    | the wait queue of reclaim                                      |
//! | `interrupts`| what the kernel counts                                         |
//! | `error`     | what can go wrong                                              |

mod bringing;
mod cache;
mod error;
mod giving;
mod guard;
mod interrupts;
mod leaving;
mod owner;
mod page;
mod pager;
mod pauses;
mod region;
mod seat;
mod stats;
mod store;
#[cfg(test)]
mod tests;

pub use cache::{FileId, PageCache};
pub use error::PagingError;
pub use giving::{GivingUp, NoVectors};
pub use guard::{Reading, Writing};
pub use interrupts::shootdowns;
pub use pager::{Pager, Ran};
pub use seat::Seat;
pub use stats::PagingStats;
pub use store::{FileStore, Store};
