//! Reports of a zone to a simulator.
//!
//! Under the lock the buddy reports batches as it works on them ([`Watch`]). Rare operations are
//! reported here as a whole: the number of pageblocks that were read or changed.

use super::Zone;
use crate::{
    buddy::{Bundle, Part, Watch},
    platform::{Access, Cost, Line, Miss, Platform},
    types::{Order, ZoneId},
};

/// The hooks of a platform for one zone.
pub(super) struct Hooks<'p, P> {
    platform: &'p P,
    zone: ZoneId,
}

impl<P> Clone for Hooks<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Hooks<'_, P> {}

impl<P: Platform> Watch for Hooks<'_, P> {
    #[inline(always)]
    fn listens(self) -> bool {
        P::LISTENING
    }

    #[inline(always)]
    fn touch(self, part: Part, access: Access, miss: Miss) {
        let line = match part {
            Part::Index(line) => Line::ZoneIndex(self.zone, line),
            Part::Header(index) => Line::Header(self.zone, index),
            Part::Map(index) => Line::Map(self.zone, index),
            Part::Heads(index) => Line::Heads(self.zone, index),
            Part::Leaf(leaf) => Line::Gigablock(self.zone, leaf),
            Part::Depot(line) => Line::Depot(self.zone, line),
        };
        self.platform.touch(line, access, miss);
    }

    #[inline(always)]
    fn cost(self, cost: Cost, count: u32) {
        self.platform.cost(cost, count);
    }
}

impl<P: Platform> Zone<'_, P> {
    #[inline(always)]
    pub(super) fn hooks<'p>(&self, platform: &'p P) -> Hooks<'p, P> {
        Hooks { platform, zone: self.placement.id }
    }

    /// Reports an acquisition of the lock, and an access to the cache line that every holder uses.
    /// The line is transferred from the last holder's cache.
    #[inline(always)]
    pub(super) fn probe_hold(&self, platform: &P) {
        platform.cost(Cost::ZoneHold, 1);
        platform.touch(Line::ZoneIndex(self.placement.id, 0), Access::Write, Miss::Dependent);
    }

    /// Reports an access to the published counters, which are read without the lock and written
    /// under it.
    #[inline(always)]
    pub(crate) fn probe_words(&self, platform: &P, access: Access) {
        platform.touch(Line::ZoneWords(self.placement.id), access, Miss::Dependent);
    }

    /// Reports bundles that were taken. Bundles of whole pageblocks are not reported here: the buddy
    /// reports them, because it does not access their maps.
    #[inline(always)]
    pub(super) fn probe_taken(&self, platform: &P, bundles: &[Bundle]) {
        for bundle in parts_of_pageblocks::<P>(bundles) {
            let is_searched = bundle.order > Order::ZERO;
            platform.cost(if is_searched { Cost::TakeHighOrder } else { Cost::TakeBundles }, 1);
            platform.cost(Cost::TakeFrames, bundle.frame_count() as u32);
        }
    }

    /// Reports bundles that are about to be freed, without those of whole pageblocks.
    #[inline(always)]
    pub(super) fn probe_given(&self, platform: &P, bundles: &[Bundle]) {
        for bundle in parts_of_pageblocks::<P>(bundles) {
            let frames = bundle.frame_count() as u32;
            platform.cost(if frames == 1 { Cost::GiveSingles } else { Cost::GiveBundles }, 1);
            platform.cost(Cost::GiveFrames, frames);
        }
    }

    /// Reports a rare operation on pageblocks, one report per pageblock.
    #[inline(always)]
    pub(super) fn probe_pageblocks(
        &self,
        platform: &P,
        cost: Cost,
        blocks: impl Iterator<Item = u32>,
    ) {
        if !P::LISTENING {
            return;
        }
        for block in blocks {
            self.hooks(platform).pageblock(block, Miss::Independent, true, Access::Write);
            platform.cost(cost, 1);
        }
    }

    /// Reports a search over pageblocks.
    #[inline(always)]
    pub(crate) fn probe_search(&self, platform: &P, blocks: core::ops::Range<u32>) {
        platform.cost(Cost::Search, blocks.len() as u32);
        if !P::LISTENING {
            return;
        }
        for block in blocks.step_by(64) {
            let leaf = Line::Gigablock(self.placement.id, block / 64);
            platform.touch(leaf, Access::Read, Miss::Dependent);
        }
    }
}

/// The bundles of blocks that are smaller than a pageblock; none if the platform ignores the hooks.
#[inline(always)]
fn parts_of_pageblocks<P: Platform>(bundles: &[Bundle]) -> impl Iterator<Item = &Bundle> {
    let reported = if P::LISTENING { bundles } else { &[] };
    reported.iter().filter(|bundle| bundle.order < Order::PAGEBLOCK)
}
