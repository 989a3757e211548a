//! Any text, read as the description of a machine, gives a machine or an error.
#![no_main]

use framewright_sim::machine::Spec;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(spec) = Spec::from_toml("fuzz.toml", text) {
        let again = Spec::from_toml("again.toml", &spec.to_toml());
        assert_eq!(again.as_ref(), Ok(&spec));
    }
});
