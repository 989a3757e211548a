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
pub(super) struct Sections([Vec<u16>; 6]);

impl Sections {
    /// Puts somebody into a section, or nobody; who was there.
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
    /// Begins the exclusive use of a section. A schedule that hunts may let others go first while
    /// this CPU is inside and has not got hold of anything yet. By the clock it is only counted: who
    /// is where has been tested then.
    #[inline]
    pub(crate) fn enter(&self, section: impl FnOnce() -> SectionId) {
        let inside = &self.engine.inside;
        inside.set(inside.get() + 1);
        if self.engine.hunts.get() {
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

    /// Ends it.
    #[inline]
    pub(crate) fn leave(&self, section: impl FnOnce() -> SectionId) {
        let inside = &self.engine.inside;
        inside.set(inside.get() - 1);
        if self.engine.hunts.get() {
            self.engine.sections.borrow_mut().replace(section(), 0);
        }
    }
}
