//! Loads and stores of programs, with the semantics of x86.
//!
//! An access uses the cached translation of its page, even if the page tables have changed since.
//! Without one, the page tables are walked: the entry is read, its accessed bit is set by a locked
//! access if it is clear, and the translation is cached. The first store through a translation sets
//! the dirty bit by a locked access, which reads the entry again. If the entry is gone or
//! read-only, the store faults. A store through a translation that is cached as dirty reads no
//! entry.
//!
//! Interrupts are taken between instructions, never inside one.

use super::{AddressSpace, Mapping, Oracle, Pte, Token, oracle::Access as Seen, tlb::Entry};
use crate::engine::Cpu;
use thiserror::Error;

/// The kind of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load.
    Load,
    /// A store.
    Store,
}

/// The reason of a page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// No frame holds the page.
    #[error("not present")]
    NotPresent,
    /// The page is read-only.
    #[error("not writable")]
    NotWritable,
}

impl AddressSpace {
    /// One load or store of the program that runs on `cpu`. Returns the loaded or stored value.
    ///
    /// # Errors
    ///
    /// The fault, if the page tables do not allow it.
    ///
    /// # Panics
    ///
    /// If the MMUs were not created by [`Mmu::checking`](super::Mmu::checking), or the CPU has not
    /// loaded this address space.
    pub fn access(&self, cpu: Cpu<'_>, page: u32, access: Access) -> Result<Token, Fault> {
        let oracle = self.mmu().oracle().expect("MMUs that simulate single accesses");
        cpu.step();
        let masked = cpu.mask_interrupts();
        let unit = self.mmu().unit(cpu);
        assert!(
            unit.has_loaded(self) && !unit.lazy.get(),
            "the CPU has not loaded the address space of the program, or is lazy"
        );
        let result = self.instruction(cpu, oracle, page, access);
        cpu.restore_interrupts(masked);
        result
    }

    fn instruction(
        &self,
        cpu: Cpu<'_>,
        oracle: &Oracle,
        page: u32,
        access: Access,
    ) -> Result<Token, Fault> {
        let entry = match self.translation(cpu, oracle, page, access) {
            Ok(entry) => entry,
            Err(fault) => {
                // A fault invalidates the cached translation of the page.
                self.mmu().unit(cpu).tlb.invalidate(self.id(), page);
                return Err(fault);
            }
        };
        let Entry { space, page, frame, life, .. } = entry;
        let at = Seen { space, page, frame, life };
        Ok(match access {
            Access::Load => oracle.load(cpu, at),
            Access::Store => oracle.store(cpu, at),
        })
    }

    /// The translation for the access: cached, or from a walk.
    fn translation(
        &self,
        cpu: Cpu<'_>,
        oracle: &Oracle,
        page: u32,
        access: Access,
    ) -> Result<Entry, Fault> {
        match self.mmu().unit(cpu).tlb.find(self.id(), page) {
            Some(entry) if access == Access::Load || entry.dirty => Ok(entry),
            Some(entry) if !entry.writable => Err(Fault::NotWritable),
            _ => self.walk(cpu, oracle, page, access),
        }
    }

    /// Walks the page tables. Interrupts are masked.
    fn walk(
        &self,
        cpu: Cpu<'_>,
        oracle: &Oracle,
        page: u32,
        access: Access,
    ) -> Result<Entry, Fault> {
        loop {
            let mapping = self.0.tables.get(page).present().ok_or(Fault::NotPresent)?;
            // The generation of the frame while the entry maps it.
            let life = oracle.life(mapping.frame);
            let store = access == Access::Store;
            if store && !mapping.writable {
                return Err(Fault::NotWritable);
            }
            let marked = Mapping { accessed: true, dirty: mapping.dirty || store, ..mapping };
            if marked != mapping {
                cpu.step();
                let Some(now) = self.still(page, mapping) else { continue };
                let marked = Mapping { accessed: true, dirty: now.dirty || store, ..now };
                self.0.tables.replace(page, Pte::Present(marked));
            }
            let Mapping { frame, writable, dirty, .. } = marked;
            let entry = Entry { space: self.id(), page, frame, life, writable, dirty };
            self.mmu().unit(cpu).tlb.insert(entry);
            cpu.step();
            return Ok(entry);
        }
    }
}
