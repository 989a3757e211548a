//! Costs of a process in the processor and the kernel around the library.

use crate::machine;

/// Cycles of the operations of a process. The engine and the platform charge interrupts, locks and
/// clearing frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A page fault, from the faulting instruction to its repetition, without the allocation.
    pub fault: u64,
    /// Removing one page from the page tables.
    pub unmap_page: u64,
    /// Changing one page-table entry in place.
    pub protect_page: u64,
    /// Flushing the translation of one page.
    pub flush_page: u64,
    /// Flushing all translations of an address space.
    pub flush_space: u64,
    /// Loading another address space.
    pub switch: u64,
}

impl From<&machine::Costs> for Costs {
    /// The parameters of the machine; the other figures are the defaults.
    fn from(costs: &machine::Costs) -> Self {
        Self {
            fault: costs.fault.service,
            unmap_page: costs.fault.unmap,
            flush_page: costs.tlb.invalidate_page,
            flush_space: costs.tlb.flush_all,
            ..Self::default()
        }
    }
}

impl Default for Costs {
    /// At about 2.5 GHz. The costs of a fault and of unmapping a page are derived from the
    /// page_fault1 throughput that was published with the patches on bulk frees: with clearing they
    /// add up to the 5,250 cycles per page outside the zone lock. Flushing one page: 200 cycles,
    /// from several published measurements. The other figures are estimates.
    fn default() -> Self {
        Self {
            fault: 3000,
            unmap_page: 1100,
            protect_page: 200,
            flush_page: 200,
            flush_space: 500,
            switch: 1000,
        }
    }
}
