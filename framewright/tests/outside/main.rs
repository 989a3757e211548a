//! Safe code must not be able to give a frame two owners, to lose a frame, or to hang.
//!
//! The machine is the only unsafe code here. Every attack is in a module that forbids it.
#![cfg(not(any(framewright_loom, framewright_tso)))]

mod batches;
mod capture;
mod machine;
mod mixing;
mod threads;
mod types;
