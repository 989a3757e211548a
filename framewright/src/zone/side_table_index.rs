//! From a frame to its entry in the planes, quickly.

use crate::{
    buddy::ABSENT,
    sync::{AtomicU8, Ordering},
    types::{PAGEBLOCK_ORDER, Pfn},
};

/// What finds frames of a zone in the planes: small, so that a loop over pages has it at hand.
#[derive(Clone, Copy)]
pub(crate) struct SideTableIndex<'m> {
    /// First frame of the zone's first pageblock.
    pub(super) base: Pfn,
    /// Types of its pageblocks.
    pub(super) types: &'m [AtomicU8],
    /// Where its entries start.
    pub(super) start: u32,
}

impl SideTableIndex<'_> {
    /// The entry of a frame whose whole pageblock is the zone's, and there: one look at that says it. What
    /// is not found so may be in a pageblock with holes, or that zones share: see `Zone::locate`.
    #[inline(always)]
    pub(crate) fn of(&self, pfn: Pfn) -> Option<u32> {
        let frame = pfn.get().wrapping_sub(self.base.get());
        let of = self.types.get(usize::try_from(frame >> PAGEBLOCK_ORDER).ok()?)?;
        (of.load(Ordering::Relaxed) < ABSENT).then(|| self.start + frame as u32)
    }
}
