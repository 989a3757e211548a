//! What must not compile: programs that would have two owners of a frame, or use what is not theirs.
#![cfg(not(any(miri, feature = "loom", feature = "tso")))]

#[test]
fn what_would_alias_a_frame_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
