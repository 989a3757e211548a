//! Programs that privacy or lifetimes prevent from compiling.

#[test]
fn misuse_by_safe_code_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
