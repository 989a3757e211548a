//! Who is where alone. What the library uses exclusively, it enters and leaves; two CPUs inside one
//! section are a bug of the protocol that was to keep them apart, found before they meet.

use super::{Cpu, Failure};
use framewright::CpuId;

/// A section: a place in a dense table.
#[derive(Clone, Copy)]
pub(crate) struct SectionId {
    /// What it is called in a report.
    pub(crate) name: &'static str,
    pub(crate) table: usize,
    pub(crate) index: usize,
}

/// Who is inside: a CPU plus one.
#[derive(Default)]
pub(super) struct Sections {
    tables: [Vec<u16>; 2],
    used: u32,
}

impl Sections {
    #[inline]
    fn occupant(&mut self, section: SectionId) -> &mut u16 {
        let table = &mut self.tables[section.table];
        if section.index >= table.len() {
            table.resize(section.index + 1, 0);
        }
        &mut table[section.index]
    }

    /// Whether anybody is in any.
    pub(super) fn is_used(&self) -> bool {
        self.used > 0
    }

    pub(super) fn clear(&mut self) {
        if self.is_used() {
            self.tables.iter_mut().for_each(|table| table.fill(0));
            self.used = 0;
        }
    }
}

impl Cpu<'_> {
    /// Begins the exclusive use of a section. A schedule that hunts may let others go first while
    /// this CPU is inside and has not got hold of anything yet.
    #[inline]
    pub(crate) fn enter(&self, section: SectionId) {
        let mut sections = self.engine.sections.borrow_mut();
        sections.used += 1;
        let occupant = sections.occupant(section);
        let before = std::mem::replace(occupant, self.number() + 1);
        drop(sections);
        if before != 0 {
            let SectionId { name, index, .. } = section;
            let (section, inside) = (format!("{name} {index}"), CpuId::new(before - 1));
            self.fail_with(Failure::Shared { cpu: self.id(), section, inside });
        }
        if self.engine.hunts.get() {
            self.step();
        }
    }

    /// Ends it.
    #[inline]
    pub(crate) fn leave(&self, section: SectionId) {
        let mut sections = self.engine.sections.borrow_mut();
        sections.used -= 1;
        *sections.occupant(section) = 0;
    }
}
