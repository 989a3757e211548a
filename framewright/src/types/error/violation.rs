//! A violation of an invariant.

use core::fmt;

/// An invariant that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// The invariant that is violated, in words.
    pub what: &'static str,
    /// The place: a pageblock, or a number that the text explains.
    pub at: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {})", self.what, self.at)
    }
}

impl core::error::Error for Violation {}
