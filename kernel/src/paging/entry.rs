//! Page-table entries, as the CPU reads them and writes their accessed and dirty bits.

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::Pfn;

use crate::wait::{self, Event};

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
/// Not the CPU's, which sees that nothing is present: the page is on its way to another frame.
const MOVING: u64 = 1 << 9;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Entry(u64);

impl Entry {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);

    /// A page that can be read.
    pub(crate) const fn page(pfn: Pfn) -> Self {
        Self(pfn.get() << 12 | PRESENT)
    }

    /// A table of the next level.
    pub(crate) const fn table(pfn: Pfn) -> Self {
        Self(pfn.get() << 12 | PRESENT | WRITABLE | ACCESSED)
    }

    /// A GiB of the kernel's own, from an address that is a multiple of it.
    pub(crate) const fn kernel_gib(address: u64) -> Self {
        Self(address | PRESENT | WRITABLE | LARGE | GLOBAL)
    }

    /// The same page, writable.
    #[must_use]
    pub(crate) const fn writable(self) -> Self {
        Self(self.0 | WRITABLE)
    }

    /// The same page, as if the CPU had read it.
    #[must_use]
    pub(crate) const fn accessed(self) -> Self {
        Self(self.0 | ACCESSED)
    }

    /// The same page, as if the CPU had stored to it.
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

    /// Whether the page is on its way to another frame: whoever wants it, waits.
    pub(crate) const fn is_moving(self) -> bool {
        self.0 & (PRESENT | MOVING) == MOVING
    }

    /// The frame that it leads to.
    pub(crate) const fn pfn(self) -> Pfn {
        Pfn::new((self.0 & FRAME) >> 12)
    }
}

/// An entry in its place. The CPU changes its bits at any time, so every change is one atomic step.
#[repr(transparent)]
pub(crate) struct Slot(AtomicU64);

impl Slot {
    /// What it says.
    #[inline(always)]
    pub(crate) fn get(&self) -> Entry {
        Entry(self.0.load(Ordering::Acquire))
    }

    /// Puts an entry where there is none; whether there was none.
    #[inline(always)]
    pub(crate) fn install(&self, entry: Entry) -> bool {
        self.change(0, entry.0)
    }

    /// Puts an entry there, whatever there was; what there was.
    #[inline(always)]
    pub(crate) fn replace(&self, entry: Entry) -> Entry {
        Entry(self.0.swap(entry.0, Ordering::AcqRel))
    }

    /// Puts an entry that allows stores there, whatever there was. Where the same page is mapped, what the
    /// CPU has noted of it stays: else a store that another CPU makes now would be forgotten.
    pub(crate) fn map_for_stores(&self, entry: Entry) {
        let with = |now: u64| {
            let same = Entry(now).is_present() && Entry(now).pfn() == entry.pfn();
            Some(if same { now | entry.0 } else { entry.0 })
        };
        let changed = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, with);
        debug_assert!(changed.is_ok(), "it always has something to put there");
    }

    /// Takes the entry out; what it said last.
    #[inline(always)]
    pub(crate) fn take(&self) -> Entry {
        self.replace(Entry::NONE)
    }

    /// Takes the entry out, when the page is not on its way any more; what it said last. What is not present is
    /// nothing, or on its way.
    #[inline(always)]
    pub(crate) fn take_settled(&self) -> Entry {
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

    /// The page of `pfn`, if it is mapped here, is on its way from now on; what the entry said.
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

    /// The page that is on its way from `pfn` is at `to` now, mapped as it was. Nobody else changes the
    /// entry of such a page.
    pub(crate) fn end_move(&self, pfn: Pfn, to: Pfn) {
        let entry = self.get();
        debug_assert!(entry.is_moving() && entry.pfn() == pfn, "{pfn} is on its way");
        self.replace(Entry(entry.0 & !(FRAME | MOVING) | PRESENT | to.get() << 12));
    }

    /// Waits until the page is where it was, or elsewhere.
    #[cold]
    pub(crate) fn wait_while_moving(&self) {
        wait::until(Event::SERVED, || !self.get().is_moving());
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Forgets that the CPU has accessed the page; whether it had. What it has cached it does not look
    /// up again, so for a while it seems not to use the page.
    pub(crate) fn clear_accessed(&self) -> bool {
        self.0.fetch_and(!ACCESSED, Ordering::AcqRel) & ACCESSED != 0
    }
}

/// A page table.
#[repr(C, align(4096))]
pub(crate) struct Table(pub(crate) [Slot; 512]);
