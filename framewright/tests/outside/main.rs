//! What safe code may try and must not achieve: two owners of a frame, a frame without one, a hang.
//!
//! The machine is the only unsafe code here. Every attack is in a module that forbids it.
#![cfg(not(any(feature = "loom", feature = "tso")))]

#[path = "../support/toy.rs"]
mod toy;

mod batches;
mod capture;
mod machine;
mod mixing;
mod threads;
mod types;
