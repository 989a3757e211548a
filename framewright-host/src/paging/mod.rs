//! Pages of files in less memory than they take: the library's reclaim over real memory.
//!
//! # Theory of operation
//!
//! A [`PageCache`] shows every file in a *region*, address space as large as the file: page `n` of the
//! file is at page `n` of the region, or nowhere. The kernel puts memory behind a page when it is
//! touched, and takes it back on request. *Frames* bound the memory in between: a thread reads a page only
//! after it has got a frame from the library's [`Memory`](framewright::Memory). The frame is a number that
//! entitles its owner to one page of memory, so the machine of that memory has no memory of its own ([`Backing::MetadataOnly`](crate::Backing::MetadataOnly)).
//!
//! A thread uses a page through a guard, [`Reading`] or [`Writing`]: one compare-exchange on the word of
//! the page if it is in memory. If it is not, the thread requests a frame. When memory is short it
//! reclaims, or wakes the thread that does, all by the library's rules. The library calls the cache as the
//! owner of pages ([`PageOwner`](framewright::reclaim::PageOwner)), through a private type:
//!
//! | the library | here |
//! |---|---|
//! | locks a page | no thread has fixed it, and none can |
//! | unmaps it | it leaves its file, and goes on a list of the CPU that reclaims |
//! | flushes that CPU | the kernel is told to take back what is on its list, in one call |
//! | frees the frame | there is memory for another page |
//!
//! The kernel frees the memory behind pages, and interrupts every processor that runs a thread of the
//! process to flush the translations. [`FlushBatching`](framewright::tuning::FlushBatching) decides how
//! many pages one such call serves: one (*off*), a batch (*clean-only*; dirty pages are written before they
//! are unmapped, so all pages here are clean), a batch and earlier ones that were too small (*all*), or as
//! many as may be deferred (*lazy*). The frame is free when the kernel has taken the page
//! back, not before.
//!
//! A page that is wanted again while its frame waits in a batch or among the deferred frees is *rescued*: its
//! contents are where they were, and it needs no more than a new frame. So no region ever needs a flush first.
//!
//! # Guarantees and limits
//!
//! * A guard gives access to the requested page. Contents are words that any thread may load and store,
//!   atomically and without order: threads that write to one page must coordinate among themselves.
//! * A store through a guard is part of the next write of the page, or the page is still dirty: a page is
//!   written while it is locked and has no guard. A page that cannot be written (EIO, a full store) stays in memory, dirty, and
//!   says so ([`PageCache::failed`]); when nothing but such pages is left, requests fail.
//! * A kernel makes pages read-only before it writes them, and notices later stores by a fault. In user
//!   space that costs a system call and an interrupt per page; here the guard marks the page dirty. So an
//!   address that is kept beyond its guard is unknown to the cache: loads through it may find zeros, and
//!   stores are lost. Safe code cannot keep one.
//! * No dirty page is dropped silently: the result of a run counts the pages that are still dirty
//!   ([`Ran::unwritten`]).
//! * A cache belongs to the one memory that is made on its machine. Safe code that has that memory or the
//!   [`Pager`] cannot give a page or a frame two owners, even if it changes the LRU lists: each step of
//!   reclaim checks the word of the page first. Such changes can make pages unreclaimable.
//! * A store that panics leaves pages as they were: missing, or dirty. The panic unwinds the caller, or
//!   [`Pager::run`] if reclaim called the store.
//! * The thread that needs a page reads or writes it, and waits. A store with a deep queue needs more
//!   threads.
//!
//! | module      | job                                                            |
//! |-------------|----------------------------------------------------------------|
//! | `page`      | the state of a page: a word                                    |
//! | `region`    | address space that shows a file                                |
//! | `store`     | storage of pages that are not in memory                        |
//! | `cache`     | files, and which page each frame holds                         |
//! | `table`     | tables that take memory only for what is used of them          |
//! | `stats`     | what is counted                                                |
//! | `seat`      | a thread's view: using pages                                   |
//! | `bringing`  | bringing pages in that are missing                             |
//! | `guard`     | pages in use                                                   |
//! | `owner`     | the cache as the owner of pages that the library reclaims      |
//! | `leaving`   | pages that leave, and the flush that releases them             |
//! | `giving`    | the system calls by which the kernel takes pages back          |
//! | `pager`     | the library with a cache: relief, background reclaim           |
//! | `pauses`    | the wait queue of reclaim                                      |
//! | `interrupts`| the kernel's count of TLB interrupts                           |
//! | `error`     | errors                                                         |

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
mod table;
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
