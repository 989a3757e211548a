//! What the processor and the kernel around the library take for a process.

use crate::machine;

/// Cycles of what a process does. Interrupts, locks and clearing frames are charged elsewhere: by
/// the engine and by the platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A page fault, from the instruction that faults until it is tried again, without what the
    /// allocator takes.
    pub fault: u64,
    /// Taking one page out of the page tables.
    pub unmap_page: u64,
    /// Changing one entry of the page tables in place.
    pub protect_page: u64,
    /// Flushing the translation of one page.
    pub flush_page: u64,
    /// Flushing all translations of an address space.
    pub flush_space: u64,
    /// Loading another address space.
    pub switch: u64,
}

impl From<&machine::Costs> for Costs {
    /// What the machine says; the rest is as guessed.
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
    /// At some 2.5 GHz. A fault and unmapping one page: derived from the throughput of
    /// page_fault1 that was published with the thread on bulk frees (they add up, with clearing,
    /// to the 5,250 cycles per page that are not the zone lock's). One page flushed: 200 cycles,
    /// as measured by several. The rest is guessed.
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
