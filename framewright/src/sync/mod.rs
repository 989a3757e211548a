//! All atomics and fences of the library, its locks, and the cell for data under a lock.
//!
//! Every other module imports them from here. So all primitives that the library's memory ordering
//! depends on are in one folder, and `RUSTFLAGS` can replace the types below the same code for
//! model checking:
//!
//! * default: `core::sync::atomic`;
//! * loom (`--cfg framewright_loom`, in tests of this crate): exhaustive exploration of the C11
//!   model;
//! * tso (`--cfg framewright_tso`): a small explorer of store buffers (`tso`), for the one-sided
//!   barrier of the per-CPU lists, which C11 cannot express.

mod cell;
mod lock;
mod prefetch;
#[cfg(framewright_tso)]
pub mod tso;
mod word;

pub(crate) use cell::ExclusiveCell;
pub use lock::{LockWait, RawLock, SpinFlag, TicketLock};
pub(crate) use prefetch::Address;
pub use word::{PlainWord, RawWord};

/// The orderings of `core`, with any of the atomics.
pub use core::sync::atomic::Ordering;

#[cfg(not(any(all(test, framewright_loom), framewright_tso)))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, compiler_fence, fence,
};

#[cfg(all(test, framewright_loom))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence};

/// A word that is only a hint: written under a lock, and read without it where any value is
/// acceptable. Model checkers need not explore its accesses.
pub(crate) use core::sync::atomic::AtomicU64 as HintU64;

/// Loom has no compiler fence: the models give both sides a full fence instead.
#[cfg(all(test, framewright_loom))]
pub(crate) fn compiler_fence(order: Ordering) {
    loom::sync::atomic::fence(order);
}

/// Words of a `static`, which constant expressions initialise. Model checkers do not explore them.
pub(crate) use core::sync::atomic::{AtomicBool as StaticBool, AtomicU8 as StaticU8};

#[cfg(framewright_tso)]
pub(crate) use tso::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, compiler_fence, fence};
