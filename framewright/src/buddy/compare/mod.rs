//! Other methods of taking blocks and searching, for comparison with the default ones.
//!
//! Built with the feature `compare` only. These methods are not fast, and not meant for production.

mod listed;
mod one_by_one;
mod smallest;
