//! The parts of the hardening levels *tracked* and *paranoid*: states of frames, poison, a quarantine.
//!
//! [`Hardening::Tracked`](crate::tuning::Hardening::Tracked) adds the states of frames to the allocator;
//! [`Hardening::Paranoid`](crate::tuning::Hardening::Paranoid) adds all three.
//!
//! * **States** ([`States`]): a byte per frame tells whether an allocated block starts there, and of which order, or
//!   whether the frame is part of an extent. A free first clears the mark of the block with one compare-exchange. So
//!   a bad free (a double free, a part of a block, another order, a frame inside a block, a frame on a free list) is
//!   refused at the call and changes nothing. Of two racing frees, one is refused. The free of a `Block` whose frames
//!   were freed by number before is refused as well.
//! * **Poison** ([`poison_word`](crate::platform::poison_word)): frames are overwritten when they
//!   are freed and checked before they are allocated again, so a write through a stale pointer is
//!   found and reported with frame and offset. A write beyond the end of a block into a free frame
//!   is found as well, so free frames act as guard frames. There are no other guard frames.
//! * **Quarantine** ([`Quarantine`]): freed blocks wait until the CPU has freed more blocks, so that their poison
//!   detects writes through stale pointers for longer. They return to the zone when memory runs short, and with every
//!   drain of the lists of the CPU.
//!
//! **These parts add no instructions to the hot paths of the other levels.** At *tracked* all CPUs
//! use the try-lock for their lists, as on machines without remote barriers. So every push and pop
//! takes the path that updates the states, which is cold at the other levels. At *paranoid* the
//! rings of all CPUs have limit 0, so every push and pop takes the path for lists that are switched
//! off, which is cold at the other levels, too. Allocations go to the zone one by one. The zone
//! also has its own map of the heads of allocated blocks, as at *checked*.
//!
//! Invariants: a byte has the mark of a block, with its order, exactly where an allocated block
//! starts; the blocks and extents in a zone's bytes have as many frames as are in use.
//! [`Memory::check`](crate::Memory::check) tests this. Frames in quarantine have no mark and count
//! as held by their CPU.

mod quarantine;
mod states;

pub(crate) use quarantine::{Quarantine, Waiting};
pub(crate) use states::States;
