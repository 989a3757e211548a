//! Reclaim with a fake embedder, which has pages, references, a failing store, and a CPU with stale
//! TLB entries.
#![cfg(not(any(framewright_loom, framewright_tso)))]

mod background;
mod embedder;
mod failing;
mod faulty_owner;
mod lists;
mod passes;
mod pauses;
mod properties;
mod stores;
