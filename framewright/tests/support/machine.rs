//! The machine of all tests with this oracle.

pub use framewright_fakes::{FakePlatform as Machine, Metadata, cpu, order, raw};
