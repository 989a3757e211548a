//! The high-atomic reserve: pageblocks kept for high-order requests that cannot wait.
//!
//! When such a request was served, the pageblock of its block is reserved, so that the next request
//! finds free neighbours there. Requests of other types do not fall back to reserved pageblocks.
//! Only requests that may use the reserve take from it, some before other pageblocks, others as a
//! last resort. When memory is short the reserve is released, one pageblock at a time.

use super::{Buddy, Bundles, FRAMES, MigrateType, Reserve, Want, Watch};
use crate::types::{Order, PAGEBLOCK_ORDER};

impl Buddy<'_> {
    /// Frames of reserved pageblocks, free or not.
    pub(crate) fn highatomic_reserved(&self) -> u64 {
        self.highatomic_reserved
    }

    /// Free frames of reserved pageblocks. They are part of [`Buddy::free_frames`].
    pub(crate) fn highatomic_free(&self) -> u64 {
        self.free[MigrateType::HighAtomic as usize]
    }

    /// Reserves the pageblocks of the allocated block of `order` at `frame`, while fewer than
    /// `limit` frames are reserved. Does not change pageblocks that are reserved or isolated
    /// already. Returns whether any was reserved.
    pub(crate) fn reserve_highatomic(&mut self, frame: u32, order: Order, limit: u64) -> bool {
        let first = frame >> PAGEBLOCK_ORDER;
        let pageblocks = if order > Order::PAGEBLOCK { order.pageblocks() } else { 1 };
        let before = self.highatomic_reserved;
        for index in first..first + pageblocks {
            if self.highatomic_reserved >= limit {
                break;
            }
            if self.type_of(index).mixes() {
                self.change_type(index, MigrateType::HighAtomic, ());
            }
        }
        self.highatomic_reserved > before
    }

    /// Changes one reserved pageblock with free frames to type `to`; `false` if there is none.
    pub(crate) fn unreserve_highatomic(&mut self, to: MigrateType) -> bool {
        let Some(index) = self.lists.first(MigrateType::HighAtomic, 0) else {
            return false;
        };
        self.change_type(index, to, ());
        true
    }

    /// Takes blocks from the reserve only, up to the requested number.
    #[cold]
    #[inline(never)]
    pub(super) fn take_reserved(&mut self, want: Want, out: &mut Bundles, watch: impl Watch) {
        // Reserved pageblocks do not form blocks larger than a pageblock.
        if want.order <= Order::PAGEBLOCK {
            let of = MigrateType::HighAtomic;
            self.take_ordinary(
                Want { migratetype: of, reserve: Reserve::None, ..want },
                out,
                watch,
            );
        }
    }

    /// Updates the count of reserved frames after a pageblock changed from type `from` to `to`. For
    /// an isolated pageblock, these are the types that it would return to.
    pub(super) fn count_reserved(&mut self, from: MigrateType, to: MigrateType) {
        let reserved =
            |of: MigrateType| u64::from(of == MigrateType::HighAtomic) * u64::from(FRAMES);
        self.highatomic_reserved += reserved(to);
        self.highatomic_reserved -= reserved(from);
    }
}
