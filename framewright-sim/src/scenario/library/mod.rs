//! Scenarios of the library alone, and of processes above it: the unchanged allocator on a memory
//! so small that every path is taken.

mod contiguous;
mod depot;
mod drain;
mod hotplug;
mod isolate;
mod life;
mod pause;
mod reserve;
mod world;

pub(super) use contiguous::run as contiguous;
pub(super) use depot::run as depot;
pub(super) use drain::run as drain;
pub(super) use hotplug::run as hotplug;
pub(super) use isolate::run as isolate;
pub(super) use life::run as life;
pub(super) use pause::run as pause;
pub(super) use reserve::run as reserve;
