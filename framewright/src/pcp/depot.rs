//! A CPU's use of the depot of a zone: which blocks go there, and how they return to the maps.

use super::{ListIndex, Lists, cpu::Cpu, packing::pack};
use crate::{
    buddy::{Bundle, Bundles},
    frame::Order,
    observe::DrainReason,
    platform::{Cost, Platform},
    zone::{Homebound, Kind, Loose},
};

/// Bundles of up to this many blocks go to the depot: the cost of a bundle in the maps does not
/// depend on the number of its blocks, the cost in the depot does.
const FEW: u32 = 2;

/// The blocks that leave the lists of a CPU for the zone.
pub(super) struct Leaving {
    /// Blocks for the maps.
    pub(super) bundles: Bundles,
    /// Blocks for the depot, if the depot takes them.
    loose: Loose,
    /// Bundles of at most this many blocks go to the depot.
    few: u32,
    /// Frames that the depot can still take.
    room: u64,
}

impl Leaving {
    /// No blocks; all that are added go to the maps.
    pub(super) const fn new() -> Self {
        Self { bundles: Bundles::new(), loose: Loose::new(), few: 0, room: 0 }
    }

    /// Whether there are no blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.bundles.is_empty() && self.loose.is_empty()
    }

    pub(super) fn frames(&self) -> u64 {
        self.bundles.frames() + self.loose.frames()
    }
}

impl<'m, P: Platform> Cpu<'_, 'm, P> {
    /// Decides for `reason` which blocks go to the depot from now on. Final drains go to the maps.
    /// Blocks of a burst of high-order frees were allocated on another CPU and will be soon again:
    /// all of them go to the depot.
    pub(super) fn parts(&self, leaving: &mut Leaving, reason: DrainReason) {
        leaving.few = match reason {
            DrainReason::Capacity | DrainReason::Threshold => FEW,
            DrainReason::HighOrder => u32::MAX,
            DrainReason::Local | DrainReason::Remote | DrainReason::Offline => return,
        };
        if !self.zone_is_low() {
            leaving.room = self.zone.room_in_depot();
        }
    }

    /// Moves up to `frames` frames out of the lists. Returns how many.
    pub(super) fn gather(
        &self,
        lists: &mut Lists<'m>,
        list: ListIndex,
        frames: u64,
        leaving: &mut Leaving,
    ) -> u64 {
        let mut moved = 0;
        loop {
            moved += lists.gather(self.here(), list, frames - moved, &mut leaving.bundles);
            let parted = self.part(leaving);
            if !parted || moved >= frames {
                return moved;
            }
        }
    }

    /// Moves small bundles from the blocks for the maps to the blocks for the depot. Returns
    /// whether there were any.
    pub(super) fn part(&self, leaving: &mut Leaving) -> bool {
        let Leaving { bundles, loose, few, room } = leaving;
        if *room == 0 {
            return false;
        }
        let before = loose.len();
        bundles.retain(|bundle| {
            let kind = Kind::of(bundle.order, self.zone.type_number(bundle.word * 64));
            let frames = bundle.frame_count();
            let is_loose = bundle.blocks() <= *few
                && frames <= *room
                && kind.is_some_and(|kind| loose.add(kind, bundle));
            if is_loose {
                *room -= frames;
            }
            !is_loose
        });
        let parted = loose.len() - before;
        self.platform.cost(Cost::LooseBlocks, parted as u32);
        parted > 0
    }

    /// Gives all leaving blocks to the zone under one lock hold. Blocks that the depot does not
    /// take go to the maps.
    pub(super) fn give_leaving(&self, leaving: &mut Leaving) {
        let Leaving { bundles, loose, .. } = leaving;
        self.trace_drained(self.blocks_of(bundles.as_slice()).chain(self.loose_blocks(loose)));
        if loose.is_empty() {
            return self.give(bundles);
        }
        self.platform.cost(Cost::BulkFree, 1);
        self.zone.prefetch(self.platform, bundles.as_slice());
        let parted = loose.frames();
        let refusals = self.zone.give_parted(self.platform, bundles.as_slice(), loose);
        let taken_in = parted - loose.frames();
        self.count_lock(bundles.frames() + taken_in);
        self.pages.counters.to_depot.add(taken_in);
        self.pages.counters.refused_frames.add(refusals.frames);
        self.report(refusals);
        self.give_loose(loose);
        self.tidy_depot();
    }

    /// Gives blocks to the maps.
    pub(super) fn give_loose(&self, loose: &mut Loose) {
        if !loose.is_empty() {
            self.sort_and_give(loose);
        }
    }

    #[inline(never)]
    fn sort_and_give(&self, loose: &mut Loose) {
        loose.sort();
        self.platform.cost(Cost::LooseBlocks, loose.len() as u32);
        let mut bundles = Bundles::new();
        for (kind, blocks) in loose.runs() {
            let mut rest = blocks;
            while let Some((bundle, used)) = pack(rest, kind.order()) {
                rest = &rest[used..];
                self.add_or_give(bundle, &mut bundles);
            }
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

    /// Gives back to the maps as many frames as the depot held when the call began. The caller is
    /// not inside the lists.
    pub(crate) fn empty_depot(&self) {
        let mut left = self.zone.in_depot();
        while left > 0 {
            match self.shrink_depot(Homebound::For(None, Order::ZERO)) {
                0 => return,
                frames => left = left.saturating_sub(frames),
            }
        }
    }

    /// Gives a chunk of the depot back to the maps. Returns the number of frames; 0: there were
    /// none.
    pub(super) fn shrink_depot(&self, which: Homebound) -> u64 {
        if self.zone.in_depot() == 0 {
            return 0;
        }
        let mut loose = Loose::new();
        self.zone.take_from_depot(self.platform, which, &mut loose);
        let frames = loose.frames();
        self.count_lock(frames);
        self.give_loose(&mut loose);
        frames
    }

    /// Gives a chunk of the depot's surplus back to the maps, and ends the depot's interval when it
    /// is time. Called after each use of the zone by a refill or a drain.
    pub(super) fn tidy_depot(&self) {
        if self.zone.ends_depot_interval(self.platform) {
            self.zone.end_depot_interval(self.platform);
            self.count_lock(0);
        }
        if self.zone.has_surplus_in_depot() {
            self.shrink_depot(Homebound::Surplus);
        }
    }
}
