//! The machine of the tests that share operations and oracle.

pub use framewright_fakes::{FakePlatform as Machine, Metadata, cpu, order, raw};
