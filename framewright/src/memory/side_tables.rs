//! Optional side tables: arrays with one entry per frame.
//!
//! The allocator itself uses two bits per frame, and a third one if raw frees are checked (the
//! default). An embedder that needs more, such as a byte of flags or a word for the owner, requests it
//! in its [`Config`](super::Config); [`Layout`](super::Layout) computes the size. The embedder defines
//! the meaning of the flags and owner words; the library never reads or writes them. (The byte of
//! state per frame of [`Hardening::Tracked`](crate::tuning::Hardening::Tracked) is not one of these
//! tables; it belongs to the zones.)

use crate::sync::{AtomicU8, AtomicU32};

/// The side tables of a memory.
///
/// # Example
///
/// ```
/// use framewright::{Config, FrameRange, Pfn, SideTables};
/// # use framewright_fakes::{FakePlatform, leaked};
/// use std::sync::atomic::Ordering::Relaxed;
///
/// let map = [FrameRange::new(Pfn::new(0), Pfn::new(8192)).unwrap().into()];
/// let config = Config::new(&map, 1).with_side_tables(SideTables::default().with_owners());
/// # let memory = leaked(FakePlatform::default(), &config);
/// let owner = memory.frame_owner(Pfn::new(7)).expect("the table exists");
/// owner.store(42, Relaxed);
/// assert!(memory.frame_flags(Pfn::new(7)).is_none(), "no such table was requested");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SideTables {
    /// A byte of flags per frame: [`Memory::frame_flags`](super::Memory::frame_flags).
    pub flags: bool,
    /// A word per frame that names its owner: [`Memory::frame_owner`](super::Memory::frame_owner).
    pub owners: bool,
    /// The LRU lists of reclaim: a byte of flags and two links of four bytes per frame, and a batch
    /// of about 2.5 KiB per CPU. See [`Memory::lru`](super::Memory::lru).
    pub lru: bool,
}

impl SideTables {
    /// These tables and a byte of [flags](SideTables::flags) per frame.
    #[must_use]
    pub const fn with_flags(self) -> Self {
        Self { flags: true, ..self }
    }

    /// These tables and a word for the [owner](SideTables::owners) of each frame.
    #[must_use]
    pub const fn with_owners(self) -> Self {
        Self { owners: true, ..self }
    }

    /// These tables and those of [reclaim](SideTables::lru).
    #[must_use]
    pub const fn with_lru(self) -> Self {
        Self { lru: true, ..self }
    }
}

/// The arrays of the side tables; those that the configuration does not ask for are empty.
pub(super) struct SideTableArrays<'m> {
    pub(super) flags: &'m [AtomicU8],
    pub(super) owners: &'m [AtomicU32],
}
