//! Fallback when a type has no free blocks: claim a pageblock of another type, or steal from one.
//!
//! *Claiming* changes the type of a whole pageblock. All free frames of a pageblock are on one
//! list, so claiming moves one list entry. A pageblock is claimed if at least half of its frames
//! are free or of a compatible type. Movable requests claim one only if it has a free block of at
//! least order 4. *Stealing* takes blocks and leaves the type unchanged. It mixes types in fuller
//! pageblocks than claiming does, so it comes last.

use super::{Buddy, MigrateType, Part, Want, Watch};
use crate::{
    platform::{Access, Cost, Miss},
    types::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER},
};

/// A fallback that was made. It is reported after the zone lock is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fallback {
    /// The pageblock that was claimed or stolen from.
    pub(crate) pageblock: u32,
    /// The type of the pageblock before.
    pub(crate) from: MigrateType,
    /// Order of the largest free block of the pageblock before. Above order 9: of the free block that
    /// contained it.
    pub(crate) found_order: Order,
    /// Whether the pageblock was claimed, so that its type changed.
    pub(crate) claimed: bool,
}

/// Requests of every type may claim a pageblock whose largest free block has at least this order:
/// half the pageblock order.
const CLAIM_ORDER: u8 = PAGEBLOCK_ORDER / 2;

/// A pageblock is claimed if this many of its frames are free or of a compatible type.
const CLAIM_FRAMES: usize = PAGEBLOCK_FRAMES / 2;

impl Buddy<'_> {
    /// Finds a pageblock of another type for a request. If it claims a pageblock, the ordinary
    /// search then finds that pageblock by its new type. A pageblock to steal from keeps its type.
    #[cold]
    #[inline(never)]
    pub(super) fn fall_back(&mut self, want: &Want, watch: impl Watch) -> Option<Fallback> {
        watch.cost(Cost::Fallback, 1);
        let (order, wanted) = (want.order, want.migratetype);
        if want.unmixed {
            return self.claim(order.max(Order::PAGEBLOCK), wanted, watch);
        }
        self.claim(order, wanted, watch).or_else(|| self.steal(order, wanted))
    }

    fn claim(&mut self, order: Order, wanted: MigrateType, watch: impl Watch) -> Option<Fallback> {
        for found in (order.get()..=PAGEBLOCK_ORDER).rev() {
            let candidate = wanted.fallbacks().iter().find_map(|&from| {
                self.lists.emptiest(from, found).map(|pageblock| (from, pageblock))
            });
            let Some((from, pageblock)) = candidate else { continue };
            if !may_claim(found, wanted) {
                return None;
            }
            watch.touch(Part::Header(pageblock), Access::Write, Miss::Dependent);
            if self.is_worth_claiming(pageblock, from, wanted) {
                self.change_type(pageblock, wanted, watch);
                let found_order = Order::new(found)?;
                return Some(Fallback { pageblock, from, found_order, claimed: true });
            }
        }
        None
    }

    fn steal(&self, order: Order, wanted: MigrateType) -> Option<Fallback> {
        wanted
            .fallbacks()
            .iter()
            .filter_map(|&from| {
                let pageblock = self.lists.first(from, order.get())?;
                let found_order = self.blocks[pageblock as usize].largest()?;
                Some(Fallback { pageblock, from, found_order, claimed: false })
            })
            .min_by_key(|found| found.found_order)
    }

    /// Whether a request for type `wanted` would claim pageblock `index` of type `from`, whose
    /// largest free block is of order `found`.
    pub(super) fn is_claimable(
        &self,
        found: u8,
        index: u32,
        from: MigrateType,
        wanted: MigrateType,
    ) -> bool {
        may_claim(found, wanted) && self.is_worth_claiming(index, from, wanted)
    }

    fn is_worth_claiming(&self, pageblock: u32, from: MigrateType, wanted: MigrateType) -> bool {
        let block = &self.blocks[pageblock as usize];
        let alike = match (wanted, from) {
            (MigrateType::Movable, _) => block.movable,
            (_, MigrateType::Movable) => block.unmovable,
            _ => 0,
        };
        usize::from(block.free + alike) >= CLAIM_FRAMES
    }
}

/// Whether a request for type `wanted` may claim a pageblock for a free block of order `found`.
fn may_claim(found: u8, wanted: MigrateType) -> bool {
    found >= CLAIM_ORDER || matches!(wanted, MigrateType::Unmovable | MigrateType::Reclaimable)
}
