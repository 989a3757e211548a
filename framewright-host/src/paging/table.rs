//! Tables with memory only for used entries.

#![allow(unsafe_code)]

use std::{
    marker::PhantomData,
    ops::{Deref, Range},
    slice,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rustix::io::Errno;

use super::cache::Page;
use crate::{HostError, mapping::Mapping};

/// Entries per mark.
const PER_MARK: usize = 256;
/// Entries per word of marks.
const PER_WORD: usize = PER_MARK * u64::BITS as usize;

/// Entries of tables.
///
/// # Safety
///
/// Zeroed bytes are a value of the type, it need not be dropped, and its alignment is at most that of `u64`.
pub(super) unsafe trait Entry: Sync {}

// SAFETY: an atomic integer.
unsafe impl Entry for AtomicU64 {}
// SAFETY: two atomic integers.
unsafe impl Entry for Page {}

/// A table whose entries are zero at first. The kernel allocates memory for entries at the first
/// access. Used entries are marked, so that [`Table::marked`] does not access the others.
pub(super) struct Table<T> {
    /// The entries, then the marks: a bit for each `PER_MARK` entries.
    mapping: Mapping,
    len: usize,
    entries: PhantomData<[T]>,
}

impl<T: Entry> Table<T> {
    pub(super) fn new(what: &'static str, len: u64) -> Result<Self, HostError> {
        let too_long = HostError::OutOfMemory { what, bytes: usize::MAX, errno: Errno::OVERFLOW };
        let bytes = |len: usize| {
            let marks = len.div_ceil(PER_WORD) * size_of::<AtomicU64>();
            len.checked_mul(size_of::<T>())?.checked_add(marks)
        };
        let Some((len, bytes)) = usize::try_from(len).ok().and_then(|len| Some((len, bytes(len)?)))
        else {
            return Err(too_long);
        };
        Ok(Self { mapping: Mapping::shared(what, bytes)?, len, entries: PhantomData })
    }

    /// Marks an entry as used. The mark covers its neighbours, too.
    pub(super) fn mark(&self, at: usize) {
        let (word, bit) = (&self.marks()[at / PER_WORD], 1 << (at % PER_WORD / PER_MARK));
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// The indices of all entries with a mark.
    pub(super) fn marked(&self) -> impl Iterator<Item = usize> {
        let words = self.marks().iter().enumerate();
        let bits = words.flat_map(|(at, word)| {
            let word = word.load(Relaxed);
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        });
        bits.flat_map(|mark| self.neighbours(mark))
    }

    fn neighbours(&self, mark: usize) -> Range<usize> {
        mark * PER_MARK..((mark + 1) * PER_MARK).min(self.len)
    }

    fn marks(&self) -> &[AtomicU64] {
        // SAFETY: the marks follow the entries in the mapping. The mapping is zeroed, lives as long as `self`, and is
        // accessed only through shared references. The marks are aligned, because entries consist of 64-bit words.
        unsafe {
            let start = self.mapping.start().cast::<T>().add(self.len).cast();
            slice::from_raw_parts(start.as_ptr(), self.len.div_ceil(PER_WORD))
        }
    }
}

impl<T: Entry> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping begins with `len` entries, is aligned to pages and lives as long as
        // `self`. Zeroed bytes are values of the type, and all accesses are through shared
        // references.
        unsafe { slice::from_raw_parts(self.mapping.start().cast().as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_entry_is_found_with_its_neighbours() {
        for len in [1, 255, 256, 257, PER_WORD, PER_WORD + 1, 3 * PER_WORD + 300] {
            let table = Table::<AtomicU64>::new("a test", len as u64).unwrap();
            assert_eq!((table.len(), table.marked().count()), (len, 0));
            let mut expected = Vec::new();
            for at in [0, len / 2, len - 1] {
                table.mark(at);
                table.mark(at);
                let first = at / PER_MARK * PER_MARK;
                expected.extend(first..(first + PER_MARK).min(len));
            }
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(table.marked().collect::<Vec<_>>(), expected);
            assert!(table.iter().all(|entry| entry.load(Relaxed) == 0));
        }
    }

    #[test]
    fn a_table_that_no_process_can_address_is_refused() {
        for len in [u64::MAX, 1 << 60, 1 << 50] {
            let refused = Table::<Page>::new("a test", len).err();
            assert!(matches!(refused, Some(HostError::OutOfMemory { .. })), "{refused:?}");
        }
        assert_eq!(Table::<Page>::new("a test", 0).unwrap().marked().count(), 0);
    }
}
