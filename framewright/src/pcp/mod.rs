//! Per-CPU page lists: most allocations and frees do not use the zone.
//!
//! A CPU has a list for each of the orders 0 to 4 by mobility, and two for pageblocks. Frees in
//! pageblocks that are to become empty have a list for each of the orders 0 to 4 ([`emptying`]). A
//! list has two parts, a list of pageblocks only the first:
//!
//! * a *ring* of at most 128 blocks, used last in, first out: the block freed last is allocated
//!   first, while it is in the cache. The hot path uses the ring only;
//! * behind the ring the [`BundleStore`], shared by all lists of the CPU: colder frames, kept as
//!   masks of 64 neighbours. A full ring moves its coldest blocks into the store, where neighbouring
//!   frames are joined *before* any lock is taken; an empty ring is filled from the store.
//!
//! The zone is used when the store has no block of the list, when the CPU has more frames than its
//! limit, and for blocks that the store has no space for or that are in pageblocks to become empty.
//! Blocks then move between lists and zone in batches, one hold of the zone lock for each: as
//! bundles, or as single frame numbers through the zone's depot ([`depot`]).
//!
//! At [`Hardening::Paranoid`](crate::tuning::Hardening::Paranoid) the rings are closed and the
//! store stays empty; freed blocks wait in a quarantine instead ([`paranoid`]).
//!
//! Access: the owner protocol ([`owner`]) admits either the owner or a drainer. Only the admitted
//! side writes the hot fields of [`CpuPages`], and uses the [`Lists`] behind them. Any CPU may read
//! the hot fields. The owner enters with an [`Owned`], which only a claim of the CPU creates. While
//! a side is admitted, no code of the embedder runs, except the hooks of the zone lock (if this side
//! drains the lists into the zone), and the hooks of a simulator.
//!
//! Invariants: a frame is in one place; `held` is the number of frames on the rings, in the store
//! and in quarantine. A ring accepts frees up to its limit. A bundle from the store or the zone may
//! fill the ring beyond its limit, but never beyond its size.

mod bulk_free;
mod cpu;
mod depot;
mod drain;
mod drain_log;
mod emptying;
mod index;
mod lists;
mod migrate;
mod owned;
mod owner;
#[cfg(all(test, framewright_loom))]
mod owner_loom;
#[cfg(all(test, framewright_tso))]
mod owner_tso;
#[cfg(all(test, not(any(framewright_loom, framewright_tso))))]
mod owner_weak;
mod packing;
mod pages;
mod paranoid;
mod probes;
mod raw;
mod refill;
mod rings;
mod sizing;
mod store;
mod traffic;
mod trim;
#[cfg(feature = "compare")]
mod under_lock;

pub(crate) use cpu::ZoneOnCpu;
pub(crate) use drain_log::DrainLog;
pub(crate) use index::ListIndex;
pub(crate) use owned::OwnedZoneOnCpu;
pub(crate) use pages::{CpuPages, Owned};
pub(crate) use raw::RawFree;
pub(crate) use rings::Lists;
pub(crate) use sizing::{Sizing, bundle_slots};
pub(crate) use store::{BundleStore, Slot};
