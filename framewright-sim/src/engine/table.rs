//! Tables of small values, read and written one value at a time.
//!
//! A simulated allocation reads or writes a word of the engine three times. With a `RefCell`, half
//! of the time would go into counting borrows. No borrow leaves this module.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;

/// A table that grows at its end.
pub(super) struct Table<T>(UnsafeCell<Vec<T>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(UnsafeCell::default())
    }
}

impl<T: Copy> Table<T> {
    /// The value at an index, if there is one.
    #[inline(always)]
    pub(super) fn get(&self, place: usize) -> Option<T> {
        // SAFETY: references into the table live for single expressions of this module. None of
        // these expressions runs code from elsewhere (`T: Copy`), and the type is not `Sync`. So
        // two references never exist at once.
        unsafe { &*self.0.get() }.get(place).copied()
    }

    /// Changes the value at an index.
    ///
    /// # Panics
    ///
    /// If there is no value at the index.
    #[inline(always)]
    pub(super) fn set(&self, place: usize, value: T) {
        // SAFETY: as above.
        let values = unsafe { &mut *self.0.get() };
        values[place] = value;
    }

    /// Appends a value; returns its index.
    pub(super) fn push(&self, value: T) -> usize {
        // SAFETY: as above.
        let values = unsafe { &mut *self.0.get() };
        values.push(value);
        values.len() - 1
    }

    /// Removes all values.
    pub(super) fn clear(&self) {
        // SAFETY: as above.
        unsafe { &mut *self.0.get() }.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_were_put() {
        let table = Table::default();
        assert_eq!((table.push(5), table.push(6)), (0, 1));
        table.set(0, 7);
        assert_eq!((table.get(0), table.get(1), table.get(2)), (Some(7), Some(6), None));
        table.clear();
        assert_eq!((table.get(0), table.push(8)), (None, 0));
    }
}
