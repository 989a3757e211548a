//! Programs that must not compile, because of privacy or lifetimes.

#[test]
fn safe_code_does_not_get_that_far() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
