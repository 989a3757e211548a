//! [`Pages`]: the contents of frames and of the store, and the mappings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use framewright::{
    Pfn,
    reclaim::{PageKind, Shadow},
};

/// The number of a page in the only file or swap area.
pub type PageId = u32;

/// The state of a page in a frame.
#[derive(Clone, Debug)]
pub struct Resident {
    /// The page.
    pub id: PageId,
    /// File or anonymous memory.
    pub kind: PageKind,
    /// The contents of the frame, as the number of stores to it.
    pub version: u64,
    /// Number of page tables that map the page.
    pub maps: u32,
    /// Number of mappings through which the page was used since the last check of references.
    pub young: u32,
    /// A page-table entry has its dirty bit set.
    pub pte_dirty: bool,
    /// The contents differ from those of the store.
    pub dirty: bool,
    /// A write to the store is in progress.
    pub writeback: bool,
    /// Reclaim has locked the page.
    pub locked: bool,
    /// Reclaim must not reclaim the page.
    pub unevictable: bool,
    /// A device uses the frame.
    pub pinned: bool,
    /// The page is mapped as code.
    pub executable: bool,
    /// References other than those of the cache and of page tables.
    pub references: u32,
}

/// The behavior of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StoreBehavior {
    /// Writes end at once.
    #[default]
    Prompt,
    /// Writes end later.
    Slow,
    /// Writes are refused.
    Busy,
    /// Writes fail at once.
    Fails,
    /// Writes fail later.
    FailsLate,
    /// The store is full.
    Full,
}

/// The pages of a [`FakeOwner`](crate::FakeOwner).
#[derive(Default)]
pub struct Pages {
    /// Pages in frames.
    pub resident: BTreeMap<Pfn, Resident>,
    /// The frame of each resident page.
    pub place: BTreeMap<PageId, Pfn>,
    /// The contents of the store.
    pub store: BTreeMap<PageId, u64>,
    /// The last contents that a program stored.
    pub truth: BTreeMap<PageId, u64>,
    /// The shadows that reclaim left in place of pages.
    pub shadows: BTreeMap<PageId, Shadow>,
    /// Writes in progress: frame, page, version, and whether they succeed.
    pub writes: VecDeque<(Pfn, PageId, u64, bool)>,
    /// The behavior of the store.
    pub behavior: StoreBehavior,
    /// The answer of `PageOwner::can_swap`.
    pub swap: bool,
    /// The answer of `PageOwner::has_writers`.
    pub writers: bool,
    /// Frames to which the other CPU may have cached translations.
    pub cached: BTreeSet<Pfn>,
    /// Frames to which the other CPU may have cached dirty translations.
    pub cached_dirty: BTreeSet<Pfn>,
    /// Reclaim fails to lock one in this many pages; 0: none. The page is truncated if it is not in use.
    pub contention: u32,
    /// Number of pages that reclaim tried to lock.
    pub locks: u32,
}

impl Pages {
    /// A resident page.
    ///
    /// # Panics
    ///
    /// If there is no page in the frame.
    pub fn page(&mut self, pfn: Pfn) -> &mut Resident {
        self.resident.get_mut(&pfn).expect("the page is resident")
    }

    /// Removes a page and its contents, which no program reads again.
    pub fn forget(&mut self, id: PageId) {
        self.place.remove(&id);
        self.truth.remove(&id);
        self.store.remove(&id);
        self.shadows.remove(&id);
    }

    /// Checks that no store is lost: the last contents are in a frame or in the store, and a page
    /// that differs from the store is known as dirty.
    ///
    /// # Panics
    ///
    /// If a store is lost.
    pub fn check(&self) {
        for (&id, &version) in &self.truth {
            match self.place.get(&id).map(|pfn| &self.resident[pfn]) {
                Some(page) => {
                    assert_eq!(page.version, version, "page {id}: a store was lost in its frame");
                    let stored = self.store.get(&id).copied().unwrap_or(0);
                    let known = page.dirty || page.pte_dirty || page.writeback;
                    assert!(stored == version || known, "page {id} is dirty without a dirty flag");
                }
                None => {
                    let stored = self.store.get(&id).copied().unwrap_or(0);
                    assert_eq!(stored, version, "page {id}: a store was lost");
                }
            }
        }
        assert!(self.resident.values().all(|page| !page.locked), "a page is left locked");
    }
}
