//! The `Platform` of all tests that use the oracle of `support`.

pub use framewright_fakes::{FakePlatform as Machine, Metadata, cpu, order, raw};
