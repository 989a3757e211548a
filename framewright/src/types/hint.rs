//! Hints to the compiler.

/// Marks the branch that calls this as unlikely. The standard library's function of this name needs Rust 1.95.
#[cold]
#[inline]
pub(crate) fn cold_path() {}
