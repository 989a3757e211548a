//! What [`Hardening::Tracked`](crate::tuning::Hardening::Tracked) and
//! [`Hardening::Paranoid`](crate::tuning::Hardening::Paranoid) add to the allocator. *tracked* has
//! the first of the three parts below, *paranoid* has all.
//!
//! Each is a plain data structure here; `pcp/paranoid.rs` puts them to use:
//!
//! * **States** ([`States`]): a byte per frame says whether an allocated block starts there, and
//!   of which order, or whether the frame is part of an extent. A free first takes the block's mark away with one compare-exchange, so a
//!   bad one (twice, in part, of another order, from the inside, of a frame that waits on a list)
//!   is refused at the call and has changed nothing, and of two that race one is refused. Also a
//!   `Block` is refused that somebody has freed raw behind its owner's back.
//! * **Poison** ([`poison_word`]): frames are overwritten when they are freed and looked at before
//!   they are handed out again, so a write through a stale pointer is found and reported with
//!   frame and offset. A free frame thereby guards its neighbours: a write beyond the end of a
//!   block that hits one is found as well. There are no guard frames besides.
//! * **Quarantine** ([`Quarantine`]): what a CPU frees waits until others were freed after it, so
//!   that a stale pointer meets poison for longer. It is given back when memory runs short, and
//!   by whatever drains the lists of the CPU.
//!
//! **The hot paths of the other levels do not pay for this.** At *tracked* the lists of all CPUs are entered
//! through the try-lock of machines without remote barriers, so every push and pop takes the path that
//! updates the states, which is cold at the other levels. At *paranoid* the rings of all CPUs have limit 0,
//! so every push and pop takes the path of a CPU whose lists are switched off, which is cold at the other
//! levels. Allocations go to the zone one by one. The zone keeps its own map of heads besides, as at
//! `checked`: two maps.
//!
//! Invariants: a byte says *block* exactly where an allocated block starts, with its order; blocks
//! and extents in a zone's bytes add up to the frames in use ([`Memory::check`](crate::Memory::check)
//! tests this). Frames in quarantine carry no mark and count as held by their CPU.

mod poison;
mod quarantine;
mod states;

pub use poison::poison_word;
pub(crate) use quarantine::{Quarantine, Waiting};
pub(crate) use states::States;
