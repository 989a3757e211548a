//! Reclaim against a mock embedder: pages, references, a store that fails, and CPUs that remember
//! translations which are gone.
#![cfg(not(any(feature = "loom", feature = "tso")))]

mod background;
mod embedder;
mod failing;
mod faulty_owner;
mod lists;
mod owner;
mod pages;
mod passes;
mod pauses;
mod properties;
mod stores;
#[path = "../support/toy.rs"]
#[allow(unused_macros, unused_imports, reason = "the machine here is a whole one")]
mod toy;
