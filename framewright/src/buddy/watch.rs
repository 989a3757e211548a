//! What a batch tells of itself while it goes on.
//!
//! The buddy knows no machine. Whoever works on it under the zone lock may listen to which lines
//! it touches and what it does; `()` does not. Only what moves batches tells: the rest is rare
//! enough to be told as a whole by the zone.

use crate::platform::{Access, Cost, Miss};

/// A part of the metadata of a zone, as large as a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Heads of lists of pageblocks.
    Index(u32),
    /// The header of a pageblock.
    Header(u32),
    /// Its free map.
    Map(u32),
    /// Its map of allocated blocks.
    Heads(u32),
    /// 64 pageblocks in the map of their gigablock.
    Leaf(u32),
    /// A line of the depot.
    Depot(u32),
}

/// Who listens.
pub(crate) trait Watch: Copy {
    /// Whether anybody does: what is only worked out to be told is not worked out otherwise.
    fn listens(self) -> bool;
    /// A part is touched.
    fn touch(self, part: Part, access: Access, miss: Miss);
    /// `count` units of work are done.
    fn cost(self, cost: Cost, count: u32);

    /// All that is kept of a pageblock is touched, the header to decide what comes next.
    #[inline(always)]
    fn pageblock(self, index: u32, header: Miss, checked: bool, access: Access) {
        self.touch(Part::Header(index), access, header);
        self.touch(Part::Map(index), access, Miss::Independent);
        if checked {
            self.touch(Part::Heads(index), access, Miss::Independent);
        }
    }
}

/// Nobody listens.
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
