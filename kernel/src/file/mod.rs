//! Files: a page cache above a RAM disk, and the library's [`PageOwner`], which reclaims its pages.
//!
//! # Theory of operation
//!
//! A page of a file is absent, was evicted and left a shadow entry, or is in a frame: one word per
//! page stores this state. A bit in the flags of a frame is its lock. A CPU that maps a page holds
//! the lock, and reclaim holds it from its first call to the last. A page that reclaim has unmapped
//! therefore stays unmapped until it is released or unlocked.
//!
//! Every address space that maps a file maps all of it, from page 0 on. This gives the reverse
//! mapping: the owner word of a frame has the page of the file, and the file has its address
//! spaces.
//!
//! The disk is memory: it stores one word for each page, and a read fills the page with this word.
//! Workloads store only the first word of a page, or the same word everywhere.
//!
//! | module | job |
//! |---|---|
//! | `owner` | the library's calls of the owner of pages |
//! | `moving` | migration of pages of the file |

#![allow(unsafe_code)]

pub(crate) mod moving;
mod owner;
mod words;

use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use framewright::{
    MigrateType, Order, Pfn, Request,
    reclaim::{FreedBy, PageKind, Shadow},
    tlb::{DeferredFlush, Scope, Translation, Unmapping},
};

pub(crate) use owner::Owner;
pub(crate) use words::{Words, words};

use crate::{
    cpu::{self, Cpu},
    frames,
    memory::{self, memory},
    paging::{AddressSpace, Entry, Slot},
    platform::Machine,
    shootdown,
    wait::{self, Event},
};

/// A page of a file.
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
/// Address spaces that can map a file.
const MAPPINGS: usize = crate::cpu::MAX_CPUS;

/// Flags of a frame of a file.
const LOCKED: u8 = 1;
const DIRTY: u8 = 2;
/// The page is claimed for migration, and was on the active list.
const ACTIVE: u8 = 4;

/// The state of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    Absent,
    Evicted(Shadow),
    Present(Pfn),
}

impl Cached {
    fn word(self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Evicted(shadow) => shadow.into_raw() << 2 | 1,
            Self::Present(pfn) => pfn.get() << 2 | 2,
        }
    }

    fn of(word: u64) -> Self {
        match word & 3 {
            1 => Self::Evicted(Shadow::from_raw(word >> 2)),
            2 => Self::Present(Pfn::new(word >> 2)),
            _ => Self::Absent,
        }
    }
}

/// The open file: one at a time.
static FILE: AtomicPtr<File> = AtomicPtr::new(core::ptr::null_mut());
/// The same file for migrations, until the last of them has ended.
static MOVING: AtomicPtr<File> = AtomicPtr::new(core::ptr::null_mut());
/// Pages that reclaim released so far.
pub(crate) static RECLAIMED: AtomicU64 = AtomicU64::new(0);
/// Pages written to the disk so far.
pub(crate) static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// A file.
pub(crate) struct File {
    /// The state of each page, as [`Cached`].
    cache: &'static [AtomicU64],
    /// The first word of each page.
    disk: &'static [AtomicU64],
    /// The address spaces that map it.
    mappings: [Option<&'static AddressSpace>; MAPPINGS],
    deferred_flush: DeferredFlush,
}

impl File {
    /// A file in which page n begins with `content(n)`. `cache` and `disk` have a word for each
    /// page.
    pub(crate) fn new(
        cache: &'static [AtomicU64],
        disk: &'static [AtomicU64],
        content: impl Fn(u64) -> u64,
    ) -> Self {
        for (page, (cached, word)) in (0..).zip(cache.iter().zip(disk)) {
            cached.store(Cached::Absent.word(), Ordering::Relaxed);
            word.store(content(page), Ordering::Relaxed);
        }
        Self { cache, disk, mappings: [None; MAPPINGS], deferred_flush: DeferredFlush::new() }
    }

    /// Sets the address spaces that map the file from page 0 on.
    pub(crate) fn map_in(&mut self, spaces: impl Iterator<Item = &'static AddressSpace>) {
        for (slot, space) in self.mappings.iter_mut().zip(spaces) {
            *slot = Some(space);
        }
    }

    /// Opens the file for faults and reclaim.
    ///
    /// # Safety
    ///
    /// The file is neither moved nor dropped before [`File::close`].
    pub(crate) unsafe fn open(&self) {
        let file = core::ptr::from_ref(self).cast_mut();
        MOVING.store(file, Ordering::Release);
        FILE.store(file, Ordering::Release);
    }

    fn current() -> Option<&'static Self> {
        // SAFETY: null, or a file that is valid until it is closed.
        unsafe { FILE.load(Ordering::Acquire).as_ref() }
    }

    /// Closes the file: unmaps and frees all of its pages. No CPU may access them any more. Called
    /// by the first CPU, outside of any job.
    pub(crate) fn close(&self) {
        FILE.store(core::ptr::null_mut(), Ordering::Release);
        // CPUs run a job between two steps of their threads. After it, no CPU reclaims from this
        // file, and earlier migrations have ended.
        cpu::run_on_all(&|_| ());
        MOVING.store(core::ptr::null_mut(), Ordering::Release);
        for space in self.mappings.iter().flatten() {
            let slots = (0..self.cache.len() as u64).filter_map(|page| space.find(page));
            slots.for_each(|slot| _ = slot.take());
            shootdown::flusher().flush(&space.advance(), Scope::Everything);
            shootdown::flusher().flush_deferred(space.deferred_flush());
        }
        shootdown::flusher().flush_deferred(&self.deferred_flush);
        for cached in self.cache {
            if let Cached::Present(pfn) = Cached::of(cached.swap(0, Ordering::AcqRel)) {
                set_flags(pfn, 0);
                // SAFETY: the page has no users any more.
                let whose = memory().lru().map(|lru| unsafe { lru.abandon(pfn) });
                if !matches!(whose, Some(FreedBy::Isolator)) {
                    free(pfn);
                }
            }
        }
        // Frames that wait for a flush are not free yet.
        shootdown::flusher().drain_deferred(&mut |blocks| {
            blocks.for_each(|block| free(block.into_raw().0));
        });
    }

    /// The page of a frame, if it is in this file.
    fn page_of(&self, pfn: Pfn) -> Option<u64> {
        let page = u64::from(memory().frame_owner(pfn)?.load(Ordering::Acquire));
        let cached = self.cache.get(page as usize)?.load(Ordering::Acquire);
        (Cached::of(cached) == Cached::Present(pfn)).then_some(page)
    }

    /// The mappings of a frame of the file.
    fn mappings_of(
        &'static self,
        pfn: Pfn,
    ) -> impl Iterator<Item = (&'static AddressSpace, u64, &'static Slot)> {
        let page = self.page_of(pfn);
        self.mappings.iter().flatten().filter_map(move |&space| {
            let slot = space.find(page?)?;
            let entry = slot.get();
            (entry.is_present() && entry.pfn() == pfn).then_some((space, page?, slot))
        })
    }
}

/// Removes all mappings of a locked page, into a flush batch.
fn unmap(file: &'static File, pfn: Pfn, batch: &mut Unmapping<'_, '_, '_, Machine>) {
    for (space, page, slot) in file.mappings_of(pfn) {
        let entry = slot.take();
        let cpus = space.advance();
        if entry.is_dirty() {
            flags(pfn).fetch_or(DIRTY, Ordering::AcqRel);
        }
        batch.add(
            pfn,
            &Translation {
                cpus: &cpus,
                writable: entry.is_writable(),
                dirty: entry.is_dirty(),
                space: space.number().into(),
                page,
                space_flush: space.deferred_flush(),
                file_flush: Some(&file.deferred_flush),
            },
        );
    }
}

fn free(pfn: Pfn) {
    // SAFETY: a page of a file is a block of order 0, and has no users any more.
    unsafe { memory::free(pfn, Order::ZERO) };
}

fn flags(pfn: Pfn) -> &'static AtomicU8 {
    memory().frame_flags(pfn).expect("the memory has flags of its frames")
}

fn set_flags(pfn: Pfn, to: u8) {
    flags(pfn).store(to, Ordering::Release);
}

fn try_lock(pfn: Pfn) -> bool {
    flags(pfn).fetch_or(LOCKED, Ordering::AcqRel) & LOCKED == 0
}

fn wait_for_lock(pfn: Pfn) {
    wait::until(Event::SERVED, || flags(pfn).load(Ordering::Acquire) & LOCKED == 0);
}

fn unlock(pfn: Pfn) {
    flags(pfn).fetch_and(!LOCKED, Ordering::AcqRel);
    wait::wake(Event::SERVED);
}

/// Handles a fault on page `page` of the file. Returns whether the page is mapped now.
pub(crate) fn serve(cpu: &Cpu, space: &AddressSpace, page: u64, slot: &Slot, write: bool) -> bool {
    with_page(cpu, page, |file, pfn| map(file, space, pfn, slot, write))
}

/// Reads a page of the file without mapping it. Returns whether all of its words are `word`; `None`
/// if there is no memory for it.
pub(crate) fn read_page(cpu: &Cpu, page: u64, word: u64) -> Option<bool> {
    let mut holds = false;
    let was_read = with_page(cpu, page, |_, pfn| {
        holds = frames::words(pfn).all(|found| found == word);
        if let Some(lru) = memory().lru() {
            lru.mark_accessed(cpu.id, pfn);
        }
    });
    was_read.then_some(holds)
}

/// Fills a page of the file with a word. Returns whether there was memory for it.
pub(crate) fn write_page(cpu: &Cpu, page: u64, word: u64) -> bool {
    with_page(cpu, page, |_, pfn| {
        frames::fill(pfn, Order::ZERO, word);
        flags(pfn).fetch_or(DIRTY, Ordering::AcqRel);
    })
}

/// Runs `work` with the frame of a page, which is locked meanwhile. A missing page is read. Returns
/// `false` if there is no memory for it, or no such page.
fn with_page(cpu: &Cpu, page: u64, mut work: impl FnMut(&'static File, Pfn)) -> bool {
    let Some(file) = File::current() else { return false };
    let Some(cached) = file.cache.get(page as usize) else { return false };
    loop {
        let word = cached.load(Ordering::Acquire);
        let found = Cached::of(word);
        if let Cached::Present(pfn) = found {
            if !try_lock(pfn) {
                wait_for_lock(pfn);
                continue;
            }
            let still = cached.load(Ordering::Acquire) == word;
            if still {
                work(file, pfn);
            }
            unlock(pfn);
            if still {
                return true;
            }
        } else if let Some(pfn) = read(file, page) {
            let new = Cached::Present(pfn).word();
            if cached.compare_exchange(word, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                unlock(pfn);
                free(pfn);
                continue;
            }
            work(file, pfn);
            if let Some(lru) = memory().lru() {
                match found {
                    Cached::Evicted(shadow) => {
                        lru.add_refaulted(cpu.id, pfn, PageKind::File, shadow);
                    }
                    _ => _ = lru.add(cpu.id, pfn, PageKind::File),
                }
            }
            unlock(pfn);
            return true;
        } else {
            return false;
        }
    }
}

/// A new locked frame with the disk's contents of a page.
fn read(file: &File, page: u64) -> Option<Pfn> {
    let pfn = memory::alloc(PAGE)?;
    frames::fill(pfn, Order::ZERO, file.disk[page as usize].load(Ordering::Acquire));
    // A CPU that found an earlier page in this frame may hold the lock until it has checked the
    // page.
    while !try_lock(pfn) {
        wait_for_lock(pfn);
    }
    if let Some(owner) = memory().frame_owner(pfn) {
        owner.store(page as u32, Ordering::Release);
    }
    Some(pfn)
}

/// Maps a locked page; for stores, after its deferred flushes are done.
fn map(file: &File, space: &AddressSpace, pfn: Pfn, slot: &Slot, write: bool) {
    let entry = Entry::page(pfn).accessed();
    if write {
        let flusher = shootdown::flusher();
        flusher.flush_deferred(space.deferred_flush());
        flusher.flush_deferred(&file.deferred_flush);
        // No other CPU changes the entry of a locked page, except to the same value. A CPU with a
        // cached read-only translation reads the entry again on a store.
        slot.map_for_stores(entry.writable());
    } else {
        // If another CPU was faster, it has mapped the same page.
        slot.install(entry);
    }
}
