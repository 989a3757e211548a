//! Programs that must not compile, because of privacy or lifetimes.

#[test]
fn misuse_by_safe_code_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
