//! The page cache: files, and which page each frame holds.

use std::{
    any::Any,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
};

use framewright::{CpuId, FrameRange, Pfn, reclaim::WriteError, tlb::DeferredFlush};

use super::{
    giving::{GivingUp, Kernel},
    leaving::List,
    page::{Claim, PageState},
    region::Region,
    stats::{Counters, PagingStats},
    store::Store,
    table::Table,
};
use crate::{HostError, HostMachine, machine::MachineId};

/// Names a file of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub(super) u32);

/// Names a page: its file, and which page of that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PageId {
    pub(super) file: FileId,
    pub(super) page: u32,
}

/// A page of a file.
#[derive(Default)]
pub(super) struct Page {
    pub(super) state: PageState,
    /// What reclaim left here; 0: nothing.
    pub(super) shadow: AtomicU64,
}

/// A file, and where its pages are shown.
pub(super) struct File {
    pub(super) region: Region,
    pub(super) store: Box<dyn Store>,
    pub(super) pages: Table<Page>,
    /// Pages that are read at once, if they are asked for in a row.
    pub(super) readahead: u32,
    /// What is owed to the region. Nobody has to settle it: a page that comes back before the kernel
    /// was told is taken off the list of those that leave.
    pub(super) owed: DeferredFlush,
}

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// No page of a file.
    Empty,
    /// This page.
    Holds(PageId),
    /// This page, until it left. Reclaim has the frame.
    Left(PageId),
}

impl Slot {
    fn pack(self) -> u64 {
        let pack = |id: PageId| (u64::from(id.file.0) << 32 | u64::from(id.page)) + 1;
        match self {
            Slot::Empty => 0,
            Slot::Holds(id) => pack(id) << 1,
            Slot::Left(id) => pack(id) << 1 | 1,
        }
    }
}

/// The page cache. Files are added before threads use it. It belongs to the one memory that is made on its
/// machine: [`Pager::run`](super::Pager::run) refuses any other.
pub struct PageCache {
    machine: MachineId,
    frames: FrameRange,
    pub(super) kernel: Kernel,
    pub(super) files: Vec<File>,
    slots: Table<AtomicU64>,
    /// By CPU: pages that the kernel is to take back.
    pub(super) leaving: Box<[List]>,
    /// Pages that reclaim wrote, and was not told of.
    pub(super) written: Mutex<Vec<(Pfn, Result<(), WriteError>)>>,
    /// What a store has panicked with first, while reclaim wrote to it.
    pub(super) panicked: Mutex<Option<Box<dyn Any + Send>>>,
    pub(super) counters: Counters,
}

impl PageCache {
    /// A cache in the frames of a machine, which are numbers to it: make the machine with
    /// [`Backing::MetadataOnly`](crate::Backing::MetadataOnly).
    ///
    /// # Errors
    ///
    /// [`HostError::NoGivingUp`], where the kernel takes no memory back; [`HostError::OutOfMemory`]: there is no
    /// address space for 8 bytes per frame, which take memory for frames that were used; and
    /// [`HostError::TooManyToCache`]: the machine has more than 2^32 frames.
    pub fn new(machine: &HostMachine) -> Result<Self, HostError> {
        Self::with(machine, Kernel::detect()?)
    }

    /// One whose pages are given up one range a call, whatever the kernel can: for comparison.
    ///
    /// # Errors
    ///
    /// As [`PageCache::new`], but for [`HostError::NoGivingUp`].
    pub fn without_vectors(machine: &HostMachine) -> Result<Self, HostError> {
        Self::with(machine, Kernel::ranges())
    }

    fn with(machine: &HostMachine, kernel: Kernel) -> Result<Self, HostError> {
        /// A page's word has 32 bits for the number of its frame.
        const FRAMES_MAX: u64 = 1 << 32;
        let frames = machine.frames();
        if frames.frames() > FRAMES_MAX {
            return Err(HostError::TooManyToCache { frames: frames.frames(), most: FRAMES_MAX });
        }
        Ok(Self {
            machine: machine.id(),
            frames,
            kernel,
            files: Vec::new(),
            slots: Table::new("the table of the frames", frames.frames())?,
            leaving: (0..machine.cpus()).map(|_| List::default()).collect(),
            written: Mutex::default(),
            panicked: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// Whether the cache was made for this machine.
    pub(super) fn is_for(&self, machine: &HostMachine) -> bool {
        self.machine == machine.id()
    }

    /// A file of `pages` pages that `store` keeps. A use that misses a page reads up to `readahead`
    /// pages from it on: many for files that are read from end to end, 1 for others.
    ///
    /// # Errors
    ///
    /// [`HostError::OutOfMemory`]: there is no address space for it, or for its table of pages, 16 bytes per
    /// page. The store is dropped then. The table takes memory for pages that were used, and for up to 255
    /// neighbours of each.
    pub fn add(
        &mut self,
        store: Box<dyn Store>,
        pages: u32,
        readahead: u32,
    ) -> Result<FileId, HostError> {
        self.files.push(File {
            pages: Table::new("the table of the pages of a file", pages.into())?,
            region: Region::new(pages)?,
            store,
            readahead: readahead.max(1),
            owed: DeferredFlush::new(),
        });
        Ok(FileId(self.files.len() as u32 - 1))
    }

    /// Its files, in the order in which they were added.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// How the kernel is told to take pages back.
    #[must_use]
    pub fn giving_up(&self) -> GivingUp {
        self.kernel.how()
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> PagingStats {
        self.counters.read()
    }

    /// Pages of a file that are in memory.
    ///
    /// # Panics
    ///
    /// If the file is none of this cache.
    #[must_use]
    pub fn resident(&self, file: FileId) -> u64 {
        self.count(file, PageState::is_resident)
    }

    /// Pages of a file that the kernel has put memory behind, by its own account: those that are in
    /// memory, and those that it was not told yet to take back.
    ///
    /// # Panics
    ///
    /// If the file is none of this cache.
    #[must_use]
    pub fn in_memory(&self, file: FileId) -> u64 {
        self.file(file).region.in_memory()
    }

    /// Pages of a file that differ from what is stored.
    ///
    /// # Panics
    ///
    /// If the file is none of this cache.
    #[must_use]
    pub fn dirty(&self, file: FileId) -> u64 {
        self.count(file, PageState::is_dirty)
    }

    /// Pages of a file that could not be written when that was tried last. They are in memory, and
    /// dirty.
    ///
    /// # Panics
    ///
    /// If the file is none of this cache.
    #[must_use]
    pub fn failed(&self, file: FileId) -> u64 {
        self.count(file, PageState::has_failed)
    }

    /// Whether a page is in memory that could go: nobody uses it, and it is clean.
    pub(super) fn has_evictable(&self) -> bool {
        let can_go = |page: &PageState| page.is_resident() && !page.is_dirty() && !page.is_fixed();
        self.files().any(|file| self.count(file, can_go) > 0)
    }

    fn count(&self, file: FileId, is: impl Fn(&PageState) -> bool) -> u64 {
        let pages = &self.file(file).pages;
        pages.marked().filter(|&page| is(&pages[page].state)).count() as u64
    }

    /// Takes on to bring a page in.
    pub(super) fn claim(&self, id: PageId) -> Claim {
        // Before anything is known of the page that somebody could look for.
        self.file(id.file).pages.mark(id.page as usize);
        self.page(id).state.claim()
    }

    /// Pages of a file that may be in memory, and others.
    pub(super) fn used(&self, file: FileId) -> impl Iterator<Item = PageId> {
        self.file(file).pages.marked().map(move |page| PageId { file, page: page as u32 })
    }

    /// A file of this cache.
    pub(super) fn file(&self, file: FileId) -> &File {
        &self.files[file.0 as usize]
    }

    pub(super) fn page(&self, PageId { file, page }: PageId) -> &Page {
        &self.file(file).pages[page as usize]
    }

    /// Addresses of pages of a file.
    pub(super) fn addresses(&self, file: FileId, pages: Range<u32>) -> Range<usize> {
        self.file(file).region.addresses(pages)
    }

    pub(super) fn list(&self, cpu: CpuId) -> &List {
        &self.leaving[cpu.index()]
    }

    /// The number of a frame, counted from the first of the machine; `None` if the frame is not of
    /// this machine.
    pub(super) fn number(&self, frame: Pfn) -> Option<u32> {
        let at = frame.get().checked_sub(self.frames.start().get())?;
        u32::try_from(at).ok().filter(|_| at < self.frames.frames())
    }

    /// The contents of the frame with this number.
    pub(super) fn slot(&self, number: u32) -> Slot {
        let word = self.slots[number as usize].load(Acquire);
        let Some(packed) = (word >> 1).checked_sub(1) else { return Slot::Empty };
        let id = PageId { file: FileId((packed >> 32) as u32), page: packed as u32 };
        if word & 1 == 0 { Slot::Holds(id) } else { Slot::Left(id) }
    }

    pub(super) fn set_slot(&self, number: u32, slot: Slot) {
        self.slots[number as usize].store(slot.pack(), Release);
    }

    /// Empties a slot if it has not changed. Of concurrent attempts, one succeeds.
    pub(super) fn empty_slot(&self, number: u32, before: Slot) -> bool {
        let slot = &self.slots[number as usize];
        slot.compare_exchange(before.pack(), Slot::Empty.pack(), AcqRel, Relaxed).is_ok()
    }

    /// What reclaim left of a page, which is there once.
    pub(super) fn take_shadow(&self, id: PageId) -> u64 {
        let shadow = &self.page(id).shadow;
        if shadow.load(Relaxed) == 0 { 0 } else { shadow.swap(0, AcqRel) }
    }
}

/// A mutex that does not mind that somebody has panicked.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
