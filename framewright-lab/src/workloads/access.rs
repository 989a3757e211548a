//! What programs do to pages of files that they have mapped.

pub(crate) use framewright_sim::process::Access;

/// A page that a program touches next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Next {
    /// Which of its mappings.
    pub(crate) mapping: usize,
    /// Which page of it.
    pub(crate) page: u32,
    /// How.
    pub(crate) access: Access,
    /// Cycles that it then works with what it found there.
    pub(crate) then: u64,
}
