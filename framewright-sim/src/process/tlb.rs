//! The TLB of one CPU, in the worst case for bugs: an entry stays until it is flushed.

use std::cell::RefCell;

use super::SpaceId;

/// A cached translation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) space: SpaceId,
    pub(super) page: u32,
    pub(super) frame: u32,
    /// The life of the frame when the translation was cached; only the oracle uses this.
    pub(super) life: u32,
    pub(super) writable: bool,
    /// Stores do not read the page-table entry again.
    pub(super) dirty: bool,
}

/// The cached translations of one CPU, of all address spaces it has used.
#[derive(Default)]
pub(super) struct Tlb(RefCell<Vec<Entry>>);

impl Tlb {
    pub(super) fn find(&self, space: SpaceId, page: u32) -> Option<Entry> {
        self.0.borrow().iter().find(|entry| entry.space == space && entry.page == page).copied()
    }

    /// Caches a translation, in place of an older one of the same page.
    pub(super) fn insert(&self, entry: Entry) {
        self.invalidate(entry.space, entry.page);
        self.0.borrow_mut().push(entry);
    }

    pub(super) fn invalidate(&self, space: SpaceId, page: u32) {
        self.0.borrow_mut().retain(|entry| entry.space != space || entry.page != page);
    }

    pub(super) fn invalidate_space(&self, space: SpaceId) {
        self.0.borrow_mut().retain(|entry| entry.space != space);
    }
}
