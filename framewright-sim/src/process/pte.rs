//! Page tables: entries, and the tables of 512 that hold them.

use std::cell::{Cell, RefCell};

/// Entries of one page table.
const ENTRIES: usize = 512;

/// A page-table entry.
///
/// Eight bytes, as in a real machine: a process of 128 MiB costs 256 KiB here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pte {
    /// Empty.
    #[default]
    None,
    /// A frame holds the page.
    Present(Mapping),
    /// The page was written out; the number is the embedder's.
    Swapped(u32),
    /// The page is being migrated out of this frame: programs that access it wait.
    Migrating(u32),
}

/// The mapping of a page to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The number of the frame (enough for 16 TiB).
    pub frame: u32,
    /// Whether stores are allowed.
    pub writable: bool,
    /// Set by page-table walks.
    pub accessed: bool,
    /// Set by the first store through a translation.
    pub dirty: bool,
}

const _: () = assert!(size_of::<Pte>() == 8);

impl Pte {
    /// The mapping, if the entry has one.
    #[must_use]
    pub fn present(self) -> Option<Mapping> {
        match self {
            Self::Present(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// The frame of a page that is mapped or being migrated.
    #[must_use]
    pub(crate) fn frame(self) -> Option<u32> {
        match self {
            Self::Present(Mapping { frame, .. }) | Self::Migrating(frame) => Some(frame),
            _ => None,
        }
    }
}

/// A page table, which is in a frame itself.
struct Table {
    frame: u32,
    /// Entries that are not [`Pte::None`].
    used: Cell<u16>,
    entries: Box<[Cell<Pte>; ENTRIES]>,
}

impl Table {
    fn new(frame: u32) -> Self {
        Self { frame, used: Cell::new(0), entries: Box::new([const { Cell::new(Pte::None) }; 512]) }
    }
}

/// The last level of the page tables of an address space, one table for each 512 pages. The upper
/// levels are not modelled: they are about a five-hundredth of the size of the last.
#[derive(Default)]
pub(super) struct PageTables(RefCell<Vec<Option<Table>>>);

impl PageTables {
    /// Whether there is a table for the entry of `page`.
    pub(super) fn reach(&self, page: u32) -> bool {
        self.0.borrow().get(table_of(page)).is_some_and(Option::is_some)
    }

    /// Adds a table in `frame` for the entry of `page`.
    pub(super) fn extend(&self, page: u32, frame: u32) {
        let mut tables = self.0.borrow_mut();
        let index = table_of(page);
        if tables.len() <= index {
            tables.resize_with(index + 1, || None);
        }
        tables[index] = Some(Table::new(frame));
    }

    pub(super) fn get(&self, page: u32) -> Pte {
        let tables = self.0.borrow();
        let table = tables.get(table_of(page)).and_then(Option::as_ref);
        table.map_or(Pte::None, |table| table.entries[entry_of(page)].get())
    }

    /// Replaces an entry; returns the old one.
    ///
    /// # Panics
    ///
    /// If there is no table for the entry.
    pub(super) fn replace(&self, page: u32, pte: Pte) -> Pte {
        let tables = self.0.borrow();
        let table = tables.get(table_of(page)).and_then(Option::as_ref);
        let table = table.expect("a page table for the entry");
        let old = table.entries[entry_of(page)].replace(pte);
        let used = table.used.get() + u16::from(pte != Pte::None) - u16::from(old != Pte::None);
        table.used.set(used);
        old
    }

    /// Removes the empty tables of `pages`, and appends their frames to `frames`.
    pub(super) fn prune(&self, pages: std::ops::Range<u32>, frames: &mut Vec<u32>) {
        let mut tables = self.0.borrow_mut();
        let end = tables.len().min((pages.end as usize).div_ceil(ENTRIES));
        let first = table_of(pages.start).min(end);
        for slot in &mut tables[first..end] {
            if let Some(table) = slot.take_if(|table| table.used.get() == 0) {
                frames.push(table.frame);
            }
        }
    }

    /// Calls `visit` for every non-empty entry with its page, in order.
    pub(super) fn for_each(&self, mut visit: impl FnMut(u32, Pte)) {
        for (index, table) in self.0.borrow().iter().enumerate() {
            let Some(table) = table else { continue };
            for (entry, pte) in table.entries.iter().enumerate() {
                if pte.get() != Pte::None {
                    visit((index * ENTRIES + entry) as u32, pte.get());
                }
            }
        }
    }

    /// The number of tables.
    pub(super) fn count(&self) -> u64 {
        self.0.borrow().iter().flatten().count() as u64
    }
}

fn table_of(page: u32) -> usize {
    page as usize / ENTRIES
}

fn entry_of(page: u32) -> usize {
    page as usize % ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_added_on_request_and_removed_when_empty() {
        let tables = PageTables::default();
        assert_eq!((tables.get(600), tables.reach(600)), (Pte::None, false));
        tables.extend(600, 7);
        assert!(tables.reach(512) && tables.reach(1023) && !tables.reach(511));
        assert_eq!(tables.replace(600, Pte::Swapped(3)), Pte::None);
        let mut frames = Vec::new();
        tables.prune(0..2000, &mut frames);
        assert_eq!((tables.get(600), &frames[..]), (Pte::Swapped(3), &[][..]));
        assert_eq!(tables.replace(600, Pte::None), Pte::Swapped(3));
        tables.prune(0..2000, &mut frames);
        assert_eq!((tables.count(), &frames[..]), (0, &[7][..]));
    }
}
