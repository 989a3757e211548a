//! Programs that must not compile, because a frame would have two owners, or would be used by code
//! that does not own it.
#![cfg(not(any(miri, framewright_loom, framewright_tso)))]

#[test]
fn programs_that_would_alias_a_frame_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
