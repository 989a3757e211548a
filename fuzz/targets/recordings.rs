//! Reads any bytes as a recording, as a snapshot and as an initial state. Each reader returns a
//! value or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    framewright_lab::trace::fuzz::read_everything(bytes);
    let _ = framewright_lab::replay::State::parse("fuzz", bytes);
});
