//! Programs that must not compile, because they would give a frame two owners, or use frames that
//! they do not own.
#![cfg(not(any(miri, framewright_loom, framewright_tso)))]

#[test]
fn programs_that_would_alias_a_frame_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
