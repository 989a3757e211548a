//! Any bytes, read as a recording and as a snapshot, give events or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    framewright_lab::trace::fuzz::read_everything(bytes);
});
