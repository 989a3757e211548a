//! What must not compile: what privacy and lifetimes keep safe code from.

#[test]
fn safe_code_does_not_get_that_far() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
