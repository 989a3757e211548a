//! Per-CPU page lists: most allocations and frees never see the zone.
//!
//! A CPU has a list for each of the orders 0 to 3 by mobility, and two for pageblocks. A list
//! has two parts:
//!
//! * a *ring* of at most 128 blocks, used last in, first out: what was freed last is handed out
//!   first, while it is hot. This is all the hot path touches;
//! * behind it the [`BundleStore`], shared by all lists of the CPU: colder frames, kept as
//!   masks of 64 neighbours. A full ring spills its colder half into the store, where scattered
//!   frees of neighbours find each other *before* any lock is taken; an empty ring is filled
//!   from it.
//!
//! Only when the store has nothing, or the CPU holds more than it should, is the zone asked,
//! and then for a batch, which crosses the zone lock as bundles, or, what has no neighbours, as
//! numbers of blocks on their way through the zone's depot ([`depot`]).
//!
//! At [`Hardening::Paranoid`](crate::tuning::Hardening::Paranoid) the rings are closed and the
//! store stays empty; freed blocks wait in a quarantine instead ([`paranoid`]).
//!
//! Access: the hot fields of [`CpuPages`] are written by the side that the owner protocol
//! ([`owner`]) admits, and may be read by anyone; the [`Lists`] behind them are only for that side.
//! The owner enters with an [`Owned`], which only a claim of the CPU creates. No code of the embedder runs
//! while a side is inside, except the wait for the zone lock where lists are drained from inside.
//!
//! Invariants: a frame is in one place; `held` is what the rings and the store hold. A ring takes
//! frees up to its limit; a bundle from the store or the zone may fill it beyond, never beyond its
//! size.

mod bulk_free;
mod cpu;
mod depot;
mod drain;
mod index;
mod lists;
mod migrate;
mod owned;
mod owner;
#[cfg(all(test, feature = "loom"))]
mod owner_loom;
#[cfg(all(test, feature = "tso"))]
mod owner_tso;
#[cfg(all(test, not(any(feature = "loom", feature = "tso"))))]
mod owner_weak;
mod packing;
mod pages;
mod paranoid;
mod probes;
mod raw;
mod refill;
mod sizing;
mod store;

pub(crate) use cpu::ZoneOnCpu;
pub(crate) use index::ListIndex;
pub(crate) use lists::Lists;
pub(crate) use owned::OwnedZoneOnCpu;
pub(crate) use pages::{CpuPages, Owned};
pub(crate) use raw::RawFree;
pub(crate) use sizing::{Sizing, bundle_slots};
pub(crate) use store::{BundleStore, Slot};
