//! What a memory says about itself.

use super::Memory;
use crate::{
    buddy::BlockCounts,
    platform::Platform,
    types::{NodeId, Order, PAGEBLOCK_FRAMES, Pfn, Violation, ZoneId, ZoneKind},
    zone::Zone,
};

/// A zone at a glance. Counts are in frames and may be stale by one critical section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneInfo {
    /// Its number.
    pub id: ZoneId,
    /// The node it is on.
    pub node: NodeId,
    /// What its frames can be used for.
    pub kind: ZoneKind,
    /// First frame of its first pageblock.
    pub start: Pfn,
    /// Frames from there to the end of its last pageblock, holes included.
    pub spanned: u64,
    /// Frames it manages.
    pub managed: u64,
    /// Free frames in the zone. Those on CPU lists and in isolated pageblocks are not counted.
    pub free: u64,
    /// Frames on CPU lists, in quarantine included.
    pub held_by_cpus: u64,
    /// Frames in the zone's depot, on their way from CPU to CPU.
    pub in_depot: u64,
    /// What the watermarks are raised by for now: see [`Memory::lower_boost`].
    pub boost: u64,
    /// What they are raised by for most requests, because pageblocks are kept ready for huge pages.
    pub huge_reserve: u64,
    /// The min watermark. This and the others are as in force for most requests, with both.
    pub min: u64,
    /// The low watermark.
    pub low: u64,
    /// The high watermark.
    pub high: u64,
    /// The mark above the high watermark by as much as that is above low.
    pub promo: u64,
    /// Frames kept back from requests that could use a higher kind of zone, by the highest kind
    /// they could use.
    pub protection: [u64; ZoneKind::COUNT],
}

impl<P: Platform> Memory<'_, P> {
    /// The zones, by node and kind.
    pub fn zones(&self) -> impl Iterator<Item = ZoneInfo> {
        (0..self.core.zones().len()).filter_map(|zone| self.zone(ZoneId::new(zone)))
    }

    /// A zone at a glance, if there is such a zone.
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

    /// Takes up to `by` frames off the boost of a zone's watermarks; nothing if there is no such
    /// zone. Background reclaim calls this once the frames that the boost asked for
    /// ([`ZoneInfo::boost`] when the work began) have been freed, or cannot be. The huge-page reserve of the zone
    /// shrinks as well if nobody has asked for a huge page in the last ten seconds.
    pub fn lower_boost(&self, zone: ZoneId, by: u64) {
        if let Some(zone) = self.core.zones().get(zone.index()) {
            zone.lower_boost(self.platform(), by);
            zone.age_huge_reserve(self.platform());
        }
    }

    /// Of every zone the frames that it has free, possibly stale, and its min watermark without the
    /// boost. Unlike [`Memory::zones`] it asks no CPU what is on its lists: for whoever looks often.
    pub fn free_and_min(&self) -> impl Iterator<Item = (ZoneId, u64, u64)> {
        let zones = self.core.zones().iter().enumerate();
        zones.map(|(id, zone)| (ZoneId::new(id), zone.free(), zone.marks().levels().min))
    }

    /// Frames in the depots of the zones, possibly stale: free, and on their way from CPU to CPU.
    #[must_use]
    pub fn in_depots(&self) -> u64 {
        self.core.zones().iter().map(Zone::in_depot).sum()
    }

    /// Frames that the zones manage.
    #[must_use]
    pub fn managed(&self) -> u64 {
        self.core.zones().iter().map(Zone::managed).sum()
    }

    /// Free frames in the zones, possibly stale. Those on CPU lists and in isolated pageblocks
    /// are not counted.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.core.zones().iter().map(Zone::free).sum()
    }

    /// Free blocks of a zone by type and order, and its pageblocks by type; nothing if there is
    /// no such zone. Walks every pageblock, a few under each hold of the zone lock: blocks that are
    /// allocated or freed meanwhile may be counted twice or not at all. For people and tests, not
    /// for policies.
    #[must_use]
    pub fn block_counts(&self, zone: ZoneId) -> BlockCounts {
        let zone = self.core.zones().get(zone.index());
        zone.map_or_else(BlockCounts::default, |zone| zone.block_counts(self.platform()))
    }

    /// The order of the largest free block, without walking.
    #[must_use]
    pub fn largest_free_order(&self) -> Option<Order> {
        self.core.largest_free_order()
    }

    /// Tests what must hold whenever nobody is in the middle of something: headers agree with
    /// maps and lists (I2), and of every zone the frames free, held, and allocated add up (I1,
    /// I9), also by the states that are kept from [`Hardening::Tracked`](crate::tuning::Hardening) on; frames in use from
    /// the start that nobody took, and deferred frames, are among those allocated.
    /// Walks every pageblock.
    ///
    /// # Errors
    ///
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        (0..self.core.zones().len()).try_for_each(|zone| self.check_zone(ZoneId::new(zone)))?;
        self.check_in_use()?;
        self.check_deferred()
    }

    /// Deferred frames are allocated.
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

    /// The part of [`Memory::check`] that holds even while CPUs have frames in hand that they have
    /// taken from a zone and not put anywhere yet: headers agree with maps and lists (I2).
    ///
    /// # Errors
    ///
    /// The first violation found.
    pub fn check_zones(&self) -> Result<(), Violation> {
        (0..self.core.zones().len()).try_for_each(|zone| self.free_of(ZoneId::new(zone)).map(drop))
    }

    /// Free frames of a zone that agrees with itself.
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
