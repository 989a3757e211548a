//! Runs any sequence of operations, on any memory map and with any settings. Every result agrees
//! with the oracle of the property tests.
#![no_main]

#[path = "../../framewright/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::world::run_bytes(bytes));
