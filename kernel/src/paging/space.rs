//! Address spaces: their page tables, and the CPUs that have them loaded.
//!
//! While an address space exists, page tables are added to it (a compare-exchange decides between
//! two CPUs) but not removed: all tables are freed when the address space ends. A walk therefore
//! takes no lock. An address space is stored in a frame of its own. [`AddressSpace::by_number`]
//! returns the address space while its [`Space`] exists.
//!
//! **The CPUs that have it loaded.** A CPU that removes a translation changes the entry, then
//! advances the generation with a full barrier, and then reads the mask of CPUs. A CPU that loads
//! the address space sets its bit in the mask first, with a full barrier, and then reads the
//! generation and loads the root, which flushes its TLB. So the loading CPU is either in the mask
//! and is interrupted, or it reads the changed entry.

#![allow(unsafe_code)]

use core::{
    ops::Deref,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

use framewright::{
    MigrateType, Order, Pfn, Request,
    tlb::{CpuMask, DeferredFlush},
};

use super::{
    Area,
    entry::{Entry, Slot, Table},
};
use crate::{
    boot::MemoryMap,
    cpu::{Cpu, control, this_cpu},
    frames, own, shootdown,
    wait::{self, Event},
};

/// The maximum number of address spaces: the owner word of a frame has six bits for their numbers.
const MOST: usize = 64;
/// The greatest number of areas of an address space.
const AREAS: usize = 8;
/// The request for a page table.
const TABLE: Request = Request::new(Order::ZERO, MigrateType::Unmovable).zeroed();
const GIB: u64 = 1 << 30;

static SPACES: [AtomicPtr<AddressSpace>; MOST] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST];

/// The numbers in use, one bit each.
static NUMBERS: AtomicU64 = AtomicU64::new(0);
/// For each number, how many [`Found`] values refer to the address space with this number.
static USERS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];

unsafe extern "C" {
    static boot_pml4: Table;
    static boot_pdpt: Table;
}

/// An address space.
pub(crate) struct AddressSpace {
    number: u32,
    root: Pfn,
    areas: [Option<Area>; AREAS],
    /// The number of removals of translations.
    generation: AtomicU64,
    /// CPUs that have it loaded, one bit each.
    cpus: AtomicU64,
    /// Its deferred flushes.
    deferred_flush: DeferredFlush,
}

/// An address space and the right to end it.
pub(crate) struct Space(&'static AddressSpace);

/// An address space that was found by its number, and does not end before this value is dropped.
pub(crate) struct Found(&'static AddressSpace);

impl Deref for Found {
    type Target = AddressSpace;

    fn deref(&self) -> &AddressSpace {
        self.0
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        let number = self.0.number as usize;
        if USERS[number].fetch_sub(1, Ordering::SeqCst) == 1 {
            wait::wake(Event::SERVED);
        }
    }
}

impl Deref for Space {
    type Target = AddressSpace;

    fn deref(&self) -> &AddressSpace {
        self.0
    }
}

/// The table in a frame.
fn table(pfn: Pfn) -> &'static Table {
    // SAFETY: the frame is a page table: page-aligned, of atomics, and freed when no CPU has the
    // address space loaded and none walks it.
    unsafe { &*(frames::address(pfn) as *const Table) }
}

/// The table of an entry.
#[inline(always)]
fn next_table(entry: Entry) -> Option<&'static Table> {
    entry.is_present().then(|| table(entry.pfn()))
}

fn new_table() -> Option<Pfn> {
    own::alloc(TABLE)
}

fn free_table(pfn: Pfn) {
    // SAFETY: the frame is a table without users, and was a block of order 0.
    unsafe { own::free(pfn, Order::ZERO) };
}

impl AddressSpace {
    /// An address space with these areas; `None` if there is no memory, or if there are too many
    /// address spaces.
    pub(crate) fn create(areas: &[Area]) -> Option<Space> {
        let number = take_number()?;
        let mut all = [None; AREAS];
        for (slot, area) in all.iter_mut().zip(areas) {
            *slot = Some(*area);
        }
        let tables = [new_table(), new_table()];
        let [Some(root), Some(place)] = tables else {
            tables.into_iter().flatten().for_each(free_table);
            NUMBERS.fetch_and(!(1 << number), Ordering::AcqRel);
            return None;
        };
        // SAFETY: the boot tables are never freed.
        let kernel = unsafe { boot_pml4.0[0].get() };
        table(root).0[0].replace(kernel);
        let space = Self {
            number: number as u32,
            root,
            areas: all,
            generation: AtomicU64::new(1),
            cpus: AtomicU64::new(0),
            deferred_flush: DeferredFlush::new(),
        };
        const { assert!(size_of::<AddressSpace>() <= frames::BYTES as usize) };
        // SAFETY: the frame was allocated above, and is large enough.
        let space = unsafe {
            let place = frames::address(place) as *mut AddressSpace;
            place.write(space);
            &*place
        };
        SPACES[number].store(core::ptr::from_ref(space).cast_mut(), Ordering::Release);
        Some(Space(space))
    }

    /// The address space with a number, if there is one. Owner words of frames contain such
    /// numbers.
    pub(crate) fn by_number(number: u32) -> Option<Found> {
        let (slot, users) = (SPACES.get(number as usize)?, USERS.get(number as usize)?);
        // The count is set first: `Space::end` removes the address space, and then reads the count.
        users.fetch_add(1, Ordering::SeqCst);
        // SAFETY: an address space in its slot does not end before its users have dropped it.
        match unsafe { slot.load(Ordering::SeqCst).as_ref() } {
            Some(space) => Some(Found(space)),
            None => {
                users.fetch_sub(1, Ordering::SeqCst);
                wait::wake(Event::SERVED);
                None
            }
        }
    }

    /// The address space that a CPU has loaded.
    #[inline(always)]
    pub(crate) fn loaded_on(cpu: &Cpu) -> Option<&'static AddressSpace> {
        // SAFETY: an address space is not ended while it is loaded.
        unsafe { cpu.loaded.load(Ordering::Relaxed).as_ref() }
    }

    /// The number.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The deferred flushes.
    pub(crate) fn deferred_flush(&self) -> &DeferredFlush {
        &self.deferred_flush
    }

    /// The area that contains a page.
    #[inline(always)]
    pub(crate) fn area_of(&self, page: u64) -> Option<&Area> {
        self.areas.iter().flatten().find(|area| area.contains(page))
    }

    /// Records the removal of translations. Returns the CPUs that may have cached them.
    pub(crate) fn advance(&self) -> CpuMask {
        self.generation.fetch_add(1, Ordering::SeqCst);
        CpuMask::from_words(&[self.cpus.load(Ordering::SeqCst)])
    }

    /// The entry of a page, if there is a table for it.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> Option<&'static Slot> {
        Some(&self.table_of(page)?.0[page as usize % 512])
    }

    /// The entries of a page and of the pages after it in the same table; empty if there is no
    /// table.
    pub(crate) fn find_many(&self, page: u64) -> &'static [Slot] {
        self.table_of(page).map_or(&[], |table| &table.0[page as usize % 512..])
    }

    /// The table with the entry of a page.
    #[inline(always)]
    fn table_of(&self, page: u64) -> Option<&'static Table> {
        let top = table(self.root).0[1].get();
        let upper = next_table(top)?.0[(page >> 18) as usize % 512].get();
        let lower = next_table(upper)?.0[(page >> 9) as usize % 512].get();
        next_table(lower)
    }

    /// The entry of a page. Missing tables are added; `None` if there is no memory.
    #[inline]
    pub(crate) fn find_or_make(&self, page: u64) -> Option<&'static Slot> {
        match self.find(page) {
            Some(slot) => Some(slot),
            None => self.make(page),
        }
    }

    #[cold]
    fn make(&self, page: u64) -> Option<&'static Slot> {
        let mut at = &table(self.root).0[1];
        for level in [18, 9, 0] {
            if at.get().is_none() {
                let new = new_table()?;
                if !at.install(Entry::table(new)) {
                    free_table(new);
                }
            }
            at = &table(at.get().pfn()).0[(page >> level) as usize % 512];
        }
        Some(at)
    }

    /// Loads the address space on this CPU.
    pub(crate) fn load(&'static self) {
        let cpu = this_cpu();
        let bit = 1 << cpu.id.index();
        control::disable_interrupts();
        let load = || {
            // Flushers skip lazy CPUs and CPUs outside the mask. From the load below on, this CPU
            // may cache translations, so they must not skip it.
            cpu.lazy.store(false, Ordering::SeqCst);
            self.cpus.fetch_or(bit, Ordering::SeqCst);
            cpu.generation.set(self.generation.load(Ordering::SeqCst));
            // SAFETY: the first entry of every root maps the kernel.
            unsafe { control::load_page_table_root(frames::address(self.root)) };
            let before = Self::loaded_on(cpu).filter(|before| before.number != self.number);
            cpu.loaded.store(core::ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
            if let Some(before) = before {
                before.cpus.fetch_and(!bit, Ordering::SeqCst);
            }
        };
        // SAFETY: a load of `cr3`, even of the same root, flushes all user translations. Global
        // entries map the kernel alone.
        unsafe { shootdown::flusher().record_full_flush(load) };
        control::enable_interrupts();
    }

    /// Loads the kernel's own page tables on this CPU.
    pub(crate) fn unload() {
        let cpu = this_cpu();
        control::disable_interrupts();
        let unload = || {
            // SAFETY: the kernel's own tables.
            unsafe { control::load_page_table_root(&raw const boot_pml4 as u64) };
            if let Some(before) = Self::loaded_on(cpu) {
                before.cpus.fetch_and(!(1 << cpu.id.index()), Ordering::SeqCst);
            }
            cpu.loaded.store(core::ptr::null_mut(), Ordering::Relaxed);
        };
        // SAFETY: a load of `cr3` flushes all user translations. Global entries map the kernel
        // alone.
        unsafe { shootdown::flusher().record_full_flush(unload) };
        cpu.lazy.store(true, Ordering::SeqCst);
        control::enable_interrupts();
    }
}

impl Space {
    /// The address space, for CPUs to load. The reference is not used after the end of this value.
    pub(crate) fn get(&self) -> &'static AddressSpace {
        self.0
    }

    /// Ends the address space. No CPU has it loaded, and no page is mapped in it.
    pub(crate) fn end(self) {
        let space = self.0;
        let loaded = space.cpus.load(Ordering::SeqCst);
        assert!(loaded == 0, "address space {} is loaded on a CPU", space.number);
        let number = space.number as usize;
        SPACES[number].store(core::ptr::null_mut(), Ordering::SeqCst);
        wait::until(Event::SERVED, || USERS[number].load(Ordering::SeqCst) == 0);
        // CPUs may have cached the tables that they walked. The load of other tables has flushed
        // these caches.
        let directory = table(space.root).0[1].take();
        if directory.is_present() {
            free_tables(directory.pfn(), 2);
        }
        free_table(space.root);
        free_table(Pfn::new(core::ptr::from_ref(space) as u64 / frames::BYTES));
        NUMBERS.fetch_and(!(1 << number), Ordering::AcqRel);
    }
}

/// Takes a free number; `None` if there is none.
fn take_number() -> Option<usize> {
    loop {
        let taken = NUMBERS.load(Ordering::Relaxed);
        let number = taken.trailing_ones() as usize;
        if number == MOST {
            return None;
        }
        if NUMBERS.fetch_or(1 << number, Ordering::AcqRel) >> number & 1 == 0 {
            return Some(number);
        }
    }
}

/// Frees a table and the `levels` levels of tables below it.
fn free_tables(pfn: Pfn, levels: u32) {
    if levels > 0 {
        let entries = table(pfn).0.iter().map(Slot::take).filter(|entry| entry.is_present());
        entries.for_each(|entry| free_tables(entry.pfn(), levels - 1));
    }
    free_table(pfn);
}

/// Flushes all translations of this CPU except the kernel's.
pub(crate) fn flush_everything() {
    // SAFETY: the same page tables again.
    unsafe { control::load_page_table_root(control::page_table_root()) };
}

/// Maps memory above the 4 GiB that `boot.s` maps, in pages of 1 GiB. Called by the first CPU
/// before any of it is used.
pub(crate) fn map_high_memory(map: &MemoryMap) {
    for gib in 4..map.end().div_ceil(GIB).min(512) {
        // SAFETY: the boot tables are never freed; entries are atomics.
        unsafe { boot_pdpt.0[gib as usize].replace(Entry::kernel_gib(gib * GIB)) };
    }
}
