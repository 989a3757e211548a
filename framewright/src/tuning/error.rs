//! What can be wrong with a setting.

use core::fmt;

use super::{Key, field::Shown};

/// A setting that was refused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TuningError<'t> {
    /// There is no such key.
    UnknownKey {
        /// What was asked for.
        path: &'t str,
        /// The key that was probably meant.
        nearest: Option<&'static Key>,
    },
    /// The key does not take this value.
    BadValue {
        /// The key.
        key: &'static Key,
        /// The value refused.
        value: &'t str,
        /// The nearest value the key would take.
        nearest: Shown,
    },
    /// The setting is there to compare methods, and the library was built without them.
    NotCompiledIn {
        /// The key.
        path: &'t str,
        /// The value refused.
        value: &'t str,
        /// The feature of the library that has the setting.
        feature: &'static str,
    },
}

impl fmt::Display for TuningError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuningError::UnknownKey { path, nearest: Some(key) } => {
                write!(f, "unknown setting '{path}'; the nearest there is: '{}'", key.path)
            }
            TuningError::UnknownKey { path, nearest: None } => {
                write!(f, "unknown setting '{path}'; there is none like it")
            }
            TuningError::BadValue { key, value, nearest } => write!(
                f,
                "'{}' does not take '{value}': it takes {}; nearest valid value: {nearest}",
                key.path, key.range
            ),
            TuningError::NotCompiledIn { path, value, feature } => write!(
                f,
                "'{path}={value}' is not compiled in: build the library with the feature '{feature}'"
            ),
        }
    }
}

impl core::error::Error for TuningError<'_> {}
