//! Setting and reading settings by path.

use super::{KEYS, Key, Tuning, TuningError, needs_compare, spelling::near};

impl Tuning {
    /// Sets the field at `path` from text.
    ///
    /// # Errors
    ///
    /// [`TuningError::UnknownKey`] names the key that was probably meant; [`TuningError::BadValue`]
    /// has the values that the key takes, and the nearest of them; [`TuningError::NotCompiledIn`]
    /// names the feature that the setting needs. The tuning is unchanged.
    pub fn set<'t>(&mut self, path: &'t str, value: &'t str) -> Result<(), TuningError<'t>> {
        if !cfg!(feature = "compare") && needs_compare(path, value) {
            return Err(TuningError::NotCompiledIn { path, value, feature: "compare" });
        }
        let key = find(path)?;
        key.field(self).set(value).map_err(|nearest| TuningError::BadValue { key, value, nearest })
    }

    /// The first key with a value that [`Tuning::set`] would refuse.
    pub(crate) fn first_invalid(&self) -> Option<&'static Key> {
        let mut copy = *self;
        KEYS.iter().find(|key| !key.field(&mut copy).is_valid())
    }

    /// The value of the field at `path`, as text.
    ///
    /// # Errors
    ///
    /// [`TuningError::UnknownKey`] names the key that was probably meant.
    pub fn get<'t>(
        &self,
        path: &'t str,
    ) -> Result<impl core::fmt::Display + use<>, TuningError<'t>> {
        let mut copy = *self;
        Ok(find(path)?.field(&mut copy).show())
    }
}

/// The setting at `path`.
fn find(path: &str) -> Result<&'static Key, TuningError<'_>> {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Ok(key);
    }
    let best = near(path, KEYS.iter().map(|key| key.path));
    let nearest = KEYS.iter().find(|key| Some(key.path) == best);
    Err(TuningError::UnknownKey { path, nearest })
}
