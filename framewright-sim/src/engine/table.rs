//! Tables of small values, read and written one value at a time.
//!
//! A simulated allocation reads or writes a word of the engine three times. Behind a `RefCell`, half of
//! that would be counting who has borrowed the table; here nobody can borrow anything.

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
    /// The value at a place, if there is such a place.
    #[inline(always)]
    pub(super) fn get(&self, place: usize) -> Option<T> {
        // SAFETY: references to what is inside live for single expressions of this module. None of them
        // runs code from elsewhere (to copy a `T` is to copy its bytes), and the type is not `Sync`: so no
        // two of them are alive at once.
        unsafe { &*self.0.get() }.get(place).copied()
    }

    /// Changes the value at a place.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    #[inline(always)]
    pub(super) fn set(&self, place: usize, value: T) {
        // SAFETY: as above.
        let values = unsafe { &mut *self.0.get() };
        values[place] = value;
    }

    /// Adds a value; its place.
    pub(super) fn push(&self, value: T) -> usize {
        // SAFETY: as above.
        let values = unsafe { &mut *self.0.get() };
        values.push(value);
        values.len() - 1
    }

    /// Forgets all values.
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
