//! The machine to build: how large, how many CPUs, what is in use at the beginning, what is free.

use framewright::MigrateType;
use framewright::frame::{PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};

use super::survey::Survey;
use crate::trace::Snapshot;

/// Frames in a pageblock.
pub(super) const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;
/// Orders below a pageblock.
pub(super) const SMALL_ORDERS: usize = PAGEBLOCK_ORDER as usize;
/// Spare frames of a machine that no snapshot describes: 256 MiB.
const ROOM_WITHOUT_SNAPSHOT: u64 = 1 << 16;

/// The machine and its state at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Frames that the allocator shall manage.
    pub(super) frames: u64,
    /// CPUs.
    pub(super) cpus: u16,
    /// Frames in use when the recording begins.
    pub(super) in_use: u64,
    /// Frames on each CPU's lists when the recording begins.
    pub(super) held: Vec<u64>,
    /// Pageblocks with frames in use, by migratetype.
    pub(super) types: [TypePlan; MigrateType::REQUESTABLE.len()],
    /// A snapshot tells all this; otherwise it is what the recording needs at least.
    pub(super) from_snapshot: bool,
}

/// The pageblocks of one migratetype that are not wholly free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypePlan {
    /// How many there are.
    pub(super) pageblocks: u64,
    /// Free blocks in them, by order.
    pub(super) free_blocks: [u64; SMALL_ORDERS],
}

impl TypePlan {
    fn free_frames(&self) -> u64 {
        (0..).zip(self.free_blocks).map(|(order, blocks): (u32, u64)| blocks << order).sum()
    }
}

impl Plan {
    /// The machine that the recording was made on.
    pub(super) fn from_snapshot(snapshot: &Snapshot, survey: &Survey) -> Self {
        let mut held = vec![0; usize::from(survey.cpus)];
        for lists in snapshot.zones.iter().flat_map(|zone| &zone.cpus) {
            // A CPU of the snapshot that the recording does not know was idle all the time.
            let cpu = usize::from(lists.cpu).min(held.len() - 1);
            held[cpu] += lists.count;
        }
        let mut plan = Self {
            frames: snapshot.managed(),
            cpus: survey.cpus,
            in_use: snapshot.in_use(),
            held,
            types: planted(snapshot),
            from_snapshot: true,
        };
        plan.fit();
        plan
    }

    /// A machine that is large enough for the recording: stand-ins for every free whose allocation
    /// was not seen, the recording's peak on top, a quarter more, and 256 MiB.
    pub(super) fn from_survey(survey: &Survey) -> Self {
        let in_use = survey.unseen_frames;
        let peak = in_use.saturating_add_signed(survey.peak);
        let mut plan = Self {
            frames: (peak + peak / 4 + ROOM_WITHOUT_SNAPSHOT).next_multiple_of(PAGEBLOCK),
            cpus: survey.cpus,
            in_use,
            held: vec![0; usize::from(survey.cpus)],
            types: Default::default(),
            from_snapshot: false,
        };
        plan.fit();
        plan
    }

    /// Frames that are not free: in use, or on a CPU's lists.
    pub(super) fn taken(&self) -> u64 {
        self.in_use + self.held.iter().sum::<u64>()
    }

    /// Makes the pageblocks hold exactly the frames taken and the free blocks among them.
    ///
    /// A snapshot's pageblocks include frames that the kernel keeps for itself and that no allocator
    /// manages; they are left out here, and movable pageblocks, the most numerous, give way.
    fn fit(&mut self) {
        let free = || self.types.iter().map(TypePlan::free_frames).fold(0, u64::saturating_add);
        if self.taken().saturating_add(free()) > self.frames {
            // The tables contradict each other; zoneinfo is the one that is needed.
            self.types = Default::default();
        }
        let free = self.types.iter().map(TypePlan::free_frames).sum::<u64>();
        let needed = (self.taken() + free).div_ceil(PAGEBLOCK);
        let [unmovable, movable, reclaimable] = &mut self.types;
        let least = |plan: &TypePlan| plan.free_frames().div_ceil(PAGEBLOCK);
        let mut left = needed.saturating_sub(least(movable));
        for plan in [unmovable, reclaimable] {
            plan.pageblocks = plan.pageblocks.min(left).max(least(plan));
            left = left.saturating_sub(plan.pageblocks);
        }
        let others = self.types[0].pageblocks + self.types[2].pageblocks;
        self.types[1].pageblocks = needed.saturating_sub(others).max(least(&self.types[1]));
    }
}

/// What the snapshot's pagetypeinfo says. Counts that the kernel capped, and a snapshot without the
/// table, plan no free blocks: everything in use is then in whole pageblocks.
fn planted(snapshot: &Snapshot) -> [TypePlan; MigrateType::REQUESTABLE.len()] {
    let mut plans = <[TypePlan; MigrateType::REQUESTABLE.len()]>::default();
    let lists = || snapshot.zones.iter().flat_map(|zone| &zone.types);
    if lists().any(|lists| lists.capped) {
        return plans;
    }
    for lists in lists() {
        let plan = match lists.name.as_str() {
            "Unmovable" => &mut plans[MigrateType::Unmovable as usize],
            "Reclaimable" => &mut plans[MigrateType::Reclaimable as usize],
            // CMA and the reserves hold movable memory, if any.
            _ => &mut plans[MigrateType::Movable as usize],
        };
        let mut wholly_free = 0;
        for (order, &blocks) in lists.free_blocks.iter().enumerate() {
            match plan.free_blocks.get_mut(order) {
                Some(small) => *small += blocks,
                None => wholly_free += blocks << (order - SMALL_ORDERS),
            }
        }
        plan.pageblocks += lists.pageblocks.saturating_sub(wholly_free);
    }
    plans
}
