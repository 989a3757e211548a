//! An address space, as hardware and kernel share it: page tables, the CPUs that may have cached
//! their entries, and the generation of their changes.
//!
//! The functions are single accesses, each a separate step. Their order decides whether a kernel is
//! correct: [`Process`](super::Process) calls them in the correct order, the seeded bugs of the
//! scenarios in other orders.

use std::{
    cell::{Cell, RefCell},
    ops::Range,
    rc::Rc,
};

use framewright::tlb::DeferredFlush;

use super::{Mapping, Mmu, Pte, SpaceId, pte::PageTables};
use crate::engine::{Cpu, CpuSet, ProgramLock};

/// An address space. Clones are handles of the same address space.
#[derive(Clone)]
pub struct AddressSpace(pub(super) Rc<Space>);

pub(super) struct Space {
    pub(super) id: SpaceId,
    pub(super) mmu: Mmu,
    pub(super) tables: PageTables,
    /// The mapped regions. Protected by the lock.
    pub(super) regions: RefCell<Vec<Region>>,
    lock: ProgramLock,
    /// CPUs that have it loaded, and may cache more translations at any time.
    pub(super) cpus: RefCell<CpuSet>,
    /// Whether more than one CPU has ever loaded it.
    pub(super) shared: Cell<bool>,
    /// The number of changes to the page tables that require flushes on other CPUs. Starts at 1; a
    /// CPU with generation 0 has nothing cached.
    pub(super) generation: Cell<u64>,
    deferred_flush: DeferredFlush,
}

/// A range of pages that a program may use.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) pages: Range<u32>,
    pub(super) writable: bool,
}

impl AddressSpace {
    /// An empty address space.
    #[must_use]
    pub fn new(mmu: &Mmu) -> Self {
        Self(Rc::new(Space {
            id: mmu.new_space(),
            mmu: mmu.clone(),
            tables: PageTables::default(),
            regions: RefCell::default(),
            lock: ProgramLock::default(),
            cpus: RefCell::default(),
            shared: Cell::new(false),
            generation: Cell::new(1),
            deferred_flush: DeferredFlush::new(),
        }))
    }

    /// The number of the address space.
    #[must_use]
    pub fn id(&self) -> SpaceId {
        self.0.id
    }

    /// Its deferred flushes.
    #[must_use]
    pub fn deferred_flush(&self) -> &DeferredFlush {
        &self.0.deferred_flush
    }

    /// The units of the machine.
    #[must_use]
    pub fn mmu(&self) -> &Mmu {
        &self.0.mmu
    }

    /// Runs `body` under the lock of the page tables. The hardware sets accessed and dirty bits
    /// without the lock.
    pub fn locked<T>(&self, cpu: Cpu<'_>, body: impl FnOnce() -> T) -> T {
        if self.mmu().oracle().is_none() && !self.0.shared.get() {
            return body();
        }
        self.0.lock.with(cpu, body)
    }

    /// Reads an entry.
    #[must_use]
    pub fn pte(&self, cpu: Cpu<'_>, page: u32) -> Pte {
        self.mmu().step(cpu);
        self.0.tables.get(page)
    }

    /// Reads an entry while no CPU runs.
    pub(crate) fn entry(&self, page: u32) -> Pte {
        self.0.tables.get(page)
    }

    /// Replaces an entry in one atomic access; returns the old one.
    ///
    /// # Panics
    ///
    /// If there is no page table for the entry.
    pub fn replace_pte(&self, cpu: Cpu<'_>, page: u32, pte: Pte) -> Pte {
        self.mmu().step(cpu);
        cpu.note(|| {
            format!("sets the entry of page {page} of space {}: {pte:?}", self.id().number())
        });
        self.0.tables.replace(page, pte)
    }

    /// Clears an entry in one atomic access; returns the old one. `Pte::None` if there is no page
    /// table.
    pub fn take_pte(&self, cpu: Cpu<'_>, page: u32) -> Pte {
        self.mmu().step(cpu);
        cpu.note(|| format!("clears the entry of page {page} of space {}", self.id().number()));
        if self.0.tables.reach(page) { self.0.tables.replace(page, Pte::None) } else { Pte::None }
    }

    /// Reads an entry without yielding to other CPUs, as a hardware walk does.
    #[inline]
    pub(crate) fn peek(&self, page: u32) -> Pte {
        self.0.tables.get(page)
    }

    /// Sets bits of an entry, where single accesses are not simulated.
    #[inline]
    pub(crate) fn mark(&self, page: u32, mapping: Mapping) {
        self.0.tables.replace(page, Pte::Present(mapping));
    }

    /// Clears an entry while no CPU runs.
    pub(crate) fn clear_entry(&self, page: u32) {
        self.0.tables.replace(page, Pte::None);
    }

    /// Whether there is a page table for `page`.
    pub(crate) fn reaches(&self, page: u32) -> bool {
        self.0.tables.reach(page)
    }

    /// Adds a page table in `frame` for `page`.
    pub(crate) fn extend(&self, page: u32, frame: u32) {
        self.0.tables.extend(page, frame);
    }

    /// Removes the empty page tables of `pages`, and appends their frames to `frames`.
    pub(crate) fn prune(&self, pages: Range<u32>, frames: &mut Vec<u32>) {
        self.0.tables.prune(pages, frames);
    }

    /// The entry at `page`, if it equals `mapping` except for accessed and dirty bits.
    pub(super) fn still(&self, page: u32, mapping: Mapping) -> Option<Mapping> {
        let now = self.0.tables.get(page).present()?;
        (now.frame == mapping.frame && now.writable == mapping.writable).then_some(now)
    }

    /// The CPUs that have loaded the address space, including those in lazy TLB mode. Other CPUs
    /// compare generations when they load it.
    #[must_use]
    pub fn cpus(&self, cpu: Cpu<'_>) -> CpuSet {
        self.mmu().step(cpu);
        *self.0.cpus.borrow()
    }

    /// Counts a change that requires flushes on other CPUs. As on real processors, this orders
    /// earlier accesses before later ones.
    pub fn advance_generation(&self, cpu: Cpu<'_>) {
        self.mmu().step(cpu);
        self.0.generation.set(self.0.generation.get() + 1);
    }

    /// The number of page tables.
    #[must_use]
    pub fn tables(&self) -> u64 {
        self.0.tables.count()
    }
}
