//! Migration: moving pages to other frames, many at a time, with one flush for all of them.
//!
//! # Theory of operation
//!
//! The library knows frames; the embedder knows their contents and mappings. So a page moves in
//! steps of the embedder and of the library. Every step handles a slice of [`Move`]s:
//!
//! ```text
//!  embedder   claim      unmap ─► batch            remap or undo            release
//!  library          place              flush, copy              free source
//!             Claimed    Ready   Unmapped        Copied       Moved
//! ```
//!
//! 1. **Claim**: the embedder names the pages in some frames that may move, and ensures that no other caller claims
//!    them. The frames still belong to the embedder.
//! 2. **Place**: the library takes free frames to move to.
//! 3. **Unmap**: the embedder locks the page and its new frames, removes the page from every page
//!    table, and adds the removed translations to one flush batch. From then on the page is
//!    accessed only through stale translations.
//! 4. **Flush** once for a batch of about 512 frames, and only then **copy**, so that every store
//!    through a stale translation has reached the source before the copy.
//! 5. **Remap**: the embedder maps the page in its new frames, which belong to the embedder from then on; the old
//!    frames belong to the library. Or **undo**: the embedder maps the page in its old frames again.
//! 6. **Release**: the embedder ends the claims on pages that did not move.
//!
//! At any step, a page may be *busy* or *refused*. It may also be *gone*: its owner freed it while it was
//! claimed, so its frames belong to the library without a move.
//!
//! **While more than one page is locked, no lock is waited for** ([`Locking::Try`]), because two
//! threads that wait for each other's pages would deadlock. A page that could not be locked is
//! tried again. If the mode may wait, the last attempts move only this page, and wait for its lock
//! ([`Locking::Wait`]).
//!
//! **Undo at any point**: a guard value undoes unmapped pages when it is dropped, also if the embedder panics.
//!
//! | module | job |
//! |---|---|
//! | `page` | the state of one page that moves |
//! | `mover` | the embedder's part |
//! | `engine` | batches, passes, and pages that are moved one by one |

mod engine;
mod mover;
mod page;

pub(crate) use engine::{Migration, Moved, Targets};
pub use mover::{ClaimEnd, Claims, Effort, Locking, MigrateMode, Mover};
pub use page::{Move, MoveFailure, Stage};

/// A batch with this many frames takes no further page. Only its last page may exceed this number.
/// So no access to a page waits much longer than moving one huge page takes.
const BATCH_FRAMES: u64 = 512;
