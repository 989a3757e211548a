//! The high-atomic reserve: pageblocks kept for high-order requests that cannot wait.
//!
//! When such a request was served, the pageblock it got its block from is reserved, so that the
//! next one finds neighbours there. Nobody claims a reserved pageblock or steals from it; only
//! requests with a right to the reserve take from it, some before everything else, others when
//! everything else failed. When memory is short it goes back, one pageblock at a time.

use super::{Buddy, Bundles, FRAMES, MigrateType, Watch, lists::Room, take::Want};
use crate::types::{Order, PAGEBLOCK_ORDER};

/// Whether a request may use the high-atomic reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Reserve {
    /// It may not.
    #[default]
    None,
    /// Before anything else.
    First,
    /// After everything else.
    Last,
}

impl Buddy<'_> {
    /// Frames of reserved pageblocks, free or not.
    pub(crate) fn highatomic_reserved(&self) -> u64 {
        self.highatomic_reserved
    }

    /// Free frames of reserved pageblocks. They are part of [`Buddy::free_frames`].
    pub(crate) fn highatomic_free(&self) -> u64 {
        self.free[MigrateType::HighAtomic as usize]
    }

    /// Reserves the pageblocks of the allocated block of `order` at `frame`, as long as fewer
    /// than `limit` frames are reserved. Says whether any was: those that are reserved or
    /// isolated already stay what they are.
    pub(crate) fn reserve_highatomic(&mut self, frame: u32, order: Order, limit: u64) -> bool {
        let first = frame >> PAGEBLOCK_ORDER;
        let pageblocks = if order > Order::PAGEBLOCK { order.pageblocks() } else { 1 };
        let before = self.highatomic_reserved;
        for index in first..first + pageblocks {
            if self.highatomic_reserved >= limit {
                break;
            }
            if self.type_of(index).mixes() {
                self.retag(index, MigrateType::HighAtomic, ());
            }
        }
        self.highatomic_reserved > before
    }

    /// Gives one reserved pageblock with free frames to another type; `false` if there is none.
    pub(crate) fn unreserve_highatomic(&mut self, to: MigrateType) -> bool {
        let Some(index) = self.lists.first(MigrateType::HighAtomic, 0, Room::Any) else {
            return false;
        };
        self.retag(index, to, ());
        true
    }

    /// Takes from the reserve alone, as many blocks as are wanted and there.
    #[cold]
    #[inline(never)]
    pub(super) fn take_reserved(&mut self, want: Want, out: &mut Bundles, watch: impl Watch) {
        // Reserved pageblocks form no larger blocks.
        if want.order <= Order::PAGEBLOCK {
            let of = MigrateType::HighAtomic;
            self.take_ordinary(
                Want { migratetype: of, reserve: Reserve::None, ..want },
                out,
                watch,
            );
        }
    }

    /// Counts a pageblock whose type, while it is not isolated, is `to` now and was `from`.
    pub(super) fn count_reserved(&mut self, from: MigrateType, to: MigrateType) {
        let reserved =
            |of: MigrateType| u64::from(of == MigrateType::HighAtomic) * u64::from(FRAMES);
        self.highatomic_reserved += reserved(to);
        self.highatomic_reserved -= reserved(from);
    }
}
