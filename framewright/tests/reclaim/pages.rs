//! A simple model of all pages: the contents of frames and of the store, and the mappings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use framewright::{
    Pfn,
    reclaim::{PageKind, Shadow},
};

/// The number of a page in the only file or swap area.
pub(crate) type PageId = u32;

/// The state of a page in a frame.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    pub(crate) id: PageId,
    pub(crate) kind: PageKind,
    /// The contents of the frame, as the number of stores to it.
    pub(crate) version: u64,
    /// Number of page tables that map the page.
    pub(crate) maps: u32,
    /// Number of mappings through which the page was used since the last check of references.
    pub(crate) young: u32,
    /// A page-table entry has its dirty bit set.
    pub(crate) pte_dirty: bool,
    pub(crate) dirty: bool,
    pub(crate) writeback: bool,
    pub(crate) locked: bool,
    pub(crate) unevictable: bool,
    pub(crate) pinned: bool,
    pub(crate) executable: bool,
    /// References other than those of the cache and of page tables.
    pub(crate) references: u32,
}

/// The behavior of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum StoreBehavior {
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

/// The pages of the fake embedder.
#[derive(Default)]
pub(crate) struct Pages {
    pub(crate) resident: BTreeMap<Pfn, Resident>,
    pub(crate) place: BTreeMap<PageId, Pfn>,
    /// The contents of the store.
    pub(crate) store: BTreeMap<PageId, u64>,
    /// The last contents that a program stored.
    pub(crate) truth: BTreeMap<PageId, u64>,
    pub(crate) shadows: BTreeMap<PageId, Shadow>,
    /// Writes in progress: frame, page, version, and whether they succeed.
    pub(crate) writes: VecDeque<(Pfn, PageId, u64, bool)>,
    pub(crate) behavior: StoreBehavior,
    pub(crate) swap: bool,
    pub(crate) writers: bool,
    /// Frames to which the other CPU may have cached translations.
    pub(crate) cached: BTreeSet<Pfn>,
    /// Frames to which the other CPU may have cached dirty translations.
    pub(crate) cached_dirty: BTreeSet<Pfn>,
    /// Every so many calls of `lock` one fails; 0: none.
    pub(crate) contention: u32,
    pub(crate) locks: u32,
}

impl Pages {
    pub(crate) fn page(&mut self, pfn: Pfn) -> &mut Resident {
        self.resident.get_mut(&pfn).expect("the page is resident")
    }

    /// Removes a page and its contents, which no program will read.
    pub(crate) fn forget(&mut self, id: PageId) {
        self.place.remove(&id);
        self.truth.remove(&id);
        self.store.remove(&id);
        self.shadows.remove(&id);
    }

    /// Checks that no store is lost: the last contents are in a frame or in the store, and a page
    /// that differs from the store is known as dirty.
    pub(crate) fn check(&self) {
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
