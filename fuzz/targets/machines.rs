//! Reads any text as the description of a machine. The result is an error, or a machine that can be written and read
//! again.
#![no_main]

use framewright_sim::machine::Spec;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(spec) = Spec::from_toml("fuzz.toml", text) {
        // A written file is self-contained: it inherits nothing, and reading and writing it again does not change it.
        let written = spec.to_toml();
        let again = Spec::from_toml("again.toml", &written).expect("a written machine can be read");
        assert_eq!(again.inherited(), None);
        assert_eq!(again.to_toml(), written);
    }
});
