//! An address space, as hardware and kernel share it: page tables, the CPUs that may have cached
//! them, the generation of their changes.
//!
//! What is here are single accesses, each a step of its own, in no particular order: the order is
//! what kernels get right or wrong. [`Process`](super::Process) is the right one; the scenarios
//! have others.

use std::{
    cell::{Cell, OnceCell, RefCell},
    ops::Range,
    rc::Rc,
};

use framewright::tlb::DeferredFlush;

use super::{Mapping, Mmu, Pte, SpaceId, pte::PageTables};
use crate::engine::{Cpu, CpuSet, LockId};

/// An address space. Cheap to clone: clones are the same.
#[derive(Clone)]
pub struct AddressSpace(pub(super) Rc<Space>);

pub(super) struct Space {
    pub(super) id: SpaceId,
    pub(super) mmu: Mmu,
    pub(super) tables: PageTables,
    /// What is mapped, and whether it may be written to. Under the lock.
    pub(super) regions: RefCell<Vec<Region>>,
    lock: OnceCell<LockId>,
    /// CPUs that have it loaded, and may cache more of it at any time.
    pub(super) cpus: RefCell<CpuSet>,
    /// More than one CPU has ever loaded it.
    pub(super) shared: Cell<bool>,
    /// Changes to the page tables that others have to follow. Starts at 1: 0 follows nothing.
    pub(super) generation: Cell<u64>,
    owed: DeferredFlush,
}

/// A range of pages that a program may use.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) pages: Range<u32>,
    pub(super) writable: bool,
}

impl AddressSpace {
    /// An empty one.
    #[must_use]
    pub fn new(mmu: &Mmu) -> Self {
        Self(Rc::new(Space {
            id: mmu.new_space(),
            mmu: mmu.clone(),
            tables: PageTables::default(),
            regions: RefCell::default(),
            lock: OnceCell::new(),
            cpus: RefCell::default(),
            shared: Cell::new(false),
            generation: Cell::new(1),
            owed: DeferredFlush::new(),
        }))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SpaceId {
        self.0.id
    }

    /// Flushes that were put off and concern it.
    #[must_use]
    pub fn owed(&self) -> &DeferredFlush {
        &self.0.owed
    }

    /// The units of the machine.
    #[must_use]
    pub fn mmu(&self) -> &Mmu {
        &self.0.mmu
    }

    /// Does something while nobody else changes the page tables. Hardware still does: it sets
    /// accessed and dirty bits whenever it likes.
    pub fn locked<T>(&self, cpu: Cpu<'_>, body: impl FnOnce() -> T) -> T {
        if self.mmu().oracle().is_none() && !self.0.shared.get() {
            return body();
        }
        let lock = *self.0.lock.get_or_init(|| cpu.new_lock());
        cpu.lock(lock);
        let result = body();
        cpu.unlock(lock);
        result
    }

    /// Reads an entry.
    #[must_use]
    pub fn pte(&self, cpu: Cpu<'_>, page: u32) -> Pte {
        self.mmu().step(cpu);
        self.0.tables.get(page)
    }

    /// Reads an entry with nobody running.
    pub(crate) fn entry(&self, page: u32) -> Pte {
        self.0.tables.get(page)
    }

    /// Replaces an entry by another, in one atomic access; what it was.
    ///
    /// # Panics
    ///
    /// If no page table reaches the entry.
    pub fn replace_pte(&self, cpu: Cpu<'_>, page: u32, pte: Pte) -> Pte {
        self.mmu().step(cpu);
        self.0.tables.replace(page, pte)
    }

    /// Clears an entry, in one atomic access; what it was. No table, no entry.
    pub fn take_pte(&self, cpu: Cpu<'_>, page: u32) -> Pte {
        self.mmu().step(cpu);
        if self.0.tables.reach(page) { self.0.tables.replace(page, Pte::None) } else { Pte::None }
    }

    /// Reads an entry as hardware does that looks at it all the time: nobody else goes first.
    #[inline]
    pub(crate) fn peek(&self, page: u32) -> Pte {
        self.0.tables.get(page)
    }

    /// Sets bits in an entry as hardware does, where nobody simulates single accesses.
    #[inline]
    pub(crate) fn mark(&self, page: u32, mapping: Mapping) {
        self.0.tables.replace(page, Pte::Present(mapping));
    }

    /// Clears an entry when no CPU runs.
    pub(crate) fn forget(&self, page: u32) {
        self.0.tables.replace(page, Pte::None);
    }

    /// Whether there is a page table for `page`.
    pub(crate) fn reaches(&self, page: u32) -> bool {
        self.0.tables.reach(page)
    }

    /// Puts a page table that lies in `frame` where `page` needs one.
    pub(crate) fn extend(&self, page: u32, frame: u32) {
        self.0.tables.extend(page, frame);
    }

    /// Takes the page tables of `pages` away that hold nothing any more; the frames they lay in.
    pub(crate) fn prune(&self, pages: Range<u32>, frames: &mut Vec<u32>) {
        self.0.tables.prune(pages, frames);
    }

    /// The entry at `page`, if it maps what `mapping` says but for its accessed and dirty bits.
    pub(super) fn still(&self, page: u32, mapping: Mapping) -> Option<Mapping> {
        let now = self.0.tables.get(page).present()?;
        (now.frame == mapping.frame && now.writable == mapping.writable).then_some(now)
    }

    /// The CPUs that may have cached translations and are not lazy about it.
    #[must_use]
    pub fn cpus(&self, cpu: Cpu<'_>) -> CpuSet {
        self.mmu().step(cpu);
        *self.0.cpus.borrow()
    }

    /// Counts a change that others have to follow. As on real processors this orders what comes
    /// before it before what comes after it.
    pub fn advance_generation(&self, cpu: Cpu<'_>) {
        self.mmu().step(cpu);
        self.0.generation.set(self.0.generation.get() + 1);
    }

    /// Page tables there are.
    #[must_use]
    pub fn tables(&self) -> u64 {
        self.0.tables.count()
    }
}
