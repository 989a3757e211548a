//! Safe code must not be able to give a frame two owners, to lose a frame, or to hang the library.
//!
//! Only the machine has unsafe code. The modules of the tests forbid it.
#![cfg(not(any(framewright_loom, framewright_tso)))]

mod bad_input;
mod batches;
mod capture;
mod global;
mod in_use;
mod machine;
mod mixing;
mod pieces;
mod threads;
mod types;
