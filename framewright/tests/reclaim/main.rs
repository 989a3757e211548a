//! Reclaim with a fake embedder: pages, references, a store that fails, and a CPU with stale TLB
//! entries.
#![cfg(not(any(framewright_loom, framewright_tso)))]

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
#[allow(unused_macros, unused_imports, reason = "only parts of the module are used here")]
mod toy;
