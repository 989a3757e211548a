//! Any text, read as the description of a machine, gives a machine that can be written and read again, or an error.
#![no_main]

use framewright_sim::machine::Spec;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(spec) = Spec::from_toml("fuzz.toml", text) {
        // A written file is self-contained: it inherits nothing, and says the same when it is written again.
        let written = spec.to_toml();
        let again = Spec::from_toml("again.toml", &written).expect("it reads what it has written");
        assert_eq!(again.inherited(), None);
        assert_eq!(again.to_toml(), written);
    }
});
