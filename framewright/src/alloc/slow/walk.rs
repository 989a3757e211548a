//! Walking the zones that a request can use.

use crate::{
    buddy::Reserve,
    core::{Candidates, Claim, MemoryCore},
    pcp::{ListIndex, OwnedZoneOnCpu, ZoneOnCpu},
    platform::{Cost, Platform, Site},
    types::{AllocError, Order, Pfn, Request, Shortage, ZoneId},
    zone::{Refused, ZoneAccess},
};

/// Walks the zones that the request may use, each with the CPU's lists for it.
pub(super) fn walk<P: Platform>(
    claim: &mut Claim<'_, '_, P>,
    zones: &Candidates<'_, P>,
    request: Request,
    access: ZoneAccess,
) -> Result<Pfn, AllocError> {
    let memory = claim.memory();
    let mut preferred = None;
    let mut error = AllocError::NoZone;
    for id in zones.clone() {
        let mut at = claim.zone(id);
        at.platform.cost(Cost::WalkZones, 1);
        let first = *preferred.get_or_insert(id);
        match take(&mut at, request, access) {
            Ok(frame) => {
                if first != id {
                    count_miss(&memory.context(first, at.id), &at);
                }
                return Ok(at.pfn(frame));
            }
            Err(refused) => error = error.most_specific(refused, id, request.order(), access),
        }
    }
    Err(error)
}

/// Counts a NUMA miss if the zone `at`, which served the request, is on another node than the
/// preferred zone `first`.
pub(in crate::alloc) fn count_miss<P: Platform>(
    first: &ZoneOnCpu<'_, '_, P>,
    at: &ZoneOnCpu<'_, '_, P>,
) {
    if at.zone.node() != first.zone.node() {
        at.pages.counters.numa_miss.add(1);
        first.pages.counters.numa_foreign.add(1);
    }
}

/// Tries a zone and the CPU's lists for it.
pub(in crate::alloc) fn take<P: Platform>(
    cpu: &mut OwnedZoneOnCpu<'_, '_, P>,
    request: Request,
    access: ZoneAccess,
) -> Result<u32, Refused> {
    if cpu.platform.force(Site::SlowPath) {
        return Err(Refused::NoBlockOfOrder);
    }
    // A block from the high-atomic reserve is for this request, not for a list.
    let listed = access.reserve() == Reserve::None && cpu.has_lists();
    let frame = match ListIndex::of(request) {
        Some(list) if listed => cpu.alloc(list, access)?,
        _ => cpu.alloc_from_zone(request.order(), request.migratetype(), access)?,
    };
    reserve(cpu, request, frame);
    Ok(frame)
}

/// Reserves the pageblock of the block at `frame`, which served `request`, for similar requests.
#[inline]
pub(in crate::alloc) fn reserve<P: Platform>(
    at: &ZoneOnCpu<'_, '_, P>,
    request: Request,
    frame: u32,
) {
    if request.is_high_atomic() {
        at.zone.reserve_highatomic(at.platform, frame, request.order());
    }
}

/// Wakes background reclaim once on every node of `zones`, which the request may use. In defragmenting mode, it
/// is woken for at least a whole pageblock.
pub(in crate::alloc) fn wake<P: Platform>(
    memory: &MemoryCore<'_, P>,
    zones: &Candidates<'_, P>,
    request: Request,
) {
    if !request.may_wake() {
        return;
    }
    let relief = memory.platform().relief();
    let whole = memory.tuning().alloc.defrag_mode;
    let order = request.order().max(if whole { Order::PAGEBLOCK } else { Order::ZERO });
    let mut woken = None;
    // In a zonelist, the zones of a node follow one another.
    for id in zones.clone() {
        let node = memory.zones()[id.index()].node();
        if woken != Some(node) {
            relief.wake(node, order, request.highest());
            woken = Some(node);
        }
    }
}

impl AllocError {
    const fn new(refused: Refused, shortage: Shortage) -> Self {
        match refused {
            Refused::BelowWatermark => AllocError::BelowWatermark(shortage),
            Refused::NoBlockOfOrder | Refused::DepotFirst => AllocError::NoBlockOfOrder(shortage),
        }
    }

    /// The error that better explains the refusals of all zones: the previous error, or that of the
    /// next zone. If some zone had enough free frames but no block of the order, that is the
    /// reason.
    pub(in crate::alloc) fn most_specific(
        self,
        refused: Refused,
        zone: ZoneId,
        order: Order,
        access: ZoneAccess,
    ) -> Self {
        match self {
            AllocError::NoBlockOfOrder(_) => self,
            _ => Self::new(refused, Shortage { zone, order, mark: access.mark, rounds: 0 }),
        }
    }
}
