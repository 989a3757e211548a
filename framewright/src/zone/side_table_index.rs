//! Lookup of a frame's entry in the per-frame side tables, without a search.

use crate::{
    buddy::{ABSENT, EMPTYING},
    sync::{AtomicU8, Ordering},
    types::{PAGEBLOCK_ORDER, Pfn},
};

/// The lookup of frames of one zone in the per-frame side tables. The value is small, so that a
/// loop over pages keeps it in registers.
#[derive(Clone, Copy)]
pub(crate) struct SideTableIndex<'m> {
    /// First frame of the zone's first pageblock.
    pub(super) base: Pfn,
    /// Types of its pageblocks.
    pub(super) types: &'m [AtomicU8],
    /// The index of the zone's first entry.
    pub(super) start: u32,
}

impl SideTableIndex<'_> {
    /// The entry of a frame, if its pageblock is present as a whole in the zone: one load decides.
    /// `None` for frames of pageblocks with holes or of two zones; use `Zone::locate` for these.
    #[inline(always)]
    pub(crate) fn of(&self, pfn: Pfn) -> Option<u32> {
        let frame = pfn.get().wrapping_sub(self.base.get());
        let of = self.types.get(usize::try_from(frame >> PAGEBLOCK_ORDER).ok()?)?;
        (of.load(Ordering::Relaxed) & !EMPTYING < ABSENT).then(|| self.start + frame as u32)
    }
}
