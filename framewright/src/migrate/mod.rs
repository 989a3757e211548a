//! Migration: giving pages other frames, many at a time, with one flush for all of them.
//!
//! # Theory of operation
//!
//! The library knows frames, the embedder knows what is in them and who maps it. So a page moves in
//! steps that alternate between the two; every step is over a slice of [`Move`]s:
//!
//! ```text
//!  embedder   claim      unmap ─► batch            remap or undo            release
//!  library          place              flush, copy              free source
//!             Claimed    Ready   Unmapped        Copied       Moved
//! ```
//!
//! 1. **Claim**: the embedder says which of some frames hold pages that may move, and sees to it that
//!    nobody else claims them. The frames stay the embedder's.
//! 2. **Place**: the library finds frames to move to.
//! 3. **Unmap**: the embedder locks the page and its new frames and takes it out of every page table
//!    into one flush batch. From then on nobody uses it but through stale translations.
//! 4. **Flush** once for up to 512 frames ([`BATCH_FRAMES`]), and only then **copy**: what a CPU
//!    stored through a stale translation is in the source before it is copied.
//! 5. **Remap**: the embedder makes everybody find the page in its new frames, which are its own now;
//!    the old ones are the library's. Or **undo**: everything as it was.
//! 6. **Release**: claims on pages that did not move end.
//!
//! Any page may be *busy* or *refused* at any step, and any may be *gone*: its owner let go of it
//! while it was claimed, so that its frames are the library's without being moved.
//!
//! **While more than one page is locked, nobody waits for a lock** ([`Locking::Try`]): two who wait
//! for each other's pages would wait for ever. What could not be locked is tried again, at last alone
//! and, in the modes that may wait, waiting ([`Locking::Wait`]).
//!
//! **Undo at any point**: what is unmapped belongs to a value whose drop undoes it, also when the
//! embedder panics.
//!
//! | module | job |
//! |---|---|
//! | `page` | one page on its way |
//! | `mover` | what the embedder does |
//! | `engine` | batches, passes, one by one |

mod engine;
mod mover;
mod page;

pub(crate) use engine::{Migration, Moved, Targets};
pub use mover::{ClaimEnd, Claims, Effort, Locking, MigrateMode, Mover};
pub use page::{Move, MoveFailure, Stage};

/// Frames that are unmapped for one flush at the most: so nobody waits for longer than one huge
/// page takes.
pub const BATCH_FRAMES: u64 = 512;
