//! The zones of a memory: the zones that a request may use, the zone of a frame, and the
//! watermarks.

use super::MemoryCore;
use crate::{
    pcp::{CpuPages, ZoneOnCpu},
    platform::Platform,
    sync::{AtomicU8, Ordering},
    types::{CpuId, FreeError, NodeId, Order, PAGEBLOCK_ORDER, Pfn, Request, ZoneId, ZoneKind},
    zone::{MarkRules, SideTableIndex, Zone, default_min_free},
};

/// The zone that a CPU tries first, and the CPU's lists for it.
pub(crate) struct LocalZone<'m, P: Platform> {
    pub(crate) id: ZoneId,
    pub(super) pages: &'m CpuPages<'m, P>,
    pub(crate) types: &'m [AtomicU8],
    pub(crate) base: u64,
    /// Whether the zone is on the CPU's own node.
    pub(crate) near: bool,
}

impl<P: Platform> LocalZone<'_, P> {
    /// The number of the frame at `pfn` in the zone. For a frame of another zone it is a number
    /// that no frame of this zone has, because a memory spans fewer than 2^32 frames.
    #[inline(always)]
    pub(crate) fn frame(&self, pfn: Pfn) -> u32 {
        pfn.get().wrapping_sub(self.base) as u32
    }

    /// The number of the type of a frame's pageblock. The answer is reliable only while the caller
    /// is inside the lists: an isolator changes the type and then waits until no owner is inside.
    #[inline(always)]
    pub(crate) fn type_of(&self, frame: u32) -> Option<u8> {
        let of = self.types.get((frame >> PAGEBLOCK_ORDER) as usize)?;
        Some(of.load(Ordering::Relaxed))
    }
}

/// The zones that a request may use, best first ([`MemoryCore::candidate_zones`]).
pub(crate) struct Candidates<'m, P: Platform> {
    zones: &'m [Zone<'m, P>],
    request: Request,
    preferred: NodeId,
    list: core::slice::Iter<'m, ZoneId>,
}

impl<P: Platform> Clone for Candidates<'_, P> {
    fn clone(&self) -> Self {
        Self { list: self.list.clone(), ..*self }
    }
}

impl<P: Platform> Iterator for Candidates<'_, P> {
    type Item = ZoneId;

    /// Not inlined: all steps of the slow path share this code.
    #[inline(never)]
    fn next(&mut self) -> Option<ZoneId> {
        let Self { zones, request, preferred, ref mut list } = *self;
        let allowed = |id: &&ZoneId| {
            let zone = &zones[id.index()];
            zone.serves(request.highest()) && request.allows(zone.node(), preferred)
        };
        list.find(allowed).copied()
    }
}

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// The first frame of the lowest zone. Every frame of the memory is less than 2^32 frames above
    /// it.
    pub(crate) fn start(&self) -> Pfn {
        self.start
    }

    /// The generation of the memory: it changes whenever memory was added or removed.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The zones that requests of a CPU try first: requests for any kind of zone, and requests for
    /// at most [`ZoneKind::Normal`].
    pub(crate) fn local_zones(&self, cpu: CpuId) -> (LocalZone<'m, P>, Option<LocalZone<'m, P>>) {
        // If all memory was removed, the choice of the zone does not matter: its lists stay empty.
        let local = self.first_zone(cpu, ZoneKind::Movable).unwrap_or_default();
        let normal = self.first_zone(cpu, ZoneKind::Normal);
        (self.local_zone(local, cpu), normal.map(|id| self.local_zone(id, cpu)))
    }

    /// The first zone of a CPU's zonelist that serves requests for kinds up to `highest`.
    #[inline(never)]
    fn first_zone(&self, cpu: CpuId, highest: ZoneKind) -> Option<ZoneId> {
        let mut list = self.zonelists.of(self.node_of(cpu)).iter();
        list.find(|id| self.zones[id.index()].serves(highest)).copied()
    }

    fn local_zone(&self, id: ZoneId, cpu: CpuId) -> LocalZone<'m, P> {
        let zone = &self.zones[id.index()];
        LocalZone {
            id,
            pages: self.lists_of(id, cpu),
            types: zone.types(),
            base: zone.base().get(),
            near: zone.node() == self.node_of(cpu),
        }
    }

    /// The zones that a request on `cpu` may use, best first. Zones without memory are left out.
    pub(crate) fn candidate_zones(&self, cpu: CpuId, request: Request) -> Candidates<'m, P> {
        let own = self.node_of(cpu);
        let preferred = request.node().unwrap_or(own);
        // For a node that the machine does not have, the CPU's own node is preferred.
        let list = self.zonelists.of(if self.zonelists.has(preferred) { preferred } else { own });
        Candidates { zones: self.zones, request, preferred, list: list.iter() }
    }

    /// As [`MemoryCore::candidate_zones`], with the CPU's lists for each zone.
    pub(crate) fn candidates(
        &self,
        cpu: CpuId,
        request: Request,
    ) -> impl Iterator<Item = (ZoneId, ZoneOnCpu<'_, 'm, P>)> {
        let zones = self.candidate_zones(cpu, request);
        zones.map(move |id| (id, self.context(id, cpu)))
    }

    /// A zone and a CPU's lists for it.
    pub(crate) fn context(&self, zone: ZoneId, cpu: CpuId) -> ZoneOnCpu<'_, 'm, P> {
        ZoneOnCpu {
            platform: &self.platform,
            zone: &self.zones[zone.index()],
            pages: self.lists_of(zone, cpu),
            tuning: &self.tuning,
            id: cpu,
        }
    }

    /// The zones of a node.
    pub(crate) fn zones_of(&self, node: NodeId) -> impl Iterator<Item = &'m Zone<'m, P>> {
        self.zones.iter().filter(move |zone| zone.node() == node)
    }

    /// The zones of a node, with their numbers.
    pub(crate) fn numbered_zones_of(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = (ZoneId, &'m Zone<'m, P>)> {
        let all = self.zones.iter().enumerate();
        all.filter(move |(_, zone)| zone.node() == node).map(|(i, zone)| (ZoneId::new(i), zone))
    }

    /// All zones with a CPU's lists for them.
    pub(crate) fn contexts(&self, cpu: CpuId) -> impl Iterator<Item = ZoneOnCpu<'_, 'm, P>> {
        (0..self.zones.len()).map(move |zone| self.context(ZoneId::new(zone), cpu))
    }

    pub(crate) fn lists_of(&self, zone: ZoneId, cpu: CpuId) -> &'m CpuPages<'m, P> {
        &self.lists[self.lists_index(zone, cpu)]
    }

    /// The index of the lists of a CPU for a zone.
    pub(super) fn lists_index(&self, zone: ZoneId, cpu: CpuId) -> usize {
        zone.index() * self.cpus.len() + cpu.index()
    }

    /// The zone of a block that a caller of the library names by frame number, and the block's
    /// number in that zone.
    pub(crate) fn locate(&self, pfn: Pfn, order: Order) -> Result<(ZoneId, u32), FreeError> {
        if !pfn.is_aligned(order) {
            return Err(FreeError::Misaligned);
        }
        self.find(pfn, order).ok_or(FreeError::NotOurs)
    }

    /// The zone that contains all frames of a block, and the number of its first frame in the zone.
    pub(crate) fn find(&self, pfn: Pfn, order: Order) -> Option<(ZoneId, u32)> {
        let mut zones = self.zones.iter().enumerate();
        zones.find_map(|(at, zone)| Some((ZoneId::new(at), zone.locate(pfn, order)?)))
    }

    /// Computes the watermarks of all zones from the frames that they manage.
    pub(crate) fn set_watermarks(&self) {
        let lowmem = self.zones.iter().filter(|zone| zone.kind().is_lowmem());
        let lowmem: u64 = lowmem.map(Zone::managed).sum();
        let default = || u32::try_from(default_min_free(lowmem)).unwrap_or(u32::MAX);
        let rules = MarkRules {
            min_free: u64::from(self.tuning.zone.min_free.or(default)),
            scale: self.tuning.zone.watermark_scale,
            lowmem,
            ratios: self.tuning.zone.reserve_ratios,
            boost: self.tuning.zone.watermark_boost,
            huge_reserve: self.tuning.zone.huge_reserve,
        };
        for zone in self.zones {
            let mut managed = [0; ZoneKind::COUNT];
            for other in self.zones.iter().filter(|other| other.node() == zone.node()) {
                managed[other.kind() as usize] = other.managed();
            }
            let levels = rules.levels(zone.kind(), zone.managed());
            let limit = rules.boost_limit(zone.managed(), levels);
            let protection = rules.protection(zone.kind(), managed);
            zone.with(&self.platform, |_| zone.marks().set(levels, limit, protection));
            #[cfg(feature = "compare")]
            zone.set_watermark_by_order(self.tuning.zone.watermark_by_order);
            zone.set_huge_reserve_limit(&self.platform, rules.huge_reserve_limit(zone.managed()));
        }
    }

    /// The zones.
    pub(crate) fn zones(&self) -> &'m [Zone<'m, P>] {
        self.zones
    }

    /// The order of the largest free block, from published counters.
    pub(crate) fn largest_free_order(&self) -> Option<Order> {
        self.zones.iter().filter_map(Zone::largest_free_order).max()
    }

    /// The zone of a frame, and the index of the frame in all side tables; `None` if the memory has
    /// no such frame. Reclaim calls this for every page, so the last zone is tried first: on a
    /// machine with one node it has most of the memory.
    #[inline(always)]
    pub(crate) fn find_slot(&self, pfn: Pfn) -> Option<(&'m Zone<'m, P>, u32)> {
        let last = self.zones.last()?;
        match last.side_table_index().of(pfn) {
            Some(slot) => Some((last, slot)),
            None => self.find_slot_elsewhere(pfn),
        }
    }

    #[inline(never)]
    fn find_slot_elsewhere(&self, pfn: Pfn) -> Option<(&'m Zone<'m, P>, u32)> {
        let (zone, frame) = self.find(pfn, Order::ZERO)?;
        let zone = &self.zones[zone.index()];
        Some((zone, zone.side_table_start() as u32 + frame))
    }

    /// The map from the frames of a zone to their indices in the side tables.
    #[inline(always)]
    pub(crate) fn side_table_index_of(&self, zone: ZoneId) -> SideTableIndex<'m> {
        self.zones[zone.index()].side_table_index()
    }
}
