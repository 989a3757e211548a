//! The slow path: what to do when the lists of the CPU had nothing.
//!
//! 1. Lists and zone, above the low watermark. This is where refills happen.
//! 2. Wake background reclaim; give back what this CPU has in quarantine; again, above the min
//!    watermark or with the request's rights to reserves.
//! 3. If the request may wait: bring home what all CPUs hold; again.
//! 4. Compact and reclaim through [`Relief`](crate::platform::Relief), within bounds; again
//!    after each.
//! 5. A request that never fails waits through the wait hook and starts over.

use super::{AllocError, Request};
use crate::{
    frame::{Order, Pfn},
    memory::Memory,
    pcp::Cpu,
    platform::{CpuId, Platform, Progress, Wait},
    zone::Access,
};

/// Frames that one round of reclaim is asked for, at least.
const RECLAIM_FRAMES: u64 = 32;

/// Allocates a block and names its first frame.
pub(super) fn alloc<P: Platform>(
    memory: &Memory<'_, P>,
    cpu: CpuId,
    request: Request,
) -> Result<Pfn, AllocError> {
    if !request.migratetype().is_requestable() {
        return Err(AllocError::NotRequestable(request.migratetype()));
    }
    if let Ok(pfn) = attempt(memory, cpu, request, request.first_access()) {
        return Ok(pfn);
    }
    let preferred = memory.candidates(cpu, request).next().ok_or(AllocError::NoZone)?;
    preferred.pages.counters.slow_paths.add(1);
    let mut waits = 0;
    loop {
        let error = match with_relief(memory, cpu, request) {
            Ok(pfn) => return Ok(pfn),
            Err(error) => error,
        };
        if !request.never_fails() {
            preferred.pages.counters.failures.add(1);
            return Err(error);
        }
        memory.platform().wait(Wait::Memory, waits);
        waits = waits.saturating_add(1);
    }
}

/// Steps 2 to 4.
fn with_relief<P: Platform>(
    memory: &Memory<'_, P>,
    cpu: CpuId,
    request: Request,
) -> Result<Pfn, AllocError> {
    let access = request.last_access();
    let relief = memory.platform().relief();
    relief.wake(request.order());
    memory.end_quarantine(cpu);
    let mut result = attempt(memory, cpu, request, access);
    if result.is_ok() || !request.may_wait() {
        return result;
    }
    memory.drain_all();
    result = attempt(memory, cpu, request, access);
    let rounds = if request.may_retry() { 1 + memory.tuning().alloc.retries } else { 1 };
    let mut round = 0;
    while result.is_err() && round < rounds {
        let compacted = if request.order() > Order::ZERO {
            relief.compact(request.order())
        } else {
            Progress::None
        };
        if compacted == Progress::Some {
            result = attempt(memory, cpu, request, access);
        }
        if result.is_err() {
            let wanted = request.order().frames().max(RECLAIM_FRAMES);
            let reclaimed = relief.reclaim(request.order(), wanted);
            if compacted == Progress::None && reclaimed == Progress::None {
                break;
            }
            memory.drain_all();
            result = attempt(memory, cpu, request, access);
        }
        round += 1;
    }
    result
}

/// One try of the zones that the request may use, each with the CPU's lists for it.
fn attempt<P: Platform>(
    memory: &Memory<'_, P>,
    cpu: CpuId,
    request: Request,
    access: Access,
) -> Result<Pfn, AllocError> {
    let mut preferred = None;
    let mut error = AllocError::NoZone;
    for at in memory.candidates(cpu, request) {
        let first = *preferred.get_or_insert(at);
        match take(&at, request, access) {
            Ok(frame) => {
                if at.zone.node() != first.zone.node() {
                    at.pages.counters.numa_miss.add(1);
                    first.pages.counters.numa_foreign.add(1);
                }
                return Ok(at.pfn(frame));
            }
            Err(why) => error = graver(error, why),
        }
    }
    Err(error)
}

/// Of the reasons of two zones, the one that says more about why all failed: where one has
/// memory enough, the want of a block is to blame.
fn graver(one: AllocError, other: AllocError) -> AllocError {
    match one {
        AllocError::NoBlockOfOrder(_) => one,
        _ => other,
    }
}

/// One try of a zone and the CPU's lists for it.
pub(super) fn take<P: Platform>(
    cpu: &Cpu<'_, '_, P>,
    request: Request,
    access: Access,
) -> Result<u32, AllocError> {
    match request.list() {
        Some(list) if cpu.has_lists() => cpu.alloc(list, access),
        _ => cpu.alloc_from_zone(request.order(), request.migratetype(), access),
    }
}
