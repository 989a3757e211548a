//! The interface of a replay to the allocator: the library, or the classic design.

use framewright::Request;

use super::{map::PageblockMap, plan::ZonePlan, tracks::Hold};
use crate::{samples::MemoryState, workloads::world::Frames};

/// A memory with all its CPUs. One thread acts for all of them.
pub(super) trait Allocator {
    /// An owned block.
    type Block: Frames;

    /// Number of CPUs.
    fn cpus(&self) -> u16;

    /// Sets the clock to the recorded time, if the allocator has one.
    fn set_time(&mut self, nanos: u64) {
        let _ = nanos;
    }

    /// Trims the lists of `cpu`. Called about once a second of the recording.
    fn trim(&mut self, cpu: u16);

    /// Allocates on `cpu`; `None` if the request is refused.
    fn alloc(&mut self, cpu: u16, request: Request) -> Option<Self::Block>;

    /// Frees on `cpu`.
    fn free(&mut self, cpu: u16, block: Self::Block);

    /// Halves a block of at least order 1.
    fn split(&mut self, block: Self::Block) -> (Self::Block, Self::Block);

    /// Raises the limit of a CPU's lists for a zone to that of the kernel's lists. Called before
    /// any [`place`](Self::place).
    fn raise_high(&mut self, zone: &ZonePlan, cpu: u16);

    /// Brings a pageblock into its state at the start. Returns its frames in use as blocks.
    fn place(&mut self, block: &PageblockMap) -> Vec<Self::Block>;

    /// Frees blocks of a zone to a CPU's lists; to the zone, if the lists cannot hold them. Called
    /// after every [`place`](Self::place).
    fn fill(&mut self, cpu: u16, zone: &ZonePlan, blocks: Vec<Self::Block>);

    /// Pageblocks claimed and blocks stolen on `cpu` since the last call for this CPU; 0 if they are not counted by CPU.
    fn new_fallbacks(&mut self, cpu: u16) -> [u64; 2] {
        let _ = cpu;
        [0; 2]
    }

    /// Acquisitions of zone locks so far, also those before the first event.
    fn zone_lock_acquisitions(&self) -> u64;

    /// Removes and returns the holds of zone locks since the last call, oldest first; none if they are not logged.
    fn take_holds(&mut self) -> Vec<Hold> {
        Vec::new()
    }

    /// The state of memory.
    fn state(&mut self) -> MemoryState;
}
