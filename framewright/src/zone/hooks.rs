//! What a simulator hears of a zone.
//!
//! Under the lock the buddy tells of batches as they go on ([`Watch`]); what happens rarely is
//! probed here, as a whole: so many pageblocks were looked at or changed.

use super::Zone;
use crate::{
    buddy::{Bundle, Part, Watch},
    platform::{Access, Cost, Line, Miss, Platform},
    types::{Order, ZoneId},
};

/// The hooks of a machine, for one of its zones.
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

    /// The lock was taken: what every holder uses comes over from the last.
    #[inline(always)]
    pub(super) fn probe_hold(&self, platform: &P) {
        platform.cost(Cost::ZoneHold, 1);
        platform.touch(Line::ZoneIndex(self.placement.id, 0), Access::Write, Miss::Dependent);
    }

    /// What is published is read without the lock, or written under it.
    #[inline(always)]
    pub(crate) fn probe_words(&self, platform: &P, access: Access) {
        platform.touch(Line::ZoneWords(self.placement.id), access, Miss::Dependent);
    }

    /// Bundles were taken, or are about to be given. Whole pageblocks are no bits of maps: those
    /// the buddy tells of.
    #[inline(always)]
    pub(super) fn probe_bundles(
        &self,
        platform: &P,
        (per_bundle, per_frame): (Cost, Cost),
        bundles: &[Bundle],
    ) {
        let probed = if P::LISTENING { bundles } else { &[] };
        for bundle in probed.iter().filter(|bundle| bundle.order < Order::PAGEBLOCK) {
            platform.cost(per_bundle, 1);
            platform.cost(per_frame, bundle.frame_count() as u32);
        }
    }

    /// Something rarer was done to pageblocks, each by itself.
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

    /// A search went from one frame to another.
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

    /// The metadata of pageblocks that bundles lie in was asked for ahead of the lock.
    #[inline(always)]
    pub(super) fn probe_prefetch(&self, platform: &P, bundles: &[Bundle]) {
        if !P::LISTENING {
            return;
        }
        let mut last = None;
        for block in bundles.iter().map(|bundle| bundle.pageblock()) {
            if last != Some(block) {
                self.hooks(platform).pageblock(block, Miss::Independent, true, Access::Prefetch);
                last = Some(block);
            }
        }
    }
}
