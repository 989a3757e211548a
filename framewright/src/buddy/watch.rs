//! Reports of a batch to the simulator.
//!
//! The buddy does not know the platform. Its caller under the zone lock may pass a [`Watch`], which
//! receives the cache lines touched and the work done; `()` ignores both. Only operations on
//! batches report here. All other operations are rare, and the zone reports each of them as a
//! whole.

use crate::platform::{Access, Cost, Miss};

/// A part of the metadata of a zone: one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Heads of lists of pageblocks.
    Index(u32),
    /// The header of a pageblock.
    Header(u32),
    /// The free map of a pageblock.
    Map(u32),
    /// The map of allocated blocks of a pageblock.
    Heads(u32),
    /// 64 pageblocks in the map of their gigablock.
    Leaf(u32),
    /// A line of the depot.
    Depot(u32),
}

/// A receiver of the reports: the hooks of a simulator.
pub(crate) trait Watch: Copy {
    /// Whether reports are used. If not, figures that are needed only for reports are not computed.
    fn listens(self) -> bool;
    /// Reports that a part is touched.
    fn touch(self, part: Part, access: Access, miss: Miss);
    /// Reports `count` units of work.
    fn cost(self, cost: Cost, count: u32);

    /// Reports that all metadata of a pageblock is touched. `header` tells whether the next access
    /// waits for the header.
    #[inline(always)]
    fn pageblock(self, index: u32, header: Miss, checked: bool, access: Access) {
        self.touch(Part::Header(index), access, header);
        self.touch(Part::Map(index), access, Miss::Independent);
        if checked {
            self.touch(Part::Heads(index), access, Miss::Independent);
        }
    }
}

/// Ignores all reports.
impl Watch for () {
    #[inline(always)]
    fn listens(self) -> bool {
        false
    }

    #[inline(always)]
    fn touch(self, _: Part, _: Access, _: Miss) {}

    #[inline(always)]
    fn cost(self, _: Cost, _: u32) {}
}
