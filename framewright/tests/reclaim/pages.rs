//! The truth about pages, kept naively: what is in a frame, what is in the store, who maps what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use framewright::{
    Pfn,
    reclaim::{PageKind, Shadow},
};

/// A page of the one file or swap area there is, by number.
pub(crate) type PageId = u32;

/// A page in a frame.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    pub(crate) id: PageId,
    pub(crate) kind: PageKind,
    /// What is in the frame: counts the stores to it.
    pub(crate) version: u64,
    /// Page tables that map it.
    pub(crate) maps: u32,
    /// Those through which it was used since somebody asked.
    pub(crate) young: u32,
    /// A page table knows that it was stored to.
    pub(crate) pte_dirty: bool,
    pub(crate) dirty: bool,
    pub(crate) writeback: bool,
    pub(crate) locked: bool,
    pub(crate) unevictable: bool,
    pub(crate) pinned: bool,
    pub(crate) executable: bool,
    /// References beside those of the cache and of page tables.
    pub(crate) references: u32,
}

/// How the store behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum StoreBehavior {
    /// Writes are done at once.
    #[default]
    Prompt,
    /// Writes are completed later.
    Slow,
    /// Writes are refused.
    Busy,
    /// The device fails when it is asked.
    Fails,
    /// The device fails after a while.
    FailsLate,
    /// There is no room.
    Full,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pages {
    pub(crate) resident: BTreeMap<Pfn, Resident>,
    pub(crate) place: BTreeMap<PageId, Pfn>,
    /// What is stored.
    pub(crate) store: BTreeMap<PageId, u64>,
    /// What was stored to pages last.
    pub(crate) truth: BTreeMap<PageId, u64>,
    pub(crate) shadows: BTreeMap<PageId, Shadow>,
    /// Writes under way: frame, page, version, and whether they succeed.
    pub(crate) writes: VecDeque<(Pfn, PageId, u64, bool)>,
    pub(crate) behavior: StoreBehavior,
    pub(crate) swap: bool,
    pub(crate) writers: bool,
    /// Translations that the other CPU has cached, or may have.
    pub(crate) cached: BTreeSet<Pfn>,
    /// Frames that translations which may store were cached of.
    pub(crate) cached_dirty: BTreeSet<Pfn>,
    /// Fails every so many locks; 0: none.
    pub(crate) contention: u32,
    pub(crate) locks: u32,
}

impl Pages {
    pub(crate) fn page(&mut self, pfn: Pfn) -> &mut Resident {
        self.resident.get_mut(&pfn).expect("asked about a page that is there")
    }

    /// Nobody will ask for what was in a page.
    pub(crate) fn forget(&mut self, id: PageId) {
        self.place.remove(&id);
        self.truth.remove(&id);
        self.store.remove(&id);
        self.shadows.remove(&id);
    }

    /// No store is lost: what was stored last is in a frame or in the store; and what differs
    /// from the store is known as dirty.
    pub(crate) fn check(&self) {
        for (&id, &version) in &self.truth {
            match self.place.get(&id).map(|pfn| &self.resident[pfn]) {
                Some(page) => {
                    assert_eq!(page.version, version, "page {id}: a store was lost in its frame");
                    let stored = self.store.get(&id).copied().unwrap_or(0);
                    let known = page.dirty || page.pte_dirty || page.writeback;
                    assert!(stored == version || known, "page {id} is dirty and nobody knows");
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
