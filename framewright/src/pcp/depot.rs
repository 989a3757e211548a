//! A CPU's side of the depot of a zone: which blocks go there, and giving them back to the maps.

use super::{cpu::Cpu, lists::pack};
use crate::{
    buddy::{Bundle, Bundles, MigrateType},
    platform::{Cost, Platform},
    zone::{Kind, Loose},
};

/// Bundles of up to so many blocks are parted: what a bundle costs in the maps does not depend on
/// its blocks, what it costs in the depot does.
const FEW: u32 = 2;

impl<P: Platform> Cpu<'_, '_, P> {
    /// Gives bundles to the zone under one lock hold: those with few blocks to its depot as far as
    /// that takes them, the others to the maps.
    pub(super) fn give_parted(&self, bundles: &mut Bundles) {
        let mut loose = Loose::new();
        if !self.zone_is_low() && self.zone.depot_takes(bundles.frames()) {
            self.part(bundles, &mut loose);
        }
        if loose.is_empty() {
            return self.give(bundles);
        }
        self.platform.cost(Cost::BulkFree, 1);
        self.zone.prefetch(self.platform, bundles.as_slice());
        let parted = loose.frames();
        let refusals = self.zone.give_parted(self.platform, bundles.as_slice(), &mut loose);
        let taken_in = parted - loose.frames();
        self.count_lock(bundles.frames() + taken_in);
        self.pages.counters.to_depot.add(taken_in);
        self.pages.counters.refused_frames.add(refusals.frames);
        self.report(refusals);
        self.give_loose(&mut loose);
    }

    /// Moves bundles with few blocks to `loose`, of the kind of the first.
    fn part(&self, bundles: &mut Bundles, loose: &mut Loose) {
        bundles.retain(|bundle| {
            let kind = Kind::of(bundle.order, self.zone.type_number(bundle.word * 64));
            let is_loose =
                bundle.blocks() <= FEW && kind.is_some_and(|kind| loose.add(kind, bundle));
            !is_loose
        });
        self.platform.cost(Cost::LooseBlocks, loose.blocks().len() as u32);
    }

    /// Gives blocks without neighbours to the maps.
    #[inline]
    pub(super) fn give_loose(&self, loose: &mut Loose) {
        if let Some(kind) = loose.kind()
            && !loose.is_empty()
        {
            self.sort_and_give(kind, loose);
        }
    }

    #[inline(never)]
    fn sort_and_give(&self, kind: Kind, loose: &mut Loose) {
        loose.sort();
        self.platform.cost(Cost::LooseBlocks, loose.blocks().len() as u32);
        let mut bundles = Bundles::new();
        let mut rest = loose.blocks();
        while let Some((bundle, used)) = pack(rest, kind.order()) {
            rest = &rest[used..];
            self.add_or_give(bundle, &mut bundles);
        }
        self.give(&bundles);
        loose.clear();
    }

    fn add_or_give(&self, bundle: Bundle, bundles: &mut Bundles) {
        if bundles.is_full() {
            self.give(bundles);
            bundles.clear();
        }
        bundles.push(bundle);
    }

    /// Gives back to the maps as much as lay in the depot when the call began. Not for who is
    /// inside the lists.
    pub(crate) fn empty_depot(&self) {
        let mut left = self.zone.in_depot();
        while left > 0 {
            match self.shrink_depot(None) {
                0 => return,
                frames => left = left.saturating_sub(frames),
            }
        }
    }

    /// Gives a part of what lies in the depot, in pageblocks of type `of` or of any, back to the
    /// maps. Returns how many frames; 0: there was nothing.
    pub(super) fn shrink_depot(&self, of: Option<MigrateType>) -> u64 {
        if self.zone.in_depot() == 0 {
            return 0;
        }
        let mut loose = Loose::new();
        self.zone.take_from_depot(self.platform, of, &mut loose);
        let frames = loose.frames();
        self.count_lock(frames);
        self.give_loose(&mut loose);
        frames
    }
}
