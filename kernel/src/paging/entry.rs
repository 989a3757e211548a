//! Page-table entries: the CPU reads them, and sets their accessed and dirty bits.

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::Pfn;

use crate::wait::{self, Event};

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
/// A migration entry, which is not present for the CPU: the page is being migrated.
const MOVING: u64 = 1 << 9;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// A page-table entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Entry(u64);

impl Entry {
    /// The empty entry.
    pub(crate) const NONE: Self = Self(0);

    /// An entry of a read-only page.
    pub(crate) const fn page(pfn: Pfn) -> Self {
        Self(pfn.get() << 12 | PRESENT)
    }

    /// An entry of a table of the next level.
    pub(crate) const fn table(pfn: Pfn) -> Self {
        Self(pfn.get() << 12 | PRESENT | WRITABLE | ACCESSED)
    }

    /// An entry of a GiB of the kernel, at an address that is a multiple of 1 GiB.
    pub(crate) const fn kernel_gib(address: u64) -> Self {
        Self(address | PRESENT | WRITABLE | LARGE | GLOBAL)
    }

    /// The same page, writable.
    #[must_use]
    pub(crate) const fn writable(self) -> Self {
        Self(self.0 | WRITABLE)
    }

    /// The same page, with the accessed bit.
    #[must_use]
    pub(crate) const fn accessed(self) -> Self {
        Self(self.0 | ACCESSED)
    }

    /// The same page, with the dirty bit.
    #[must_use]
    pub(crate) const fn dirty(self) -> Self {
        Self(self.0 | DIRTY)
    }

    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    pub(crate) const fn is_writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    pub(crate) const fn is_accessed(self) -> bool {
        self.0 & ACCESSED != 0
    }

    pub(crate) const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Whether the page is being migrated: code that needs it waits.
    pub(crate) const fn is_moving(self) -> bool {
        self.0 & (PRESENT | MOVING) == MOVING
    }

    /// The frame of the entry.
    pub(crate) const fn pfn(self) -> Pfn {
        Pfn::new((self.0 & FRAME) >> 12)
    }
}

/// An entry in a table. The CPU changes its bits at any time, so every change is one atomic
/// operation.
#[repr(transparent)]
pub(crate) struct Slot(AtomicU64);

impl Slot {
    /// The current entry.
    #[inline(always)]
    pub(crate) fn get(&self) -> Entry {
        Entry(self.0.load(Ordering::Acquire))
    }

    /// Replaces an empty entry. Returns whether it was empty.
    #[inline(always)]
    pub(crate) fn install(&self, entry: Entry) -> bool {
        self.change(0, entry.0)
    }

    /// Replaces an entry; returns the old one.
    #[inline(always)]
    pub(crate) fn replace(&self, entry: Entry) -> Entry {
        Entry(self.0.swap(entry.0, Ordering::AcqRel))
    }

    /// Replaces an entry by one that allows stores. If the same page is mapped, its accessed and
    /// dirty bits are kept, because another CPU may be storing to it now.
    pub(crate) fn map_for_stores(&self, entry: Entry) {
        let with = |now: u64| {
            let same = Entry(now).is_present() && Entry(now).pfn() == entry.pfn();
            Some(if same { now | entry.0 } else { entry.0 })
        };
        let changed = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, with);
        debug_assert!(changed.is_ok(), "the update always succeeds");
    }

    /// Clears the entry; returns the old one.
    #[inline(always)]
    pub(crate) fn take(&self) -> Entry {
        self.replace(Entry::NONE)
    }

    /// Waits for the end of a migration, then clears the entry. Returns the old entry, which is
    /// present or empty.
    #[inline(always)]
    pub(crate) fn take_after_migration(&self) -> Entry {
        loop {
            let entry = self.get();
            if entry.is_present() {
                if self.change(entry.0, 0) {
                    return entry;
                }
            } else if entry.is_none() {
                return Entry::NONE;
            } else {
                self.wait_while_moving();
            }
        }
    }

    /// Replaces the entry of a page in `pfn` by a migration entry; returns the old one, or `None`
    /// if the page is not mapped here.
    pub(crate) fn begin_move(&self, pfn: Pfn) -> Option<Entry> {
        loop {
            let entry = self.get();
            if !entry.is_present() || entry.pfn() != pfn {
                return None;
            }
            if self.change(entry.0, entry.0 & !PRESENT | MOVING) {
                return Some(entry);
            }
        }
    }

    /// Ends the migration of a page from `pfn` to `to`: maps it with the rights and bits it had. No
    /// other code changes a migration entry.
    pub(crate) fn end_move(&self, pfn: Pfn, to: Pfn) {
        let entry = self.get();
        debug_assert!(entry.is_moving() && entry.pfn() == pfn, "{pfn} is being migrated");
        self.replace(Entry(entry.0 & !(FRAME | MOVING) | PRESENT | to.get() << 12));
    }

    /// Waits until the migration of the page has ended.
    #[cold]
    pub(crate) fn wait_while_moving(&self) {
        wait::until(Event::SERVED, || !self.get().is_moving());
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Clears the accessed bit; returns whether it was set. No translation is flushed, so accesses
    /// through a cached translation do not set the bit again.
    pub(crate) fn clear_accessed(&self) -> bool {
        self.0.fetch_and(!ACCESSED, Ordering::AcqRel) & ACCESSED != 0
    }
}

/// A page table.
#[repr(C, align(4096))]
pub(crate) struct Table(pub(crate) [Slot; 512]);
