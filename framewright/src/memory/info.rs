//! Information about a memory: zones, watermarks, free blocks, and a consistency check.

use super::Memory;
use crate::{
    buddy::BlockCounts,
    platform::Platform,
    types::{NodeId, Order, PAGEBLOCK_FRAMES, Pfn, Violation, ZoneId, ZoneKind},
    zone::Zone,
};

/// The state of a zone. Counts are in frames and may be stale by one critical section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneInfo {
    /// The number of the zone.
    pub id: ZoneId,
    /// The node of the zone.
    pub node: NodeId,
    /// The kind of the zone.
    pub kind: ZoneKind,
    /// The first frame of the zone's first pageblock.
    pub start: Pfn,
    /// Frames from `start` to the end of the last pageblock, holes included.
    pub spanned: u64,
    /// Frames that the zone manages: present and not holes.
    pub managed: u64,
    /// Free frames in the zone. Those on CPU lists, in the depot and in isolated pageblocks are not
    /// counted.
    pub free: u64,
    /// Frames on CPU lists and in quarantine.
    pub held_by_cpus: u64,
    /// Frames in the zone's depot, which passes free blocks from CPU to CPU.
    pub in_depot: u64,
    /// The boost: the watermarks are temporarily raised by this many frames. See
    /// [`Memory::lower_boost`].
    pub boost: u64,
    /// The huge-page reserve: the watermarks are raised by this many frames for all requests that
    /// may not use it.
    pub huge_reserve: u64,
    /// The min watermark. All watermarks of this type include the boost and the huge-page reserve.
    pub min: u64,
    /// The low watermark.
    pub low: u64,
    /// The high watermark.
    pub high: u64,
    /// The promo watermark: as far above high as high is above low.
    pub promo: u64,
    /// The lowmem reserve: frames that a request for a higher kind of zone must leave free, by the
    /// highest kind of the request.
    pub protection: [u64; ZoneKind::COUNT],
}

impl<P: Platform> Memory<'_, P> {
    /// The zones, by node and kind.
    pub fn zones(&self) -> impl Iterator<Item = ZoneInfo> {
        (0..self.core.zones().len()).filter_map(|zone| self.zone(ZoneId::new(zone)))
    }

    /// The state of a zone; `None` if there is no such zone.
    #[must_use]
    pub fn zone(&self, id: ZoneId) -> Option<ZoneInfo> {
        let zone = self.core.zones().get(id.index())?;
        let (levels, boost) = (zone.marks().levels(), zone.marks().boost());
        let huge_reserve = zone.marks().huge_reserve();
        let raised = boost + huge_reserve;
        Some(ZoneInfo {
            id,
            node: zone.node(),
            kind: zone.kind(),
            start: zone.base(),
            spanned: (zone.types().len() * PAGEBLOCK_FRAMES) as u64,
            managed: zone.managed(),
            free: zone.free(),
            held_by_cpus: self.core.held_of(id),
            in_depot: zone.in_depot(),
            boost,
            huge_reserve,
            min: levels.min + raised,
            low: levels.low + raised,
            high: levels.high + raised,
            promo: levels.promo + raised,
            protection: zone.marks().protection(),
        })
    }

    /// Lowers the boost of a zone's watermarks by up to `by` frames; does nothing if there is no
    /// such zone. Background reclaim calls this when it has freed as many frames as the boost at
    /// the start of its work ([`ZoneInfo::boost`]), or cannot free them. The huge-page reserve of
    /// the zone shrinks as well if no huge page was requested in the last ten seconds.
    pub fn lower_boost(&self, zone: ZoneId, by: u64) {
        if let Some(zone) = self.core.zones().get(zone.index()) {
            zone.lower_boost(self.platform(), by);
            zone.age_huge_reserve(self.platform());
        }
    }

    /// Each zone's number, its free frames (possibly stale), and its min watermark without boost
    /// and huge-page reserve. Cheaper than [`Memory::zones`], because it does not read the state of
    /// the CPU lists.
    pub fn free_and_min(&self) -> impl Iterator<Item = (ZoneId, u64, u64)> {
        let zones = self.core.zones().iter().enumerate();
        zones.map(|(id, zone)| (ZoneId::new(id), zone.free(), zone.marks().levels().min))
    }

    /// Free frames in the depots of the zones, which pass them from CPU to CPU; possibly stale.
    #[must_use]
    pub fn in_depots(&self) -> u64 {
        self.core.zones().iter().map(Zone::in_depot).sum()
    }

    /// Frames that the zones manage.
    #[must_use]
    pub fn managed(&self) -> u64 {
        self.core.zones().iter().map(Zone::managed).sum()
    }

    /// Free frames in the zones, possibly stale. Those on CPU lists, in depots and in isolated
    /// pageblocks are not counted.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.core.zones().iter().map(Zone::free).sum()
    }

    /// Frames in use: managed, and neither free in the zones nor on CPU lists nor in depots; possibly
    /// stale. Freed frames that wait for a TLB flush and free frames of isolated pageblocks count as
    /// in use.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let idle = self.free() + self.held_by_cpus() + self.in_depots();
        self.managed().saturating_sub(idle)
    }

    /// Free blocks of a zone by type and order, and its pageblocks by type; all 0 if there is no
    /// such zone. Walks every pageblock, a few under each hold of the zone lock, so blocks that are
    /// allocated or freed meanwhile may be counted twice or not at all. For reports and tests, not
    /// for policies.
    #[must_use]
    pub fn block_counts(&self, zone: ZoneId) -> BlockCounts {
        let zone = self.core.zones().get(zone.index());
        zone.map_or_else(BlockCounts::default, |zone| zone.block_counts(self.platform()))
    }

    /// The order of the largest free block; `None` if no block is free. Computed from published
    /// counters.
    #[must_use]
    pub fn largest_free_order(&self) -> Option<Order> {
        self.core.largest_free_order()
    }

    /// Checks the invariants of a memory while no operation is in progress. Pageblock headers agree
    /// with maps and lists. In each zone, free frames, frames on CPU lists and in the depot, and
    /// allocated frames add up to the managed frames. From
    /// [`Hardening::Tracked`](crate::tuning::Hardening) on, the states of the frames agree with the
    /// counters. Deferred frames, and frames in use from the start that were not taken, are
    /// allocated. Walks every pageblock.
    ///
    /// # Errors
    ///
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        (0..self.core.zones().len()).try_for_each(|zone| self.check_zone(ZoneId::new(zone)))?;
        self.check_in_use()?;
        self.check_deferred()
    }

    /// Checks that deferred frames are allocated.
    fn check_deferred(&self) -> Result<(), Violation> {
        let zones = (0..self.core.zones().len()).map(|zone| self.zone_stats(ZoneId::new(zone)));
        let used: u64 = zones.map(|stats| stats.pgalloc.wrapping_sub(stats.pgfree)).sum();
        match self.tlb.deferred() {
            deferred if deferred > used => {
                Err(Violation { what: "more frames are deferred than are allocated", at: deferred })
            }
            _ => Ok(()),
        }
    }

    /// Checks the invariants that are true at any time, even while a CPU has taken frames from a
    /// zone and not yet put them on a list: headers agree with maps and lists.
    ///
    /// # Errors
    ///
    /// The first violation found.
    pub fn check_zones(&self) -> Result<(), Violation> {
        (0..self.core.zones().len()).try_for_each(|zone| self.free_of(ZoneId::new(zone)).map(drop))
    }

    /// The free frames of a zone, if its invariants hold.
    fn free_of(&self, id: ZoneId) -> Result<u64, Violation> {
        let free = self.core.zones()[id.index()].with(self.platform(), |buddy| {
            buddy.check()?;
            Ok(buddy.counts().free_frames())
        });
        free.map_err(|(what, at)| Violation { what, at: u64::from(at) })
    }

    fn check_zone(&self, id: ZoneId) -> Result<(), Violation> {
        let zone = &self.core.zones()[id.index()];
        let free = self.free_of(id)?;
        let stats = self.zone_stats(id);
        let used = stats.pgalloc.wrapping_sub(stats.pgfree);
        let sum = free + self.core.held_of(id) + zone.in_depot();
        let sum = sum.wrapping_add(used);
        if sum != zone.managed() {
            return Err(Violation {
                what: "frames free, held by CPUs, in the depot and allocated do not add up to those managed",
                at: sum,
            });
        }
        match zone.states().map(|states| states.owned_frames()) {
            Some(owned) if owned != used => Err(Violation {
                what: "frames marked as allocated do not add up to those allocated",
                at: owned,
            }),
            _ => Ok(()),
        }
    }
}
