//! Detects two CPUs in one exclusive section. The library reports when it begins and ends to use
//! data exclusively. If two CPUs are inside one section, the protocol between them has a bug. The
//! engine reports it before they access the same data.

use super::{Cpu, Failure};
use framewright::CpuId;

/// A section: an index into a dense table.
#[derive(Clone, Copy)]
pub(crate) struct SectionId {
    /// The name for reports.
    pub(crate) name: &'static str,
    pub(crate) table: usize,
    pub(crate) index: usize,
}

/// The CPU inside each section, plus one; 0 for none.
#[derive(Default)]
pub(super) struct Sections([Vec<u16>; 6]);

impl Sections {
    /// Sets the CPU of a section, or 0 for none. Returns the old one.
    fn replace(&mut self, section: SectionId, occupant: u16) -> u16 {
        let table = &mut self.0[section.table];
        if section.index >= table.len() {
            table.resize(section.index + 1, 0);
        }
        std::mem::replace(&mut table[section.index], occupant)
    }

    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(|table| table.fill(0));
    }
}

impl Cpu<'_> {
    /// Begins the exclusive use of a section. A schedule that ignores clocks may run other CPUs
    /// while this one is inside and has not accessed anything yet. A schedule by clocks only counts
    /// entries and does not check them.
    #[inline]
    pub(crate) fn enter(&self, section: impl FnOnce() -> SectionId) {
        let inside = &self.engine.inside;
        inside.set(inside.get() + 1);
        if self.engine.ignores_clocks.get() {
            self.occupy(section());
        }
    }

    #[cold]
    #[inline(never)]
    fn occupy(self, section: SectionId) {
        let occupied = self.engine.sections.borrow_mut().replace(section, self.number() + 1);
        if occupied != 0 {
            let SectionId { name, index, .. } = section;
            let (section, inside) = (format!("{name} {index}"), CpuId::new(occupied - 1));
            self.fail_with(Failure::Shared { cpu: self.id(), section, inside });
        }
        self.step();
    }

    /// Ends the exclusive use of a section.
    #[inline]
    pub(crate) fn leave(&self, section: impl FnOnce() -> SectionId) {
        let inside = &self.engine.inside;
        inside.set(inside.get() - 1);
        if self.engine.ignores_clocks.get() {
            self.engine.sections.borrow_mut().replace(section(), 0);
        }
    }
}
