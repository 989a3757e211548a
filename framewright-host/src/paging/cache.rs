//! The page cache: files, and the page in each frame.

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
    eviction::{EvictionMethod, Kernel},
    page::{Claim, PageState},
    region::Region,
    stats::{Counters, PagingStats},
    store::Store,
    table::Table,
    unmapped::List,
};
use crate::{HostError, HostMachine, machine::MachineId};

/// The number of a file of a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub(super) u32);

/// A page: its file, and its number in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PageId {
    pub(super) file: FileId,
    pub(super) page: u32,
}

/// A page of a file.
#[derive(Default)]
pub(super) struct Page {
    pub(super) state: PageState,
    /// The shadow entry of its last eviction; 0 if there is none.
    pub(super) shadow: AtomicU64,
}

/// A file with its region and its pages.
pub(super) struct File {
    pub(super) region: Region,
    pub(super) store: Box<dyn Store>,
    pub(super) pages: Table<Page>,
    /// The most pages that one miss reads.
    pub(super) readahead: u32,
    /// The deferred flushes of the region. They need not be performed before a page is used again:
    /// the flush does not free the memory of a page that is used again.
    pub(super) deferred_flush: DeferredFlush,
}

/// The contents of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// No page of a file.
    Empty,
    /// The frame holds this page of a file.
    Holds(PageId),
    /// This page was in the frame until reclaim unmapped it. Reclaim owns the frame.
    Unmapped(PageId),
}

impl Slot {
    fn pack(self) -> u64 {
        let pack = |id: PageId| (u64::from(id.file.0) << 32 | u64::from(id.page)) + 1;
        match self {
            Slot::Empty => 0,
            Slot::Holds(id) => pack(id) << 1,
            Slot::Unmapped(id) => pack(id) << 1 | 1,
        }
    }
}

/// The page cache. Files are added before threads use it. It belongs to the only memory of its machine:
/// [`Pager::run`](super::Pager::run) refuses any other.
pub struct PageCache {
    machine: MachineId,
    frames: FrameRange,
    pub(super) kernel: Kernel,
    pub(super) files: Vec<File>,
    slots: Table<AtomicU64>,
    /// By CPU: unmapped pages whose memory the kernel is to free.
    pub(super) unmapped: Box<[List]>,
    /// Pages that reclaim wrote, whose results are not reported to the library yet.
    pub(super) written: Mutex<Vec<(Pfn, Result<(), WriteError>)>>,
    /// The first panic of a store that reclaim called.
    pub(super) panicked: Mutex<Option<Box<dyn Any + Send>>>,
    pub(super) counters: Counters,
}

impl PageCache {
    /// A cache in the frames of a machine. The cache uses frames only as numbers, so build the
    /// machine with [`Backing::MetadataOnly`](crate::Backing::MetadataOnly).
    ///
    /// # Errors
    ///
    /// [`HostError::NoEviction`]: the kernel frees no memory on request.
    /// [`HostError::OutOfMemory`]: there is no address space for 8 bytes per frame, of which only
    /// those of used frames take memory. [`HostError::TooManyToCache`]: the machine has more than
    /// 2^32 frames.
    pub fn new(machine: &HostMachine) -> Result<Self, HostError> {
        Self::with(machine, Kernel::detect()?)
    }

    /// As [`PageCache::new`], but every call to the kernel frees one range, for comparison.
    ///
    /// # Errors
    ///
    /// As [`PageCache::new`], except [`HostError::NoEviction`].
    pub fn without_vectors(machine: &HostMachine) -> Result<Self, HostError> {
        Self::with(machine, Kernel::ranges())
    }

    fn with(machine: &HostMachine, kernel: Kernel) -> Result<Self, HostError> {
        /// The state word of a page has 32 bits for the number of its frame.
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
            unmapped: (0..machine.cpus()).map(|_| List::default()).collect(),
            written: Mutex::default(),
            panicked: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// Whether the cache was made for this machine.
    pub(super) fn is_for(&self, machine: &HostMachine) -> bool {
        self.machine == machine.id()
    }

    /// Adds a file of `pages` pages with this store. A miss reads up to `readahead` pages,
    /// beginning with the missing one: many for files that are read sequentially, 1 for others.
    ///
    /// # Errors
    ///
    /// [`HostError::OutOfMemory`]: there is no address space for the file, or for its table of 16
    /// bytes per page. The store is dropped then. The table takes memory only for pages that were
    /// used, and for up to 255 neighbours of each.
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
            deferred_flush: DeferredFlush::new(),
        });
        Ok(FileId(self.files.len() as u32 - 1))
    }

    /// The files, in the order in which they were added.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// The system calls that free the memory of pages.
    #[must_use]
    pub fn eviction_method(&self) -> EvictionMethod {
        self.kernel.how()
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> PagingStats {
        self.counters.read()
    }

    /// The number of pages of a file that are in memory.
    ///
    /// # Panics
    ///
    /// If the file is not of this cache.
    #[must_use]
    pub fn resident(&self, file: FileId) -> u64 {
        self.count(file, PageState::is_resident)
    }

    /// The number of pages of a file with memory, as the kernel reports it: pages in the cache, and
    /// unmapped pages whose memory is not freed yet.
    ///
    /// # Panics
    ///
    /// If the file is not of this cache.
    #[must_use]
    pub fn in_memory(&self, file: FileId) -> u64 {
        self.file(file).region.in_memory()
    }

    /// The number of dirty pages of a file.
    ///
    /// # Panics
    ///
    /// If the file is not of this cache.
    #[must_use]
    pub fn dirty(&self, file: FileId) -> u64 {
        self.count(file, PageState::is_dirty)
    }

    /// The number of pages of a file whose last write failed. They are in memory, and dirty.
    ///
    /// # Panics
    ///
    /// If the file is not of this cache.
    #[must_use]
    pub fn failed(&self, file: FileId) -> u64 {
        self.count(file, PageState::has_failed)
    }

    /// Whether any page is evictable: in memory, clean and not in use.
    pub(super) fn has_evictable(&self) -> bool {
        let can_go = |page: &PageState| page.is_resident() && !page.is_dirty() && !page.is_fixed();
        self.files().any(|file| self.count(file, can_go) > 0)
    }

    fn count(&self, file: FileId, is: impl Fn(&PageState) -> bool) -> u64 {
        let pages = &self.file(file).pages;
        pages.marked().filter(|&page| is(&pages[page].state)).count() as u64
    }

    /// Claims a missing page, which the caller then has to read.
    pub(super) fn claim(&self, id: PageId) -> Claim {
        // The page is marked before its state changes, so that scans of the table find it.
        self.file(id.file).pages.mark(id.page as usize);
        self.page(id).state.claim()
    }

    /// All pages of a file that are in memory, and possibly some that are not.
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

    /// The addresses of pages of a file.
    pub(super) fn addresses(&self, file: FileId, pages: Range<u32>) -> Range<usize> {
        self.file(file).region.addresses(pages)
    }

    pub(super) fn list(&self, cpu: CpuId) -> &List {
        &self.unmapped[cpu.index()]
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
        if word & 1 == 0 { Slot::Holds(id) } else { Slot::Unmapped(id) }
    }

    pub(super) fn set_slot(&self, number: u32, slot: Slot) {
        self.slots[number as usize].store(slot.pack(), Release);
    }

    /// Empties a slot if it has not changed. Of concurrent attempts, one succeeds.
    pub(super) fn empty_slot(&self, number: u32, before: Slot) -> bool {
        let slot = &self.slots[number as usize];
        slot.compare_exchange(before.pack(), Slot::Empty.pack(), AcqRel, Relaxed).is_ok()
    }

    /// Removes and returns the shadow entry of a page; 0 if there is none.
    pub(super) fn take_shadow(&self, id: PageId) -> u64 {
        let shadow = &self.page(id).shadow;
        if shadow.load(Relaxed) == 0 { 0 } else { shadow.swap(0, AcqRel) }
    }
}

/// Locks a mutex, also after a panic of a holder.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
