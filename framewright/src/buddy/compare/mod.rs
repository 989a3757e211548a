//! Other ways to take and to search, to compare with the one that is used by default.
//!
//! Built with the feature `compare` only. Nothing here is fast, or meant for use.

mod listed;
mod one_by_one;
mod smallest;
