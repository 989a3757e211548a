//! Reclaim with a fake embedder: pages, references, a store that fails, and a CPU with stale TLB
//! entries.
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
