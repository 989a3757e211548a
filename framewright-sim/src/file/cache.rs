//! The page cache: files, what is in which frame, and what may be wrong with it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use super::{
    AreaId, Failures, FileCosts, FileId, StoreSpec, StoreStats,
    area::{Area, TABLE},
    page::Page,
    store::Store,
    writeback::Write,
};
use crate::{
    engine::{Cpu, LockId, Model},
    host_memory::in_large_pages,
    process::{AddressSpace, Mmu, Pte},
};
use framewright::tlb::DeferredFlush;

/// One frame in so many may be dirty: Linux's `dirty_ratio` of 20 %.
const DIRTY_SHARE: u64 = 5;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSpec {
    /// How many pages.
    pub pages: u32,
    /// Pages that are read at once, neighbours from a multiple of it on. 1: none but what is asked
    /// for.
    pub readahead: u32,
    /// Pages that a fault maps at most, if they are in the cache.
    pub fault_around: u32,
    /// It consists of holes: nothing is read, frames are cleared.
    pub sparse: bool,
}

impl FileSpec {
    /// A file as kernels treat one that nobody said anything about: reads of 32 pages, faults of 16.
    #[must_use]
    pub const fn new(pages: u32) -> Self {
        Self { pages, readahead: 32, fault_around: 16, sparse: false }
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Faults.
    pub faults: u64,
    /// Of these, those that found the page nowhere.
    pub major_faults: u64,
    /// Entries of page tables that faults filled in.
    pub mapped: u64,
    /// Pages put into the cache.
    pub cached: u64,
    /// Pages taken out of it.
    pub released: u64,
    /// Entries that were taken away from pages that were to go.
    pub unmapped: u64,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Pages whose write to the store failed, and that are dirty still.
    pub write_failed: u64,
}

/// What is known of a page of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Slot {
    /// Nothing.
    #[default]
    Empty,
    /// The frame that it is in.
    Frame(u32),
    /// What reclaim left here.
    Shadow(u64),
}

pub(super) struct File {
    pub(super) spec: FileSpec,
    pub(super) slots: Vec<Cell<Slot>>,
    /// Areas that show it.
    pub(super) areas: Vec<AreaId>,
    /// Flushes of its pages that were put off.
    pub(super) owed: DeferredFlush,
    lock: OnceCell<LockId>,
}

impl File {
    /// Does something while nobody else changes what is in which frame.
    pub(super) fn locked<T>(&self, cpu: Cpu<'_>, body: impl FnOnce() -> T) -> T {
        let lock = *self.lock.get_or_init(|| cpu.new_lock());
        cpu.lock(lock);
        let result = body();
        cpu.unlock(lock);
        result
    }

    /// The frame that a page is in.
    pub(super) fn frame(&self, index: u32) -> Option<u32> {
        match self.slots[index as usize].get() {
            Slot::Frame(frame) => Some(frame),
            Slot::Empty | Slot::Shadow(_) => None,
        }
    }
}

/// A table that is used here and there.
fn table<T: Default>(entries: u32) -> Vec<T> {
    let mut table = Vec::with_capacity(entries as usize);
    in_large_pages(table.spare_capacity_mut());
    table.resize_with(entries as usize, T::default);
    table
}

/// See the module. Files and areas are made before programs run.
pub struct PageCache {
    pub(super) mmu: Mmu,
    pub(super) costs: FileCosts,
    pub(super) store: Store,
    pub(super) pages: Vec<Page>,
    pub(super) files: Vec<File>,
    pub(super) areas: Vec<Area>,
    /// Dirty pages, those that became so first in front; some are clean again, or gone.
    pub(super) dirty: RefCell<VecDeque<u32>>,
    /// How many are dirty.
    pub(super) dirty_pages: Cell<u64>,
    /// How many may be before programs wait.
    pub(super) most_dirty: Cell<u64>,
    /// Somebody is in want of clean pages.
    pub(super) writers_wanted: Cell<bool>,
    /// Pages on their way to the store, in the order in which that ends.
    pub(super) writes: RefCell<VecDeque<Write>>,
    /// Where somebody looks: frames that were released, and nobody has asked for since. Reclaim frees
    /// them when it is time.
    pub(super) released: RefCell<BTreeSet<u32>>,
    /// Whether the cache belongs to a memory. It holds frames of that memory, so it cannot be used
    /// with another.
    pub(super) has_memory: Cell<bool>,
    stats: Cell<CacheStats>,
}

impl PageCache {
    /// A cache in `frames` frames, which holds nothing yet, above a store, on a machine.
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

    /// A new file.
    pub fn create(&mut self, spec: FileSpec) -> FileId {
        self.files.push(File {
            spec,
            slots: table(spec.pages),
            areas: Vec::new(),
            owed: DeferredFlush::new(),
            lock: OnceCell::new(),
        });
        FileId(self.files.len() as u32 - 1)
    }

    /// Maps all of a file from page `at` of an address space on, where nothing is mapped.
    ///
    /// # Panics
    ///
    /// If `at` is not a multiple of 512; or, where somebody looks, not where the file is mapped in other
    /// address spaces.
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
                        assert_eq!(known.pages.start, at, "where the file is mapped already");
                        oracle.page_shared(space.id(), at + index, known.space.id());
                    }
                    None => oracle.page_mapped(space.id(), at + index),
                }
            }
        }
        self.areas.push(Area::new(space.clone(), file, pages, writable));
        id
    }

    /// What goes wrong in the store from now on.
    pub fn fail(&self, failures: Failures) {
        self.store.fail(failures);
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.stats.get()
    }

    /// What the store has done so far.
    #[must_use]
    pub fn store_stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// The units of the machine.
    #[must_use]
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// The address space of an area.
    #[must_use]
    pub fn space(&self, area: AreaId) -> &AddressSpace {
        &self.area(area).space
    }

    /// Pages that are dirty, or on their way to the store.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.dirty_pages.get() + self.writes.borrow().len() as u64
    }

    /// Pages that are dirty.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.dirty_pages.get()
    }

    /// Somebody is in want of clean pages: who writes back should, until it finds nothing.
    pub fn wake_writers(&self) {
        self.writers_wanted.set(true);
    }

    /// Whether somebody is.
    #[must_use]
    pub fn wants_writers(&self) -> bool {
        self.writers_wanted.get()
    }

    /// There is nothing to write back any more.
    pub fn writers_done(&self) {
        self.writers_wanted.set(false);
    }

    /// Flushes of the pages of a file that were put off.
    #[must_use]
    pub fn owed(&self, file: FileId) -> &DeferredFlush {
        &self.file(file).owed
    }

    /// Whether a page of a file is in a frame: which.
    #[must_use]
    pub fn frame_of(&self, file: FileId, page: u32) -> Option<u32> {
        self.file(file).frame(page)
    }

    /// Ends everything, when no program runs any more: every frame that holds a page or a page table.
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
                        area.space.forget(page);
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
