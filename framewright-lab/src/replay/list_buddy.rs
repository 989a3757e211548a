//! A replay on the classic design, for comparison: one `ListBuddy` per zone.
//!
//! Its memory starts in the same state as that of the library: the same pageblocks with the same
//! types and free blocks, and the same blocks on CPU lists. The kernel's tables do not have the
//! order of free blocks on a list; here the lists are in the order of addresses. The classic design
//! has no watermarks and no reserves: a request uses the highest zone that it may use until that
//! zone is empty. The lists of every CPU are trimmed once in a recorded second.

use std::iter;

use framewright::{NodeId, Order, Request, ZoneKind};
use framewright_peers::list_buddy::{
    self, DrainReason, Links, ListBuddy, LockName, Padded, Threads, Tuning,
};

use super::{
    allocator::Allocator,
    engine::Engine,
    layout::Layout,
    map::{self, PageblockMap},
    plan::{Plan, ZonePlan},
    report::{Activity, Balance, ListBuddyReport},
    survey::{PAGEBLOCK, Recording, Survey},
    tracks::{Traced, Tracks},
};
use crate::{
    Error,
    samples::MemoryState,
    simulated::{ListBlock, migratetype},
    workloads::Counts,
};

/// Builds the planned machine and replays the recording on it.
pub(super) fn replay(
    recording: &Recording,
    survey: &Survey,
    plan: &Plan,
    tuning: &Tuning,
    traced: Option<Traced<'_>>,
    progress: &mut dyn FnMut(f64),
) -> Result<ListBuddyReport, Error> {
    let maps = map::map(plan, &survey.census);
    let mut engine = Engine::start(ListMachine::new(plan, tuning)?, survey, plan, &maps);
    drop(maps);
    let (start, before) = (engine.machine.state(), engine.machine.counters());
    let tracks = traced.map(|traced| Tracks::new(traced, plan, iter::empty(), survey.first_nanos));
    engine.run(recording, tracks, progress)?;
    let (end, after) = (engine.machine.state(), engine.machine.counters());
    let logical = engine.logical;
    Ok(ListBuddyReport {
        balance: Balance::new(start.in_use, end.in_use, &logical),
        total: Activity {
            alloc_frames: logical.alloc_frames - logical.refused_frames,
            free_frames: logical.free_frames + logical.freed_unseen_frames
                - logical.unmatched_frames,
            ..activity(&before, &after)
        },
        logical,
        free: [start.free, end.free],
        held_at_start: start.held_by_cpus,
        samples: engine.samples,
    })
}

/// Counters of all zones: the common ones, and drains by reason.
struct Counters(Counts, [u64; DrainReason::COUNT]);

fn activity(Counters(before, earlier): &Counters, Counters(after, later): &Counters) -> Activity {
    let counts = *after - *before;
    let reasons = [
        ("threshold", DrainReason::Threshold),
        ("high-order", DrainReason::HighOrder),
        ("remote", DrainReason::Emptied),
        ("trim", DrainReason::Decay),
    ];
    let drains = reasons.map(|(name, of)| (name, later[of as usize] - earlier[of as usize]));
    Activity {
        list_hits: counts.list_hits,
        list_misses: counts.refills,
        refills: counts.refills,
        refilled_frames: counts.refilled_frames,
        drains: drains.into(),
        drained_frames: counts.drained_frames,
        zone_allocs: counts.zone_allocs,
        zone_frees: counts.zone_frees,
        zone_lock_acquisitions: counts.acquisitions,
        zone_lock_frames: counts.lock_frames,
        claims: counts.claims,
        steals: counts.steals,
        ..Activity::default()
    }
}

/// All zones, and the CPUs that use them.
struct ListMachine {
    /// Ascending.
    zones: Vec<Zone>,
    cpus: u16,
}

struct Zone {
    node: NodeId,
    kind: ZoneKind,
    /// Its first frame.
    start: u64,
    /// The frame that is number 0 of its allocator: aligned to the largest block.
    base: u64,
    managed: u64,
    buddy: ListBuddy<OneThread>,
}

/// One thread acts for all CPUs, and there is no memory behind the frames.
struct OneThread;

impl list_buddy::Machine for OneThread {
    type Lock<T: Send> = Padded<T>;
    type Descriptor = Links;

    fn new_lock<T: Send>(&self, whose: LockName, value: T) -> Padded<T> {
        Threads.new_lock(whose, value)
    }
}

impl Zone {
    fn new(plan: &ZonePlan, cpus: u16, tuning: &Tuning) -> Result<Self, Error> {
        let base = plan.first & !1;
        let frames = (plan.first + plan.spanned - base) * PAGEBLOCK;
        Ok(Self {
            node: plan.node,
            kind: plan.kind,
            start: plan.first * PAGEBLOCK,
            base: base * PAGEBLOCK,
            managed: plan.managed,
            buddy: ListBuddy::in_use(OneThread, frames, plan.managed, cpus.into(), tuning)?,
        })
    }

    /// The number of a frame in its allocator.
    fn number(&self, pfn: u64) -> u64 {
        pfn - self.base
    }

    /// Makes the parts of a pageblock free or used, as in its layout. The allocator does not get
    /// the holes.
    fn place(
        &self,
        layout: &Layout,
        at: usize,
        size: usize,
        start: u64,
        used: &mut Vec<ListBlock>,
    ) {
        let (frame, order) = (start + at as u64, size.ilog2() as u8);
        if layout.is_free(at, size) {
            self.buddy.set_free(self.number(frame), order);
        } else if layout.is_used(at, size) && layout.is_present(at, size) {
            self.buddy.set_used(self.number(frame), order);
            used.push(ListBlock { frame, order });
        } else if size > 1 {
            self.place(layout, at, size / 2, start, used);
            self.place(layout, at + size / 2, size / 2, start, used);
        }
    }
}

impl ListMachine {
    fn new(plan: &Plan, tuning: &Tuning) -> Result<Self, Error> {
        let zones = plan.zones.iter().map(|zone| Zone::new(zone, plan.cpus, tuning));
        Ok(Self { zones: zones.collect::<Result<_, _>>()?, cpus: plan.cpus })
    }

    /// The zone of a frame.
    fn zone_of(&self, pfn: u64) -> &Zone {
        let after = self.zones.partition_point(|zone| zone.start <= pfn);
        &self.zones[after.saturating_sub(1)]
    }

    fn all_cpus(&self) -> impl Iterator<Item = (&Zone, usize)> {
        let cpus = usize::from(self.cpus);
        self.zones.iter().flat_map(move |zone| (0..cpus).map(move |cpu| (zone, cpu)))
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters(Counts::default(), [0; DrainReason::COUNT]);
        for stats in self.zones.iter().map(|zone| zone.buddy.stats()) {
            sum.0 = sum.0 + stats.into();
            sum.1.iter_mut().zip(stats.cpus.drains).for_each(|(sum, drains)| *sum += drains);
        }
        sum
    }
}

impl Allocator for ListMachine {
    type Block = ListBlock;

    fn zone_lock_acquisitions(&self) -> u64 {
        self.counters().0.acquisitions
    }

    fn cpus(&self) -> u16 {
        self.cpus
    }

    fn trim(&mut self, cpu: u16) {
        self.zones.iter().for_each(|zone| zone.buddy.decay(cpu.into()));
    }

    /// Tries the zones that the request may use from the highest to the lowest, those of its node
    /// first. Without a node, these are the zones of node 0.
    fn alloc(&mut self, cpu: u16, request: Request) -> Option<ListBlock> {
        let (order, of) = (request.order().get(), migratetype(request.migratetype()));
        let node = request.node().unwrap_or_default();
        let usable = |zone: &&Zone| zone.kind <= request.highest();
        let zones = |near| self.zones.iter().rev().filter(move |zone| (zone.node == node) == near);
        zones(true).chain(zones(false)).filter(usable).find_map(|zone| {
            let frame = zone.base + zone.buddy.alloc(cpu.into(), order, of)?;
            Some(ListBlock { frame, order })
        })
    }

    fn free(&mut self, cpu: u16, block: ListBlock) {
        let zone = self.zone_of(block.frame);
        let freed = zone.buddy.free(cpu.into(), zone.number(block.frame), block.order);
        debug_assert!(freed.is_ok(), "the block is not of this zone: {freed:?}");
    }

    fn split(&mut self, ListBlock { frame, order }: ListBlock) -> (ListBlock, ListBlock) {
        let zone = self.zone_of(frame);
        let done = zone.buddy.split(zone.number(frame), order);
        assert!(done, "an allocated block of order {order} has halves");
        let half = |frame| ListBlock { frame, order: order - 1 };
        (half(frame), half(frame + (1 << (order - 1))))
    }

    fn raise_high(&mut self, zone: &ZonePlan, cpu: u16) {
        let high = zone.cpus[usize::from(cpu)].high;
        let zone = self.zone_of(zone.first * PAGEBLOCK);
        zone.buddy.raise_high(cpu.into(), u32::try_from(high).unwrap_or(u32::MAX));
    }

    fn place(&mut self, block: &PageblockMap) -> Vec<ListBlock> {
        let (start, zone) = (block.start(), self.zone_of(block.start()));
        zone.buddy.set_pageblock_type(zone.number(start), migratetype(block.of));
        let mut used = Vec::new();
        match &block.used {
            None => zone.buddy.set_free(zone.number(start), Order::PAGEBLOCK.get()),
            Some(of) => zone.place(&of.layout, 0, PAGEBLOCK as usize, start, &mut used),
        }
        used
    }

    fn fill(&mut self, cpu: u16, _: &ZonePlan, blocks: Vec<ListBlock>) {
        for ListBlock { frame, order } in blocks {
            let zone = self.zone_of(frame);
            let number = zone.number(frame);
            if !zone.buddy.set_listed(cpu.into(), number, order) {
                zone.buddy.set_free(number, order);
            }
        }
    }

    fn state(&mut self) -> MemoryState {
        let held = |(zone, cpu): (&Zone, usize)| u64::from(zone.buddy.held(cpu));
        MemoryState::of_blocks(
            self.zones.iter().map(|zone| zone.buddy.free_blocks()),
            self.all_cpus().map(held).sum(),
            self.zones.iter().map(|zone| zone.managed).sum(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        replay::{
            self,
            tests::{Script, before, replay as on_library, shipped},
        },
        trace::{Snapshot, snapshot},
    };

    fn on_list_buddy(recording: &Recording, snapshot: Option<&Snapshot>) -> ListBuddyReport {
        let survey = Survey::of(recording, &mut |_| {}).unwrap();
        let tuning = Tuning::default();
        let tables = before(snapshot);
        replay::run_list_buddy(recording, &survey, &tables, &tuning, None, &mut |_| {}).unwrap()
    }

    #[test]
    fn the_classic_design_starts_in_the_same_state_and_does_the_same_work() {
        let (recording, snapshot) = shipped();
        let ours = on_library(&recording, Some(&snapshot), &framewright::Tuning::default());
        let theirs = on_list_buddy(&recording, Some(&snapshot));
        assert_eq!(theirs.free[0].blocks, ours.free.start.blocks);
        // The classic design keeps every block on its lists that the kernel had there.
        let kernel: u64 = snapshot.zones.iter().map(snapshot::Zone::held_by_cpus).sum();
        assert_eq!(theirs.held_at_start, kernel);
        let short = kernel - ours.machine.held_at_start;
        assert!(short <= kernel / 100, "{short}");
        assert_eq!(theirs.logical, ours.logical);
        let end = |balance: &Balance| (balance.recorded, balance.replayed);
        assert_eq!(end(&theirs.balance).0, end(&theirs.balance).1);
        assert!(end(&theirs.balance).0.abs_diff(end(&ours.balance).0) <= short);
        assert_eq!(theirs.samples.len(), ours.samples.len());
        // The tables have 8 free blocks of order 9, and 1333 of order 10.
        for samples in [&ours.samples, &theirs.samples] {
            let order9: Vec<u64> = samples.iter().map(|sample| sample.order9_allocatable).collect();
            assert_eq!(order9[0], 8 + 2 * 1333);
            assert!(order9.iter().all(|blocks| (2000..=2674).contains(blocks)), "{order9:?}");
        }
        assert!(theirs.total.refilled_frames > 10_000 && theirs.total.zone_lock_acquisitions > 0);
        assert_eq!(theirs, on_list_buddy(&recording, Some(&snapshot)), "not deterministic");
    }

    #[test]
    fn the_classic_design_has_the_zones_the_holes_and_the_parts_of_the_recording() {
        // The zone begins at an odd pageblock; its last pageblock lacks 100 frames.
        let tables = "# zoneinfo\nNode 0, zone DMA32\npages free 2048\nspanned 4096\nmanaged 4096\n\
                      start_pfn: 0\nNode 0, zone Normal\npages free 6000\nspanned 8192\n\
                      managed 8092\nstart_pfn: 4608\n";
        let snapshot = Snapshot::parse("t", tables.as_bytes()).unwrap();
        let mut script =
            Script::default().alloc(0, 0x200, 3).alloc(0, 0x1400, 9).free(0, 0x1480, 7);
        for pfn in (0x1400..0x1480).chain(0x1500..0x1600) {
            script = script.free(0, pfn, 0);
        }
        let script = script.free(0, 0x100, 4).free(0, 0x1300, 4);
        let ours = script.replay(Some(&snapshot));
        let theirs = on_list_buddy(&script.recording(), Some(&snapshot));
        assert_eq!(theirs.free[0].blocks, ours.free.start.blocks);
        assert_eq!(theirs.logical, ours.logical);
        assert!(theirs.logical.partial_frees > 0 && theirs.logical.refused_allocs == 0);
        assert_eq!(
            (theirs.balance.recorded, theirs.balance.replayed),
            (4140 + 8 - 32, 4140 + 8 - 32)
        );
    }
}
