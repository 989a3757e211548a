//! The page cache: files, the frames of their pages, and seeded write errors.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use super::{
    AreaId, Failures, FileCosts, FileId, StoreSpec, StoreStats,
    area::{Area, TABLE},
    page::Page,
    store::Store,
    writeback::Write,
};
use crate::{
    engine::{Cpu, Model, ProgramLock},
    host_memory::in_huge_pages,
    process::{AddressSpace, Mmu, Pte},
};
use framewright::tlb::DeferredFlush;

/// The reciprocal of the share of frames that may be dirty: Linux's `dirty_ratio` of 20 %.
const DIRTY_SHARE: u64 = 5;

/// The properties of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSpec {
    /// The number of pages.
    pub pages: u32,
    /// Pages that one read brings in: an aligned group of this size. 1: only the requested page.
    pub readahead: u32,
    /// Pages that a fault maps at most, if they are in the cache.
    pub fault_around: u32,
    /// Whether the file consists of holes: nothing is read, frames are cleared.
    pub sparse: bool,
}

impl FileSpec {
    /// A file with the defaults of a kernel: read-ahead of 32 pages, fault-around of 16.
    #[must_use]
    pub const fn new(pages: u32) -> Self {
        Self { pages, readahead: 32, fault_around: 16, sparse: false }
    }
}

/// Counters of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Page faults.
    pub faults: u64,
    /// Faults whose page was not in the cache; a part of `faults`.
    pub major_faults: u64,
    /// Page-table entries that faults set.
    pub mapped: u64,
    /// Pages added to the cache.
    pub cached: u64,
    /// Pages removed from the cache.
    pub released: u64,
    /// Page-table entries that reclaim and migration removed.
    pub unmapped: u64,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Pages whose write to the store failed. They stay dirty.
    pub write_failed: u64,
}

/// The state of a page of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Slot {
    /// The page is not in the cache.
    #[default]
    Empty,
    /// The page is in this frame.
    Frame(u32),
    /// The page was reclaimed, with this shadow entry.
    Shadow(u64),
}

pub(super) struct File {
    pub(super) spec: FileSpec,
    pub(super) slots: Vec<Cell<Slot>>,
    /// Areas that map the file.
    pub(super) areas: Vec<AreaId>,
    /// Deferred TLB flushes of its pages.
    pub(super) deferred_flush: DeferredFlush,
    lock: ProgramLock,
}

impl File {
    /// Runs `body` under the lock of the file's page-to-frame table.
    pub(super) fn locked<T>(&self, cpu: Cpu<'_>, body: impl FnOnce() -> T) -> T {
        self.lock.with(cpu, body)
    }

    /// The frame of a page, if the page is in the cache.
    pub(super) fn frame(&self, index: u32) -> Option<u32> {
        match self.slots[index as usize].get() {
            Slot::Frame(frame) => Some(frame),
            Slot::Empty | Slot::Shadow(_) => None,
        }
    }
}

/// A sparsely used table.
fn table<T: Default>(entries: u32) -> Vec<T> {
    let mut table = Vec::with_capacity(entries as usize);
    in_huge_pages(table.spare_capacity_mut());
    table.resize_with(entries as usize, T::default);
    table
}

/// A page cache. Files and areas are created before programs run.
pub struct PageCache {
    pub(super) mmu: Mmu,
    pub(super) costs: FileCosts,
    pub(super) store: Store,
    pub(super) pages: Vec<Page>,
    pub(super) files: Vec<File>,
    pub(super) areas: Vec<Area>,
    /// Frames that became dirty, oldest first. Some of them are clean again, or no longer in the
    /// cache.
    pub(super) dirty: RefCell<VecDeque<u32>>,
    /// The number of dirty pages.
    pub(super) dirty_pages: Cell<u64>,
    /// The limit of dirty pages; above it, programs that store wait.
    pub(super) most_dirty: Cell<u64>,
    /// Whether reclaim waits for clean pages.
    pub(super) writers_wanted: Cell<bool>,
    /// Writes in progress, in the order of their ends.
    pub(super) writes: RefCell<VecDeque<Write>>,
    /// With an oracle: frames that were released and not allocated since. Reclaim frees them later.
    pub(super) released: RefCell<BTreeSet<u32>>,
    /// Whether the cache belongs to a memory. It holds frames of that memory, so it cannot be used
    /// with another.
    pub(super) has_memory: Cell<bool>,
    stats: Cell<CacheStats>,
}

impl PageCache {
    /// An empty cache for `frames` frames, above a store.
    #[must_use]
    pub fn new(mmu: &Mmu, model: &Model, frames: u32, store: StoreSpec, costs: FileCosts) -> Self {
        let checks = mmu.oracle().is_some();
        Self {
            mmu: mmu.clone(),
            costs,
            store: Store::new(store, model, checks),
            pages: table(frames),
            files: Vec::new(),
            areas: Vec::new(),
            dirty: RefCell::default(),
            dirty_pages: Cell::new(0),
            most_dirty: Cell::new(if checks { u64::MAX } else { u64::from(frames) / DIRTY_SHARE }),
            writers_wanted: Cell::new(false),
            released: RefCell::default(),
            writes: RefCell::default(),
            has_memory: Cell::new(false),
            stats: Cell::default(),
        }
    }

    /// Creates a file.
    pub fn create(&mut self, spec: FileSpec) -> FileId {
        self.files.push(File {
            spec,
            slots: table(spec.pages),
            areas: Vec::new(),
            deferred_flush: DeferredFlush::new(),
            lock: ProgramLock::default(),
        });
        FileId(self.files.len() as u32 - 1)
    }

    /// Maps a whole file at page `at` of an address space, where nothing is mapped.
    ///
    /// # Panics
    ///
    /// If `at` is not a multiple of 512; or, with an oracle, if other address spaces map the file
    /// at a different page.
    pub fn map(&mut self, space: &AddressSpace, at: u32, file: FileId, writable: bool) -> AreaId {
        let id = AreaId(self.areas.len() as u32);
        let File { spec, areas, .. } = &mut self.files[file.0 as usize];
        areas.push(id);
        let pages = at..at + spec.pages;
        if let Some(oracle) = self.mmu.oracle() {
            let first = areas[0];
            for index in 0..spec.pages {
                match self.areas.get(first.0 as usize) {
                    Some(known) => {
                        assert_eq!(
                            known.pages.start, at,
                            "another address space maps the file at a different page"
                        );
                        oracle.page_shared(space.id(), at + index, known.space.id());
                    }
                    None => oracle.page_mapped(space.id(), at + index),
                }
            }
        }
        self.areas.push(Area::new(space.clone(), file, pages, writable));
        id
    }

    /// Sets the errors of the store from now on.
    pub fn fail(&self, failures: Failures) {
        self.store.fail(failures);
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.stats.get()
    }

    /// The counters of the store so far.
    #[must_use]
    pub fn store_stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// The memory-management units of the machine.
    #[must_use]
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// The address space of an area.
    #[must_use]
    pub fn space(&self, area: AreaId) -> &AddressSpace {
        &self.area(area).space
    }

    /// The number of pages that are dirty or being written.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.dirty_pages.get() + self.writes.borrow().len() as u64
    }

    /// The number of dirty pages.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.dirty_pages.get()
    }

    /// The deferred flushes of the pages of a file.
    #[must_use]
    pub fn deferred_flush(&self, file: FileId) -> &DeferredFlush {
        &self.file(file).deferred_flush
    }

    /// The frame of a page of a file, if it is in the cache.
    #[must_use]
    pub fn frame_of(&self, file: FileId, page: u32) -> Option<u32> {
        self.file(file).frame(page)
    }

    /// Empties the cache after all programs have ended. Returns all frames of pages and page
    /// tables.
    #[must_use]
    pub fn dissolve(&self) -> Vec<u32> {
        let mut frames = Vec::new();
        for area in &self.areas {
            for table in area.pages.clone().step_by(TABLE as usize) {
                if !area.space.reaches(table) {
                    continue;
                }
                for page in table..area.pages.end.min(table + TABLE) {
                    if area.space.peek(page) != Pte::None {
                        area.space.clear_entry(page);
                    }
                }
            }
            area.space.prune(area.pages.clone(), &mut frames);
        }
        for slot in self.files.iter().flat_map(|file| &file.slots) {
            if let Slot::Frame(frame) = slot.take() {
                let page = self.page(frame);
                page.mapped.set(0);
                page.clear();
                frames.push(frame);
            }
        }
        frames
    }

    #[inline]
    pub(super) fn page(&self, frame: u32) -> &Page {
        &self.pages[frame as usize]
    }

    pub(super) fn file(&self, file: FileId) -> &File {
        &self.files[file.0 as usize]
    }

    pub(super) fn area(&self, area: AreaId) -> &Area {
        &self.areas[area.0 as usize]
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut CacheStats)) {
        let mut stats = self.stats.get();
        add(&mut stats);
        self.stats.set(stats);
    }
}
