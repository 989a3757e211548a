//! Errors of settings.

use core::fmt;

use super::{KEYS, Key, field::Shown};

/// A setting that was refused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TuningError<'t> {
    /// There is no such key.
    UnknownKey {
        /// The key that does not exist.
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
        /// The nearest valid value.
        nearest: Shown,
    },
    /// The setting, or this value of it, exists only for comparisons and needs a cargo feature. The
    /// library was built without that feature.
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
                write!(f, "unknown setting '{path}'; the nearest is '{}'", key.path)
            }
            TuningError::UnknownKey { path, nearest: None } => {
                write!(f, "unknown setting '{path}'; ")?;
                write_group(path, f)
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

/// Lists the settings of the group that `path` names, because the intended setting may have quite
/// another name in it. If there is no such group, says that no setting is similar.
fn write_group(path: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let group = path.split_once('.').map_or("", |(group, _)| group);
    let in_group =
        |key: &&Key| key.path.strip_prefix(group).is_some_and(|rest| rest.starts_with('.'));
    let mut keys = KEYS.iter().filter(in_group);
    let Some(first) = keys.next() else { return f.write_str("there is none like it") };
    write!(f, "the settings of '{group}' are: {}", first.path)?;
    keys.try_for_each(|key| write!(f, ", {}", key.path))
}

impl core::error::Error for TuningError<'_> {}
