//! The slow path: what to do when the lists of the CPU had nothing.
//!
//! 1. Lists and zone, above the low watermark. This is where refills happen.
//! 2. Wake background reclaim; again, above the min watermark or with the request's rights to
//!    reserves.
//! 3. If the request may wait: bring home what all CPUs hold; again.
//! 4. Compact and reclaim through [`Relief`](crate::platform::Relief), within bounds; again
//!    after each.
//! 5. A request that never fails waits through the wait hook and starts over.

use super::{AllocError, Request};
use crate::{
    frame::Order,
    memory::Memory,
    pcp::Cpu,
    platform::{Platform, Progress, Wait},
    zone::{Access, Watermark},
};

/// Frames that one round of reclaim is asked for, at least.
const RECLAIM_FRAMES: u64 = 32;

/// Allocates a block; the frame is zone-relative.
pub(super) fn alloc<'m, P: Platform>(
    memory: &Memory<'m, P>,
    cpu: &Cpu<'_, 'm, P>,
    request: Request,
) -> Result<u32, AllocError> {
    if !request.migratetype().is_requestable() {
        return Err(AllocError::NotRequestable(request.migratetype()));
    }
    if let Ok(frame) = attempt(cpu, request, Access::Above(Watermark::Low)) {
        return Ok(frame);
    }
    cpu.pages.counters.slow_paths.add(1);
    let mut waits = 0;
    loop {
        let error = match with_relief(memory, cpu, request) {
            Ok(frame) => return Ok(frame),
            Err(error) => error,
        };
        if !request.never_fails() {
            return Err(error);
        }
        memory.platform().wait(Wait::Memory, waits);
        waits = waits.saturating_add(1);
    }
}

/// Steps 2 to 4.
fn with_relief<'m, P: Platform>(
    memory: &Memory<'m, P>,
    cpu: &Cpu<'_, 'm, P>,
    request: Request,
) -> Result<u32, AllocError> {
    let access = request.last_access();
    let relief = memory.platform().relief();
    relief.wake(request.order());
    let mut result = attempt(cpu, request, access);
    if result.is_ok() || !request.may_wait() {
        return result;
    }
    memory.drain_all();
    result = attempt(cpu, request, access);
    let rounds = if request.may_retry() { 1 + memory.tuning().alloc.retries } else { 1 };
    let mut round = 0;
    while result.is_err() && round < rounds {
        let compacted = if request.order() > Order::ZERO {
            relief.compact(request.order())
        } else {
            Progress::None
        };
        if compacted == Progress::Some {
            result = attempt(cpu, request, access);
        }
        if result.is_err() {
            let wanted = request.order().frames().max(RECLAIM_FRAMES);
            let reclaimed = relief.reclaim(request.order(), wanted);
            if compacted == Progress::None && reclaimed == Progress::None {
                break;
            }
            memory.drain_all();
            result = attempt(cpu, request, access);
        }
        round += 1;
    }
    result
}

/// One try of lists and zone.
fn attempt<P: Platform>(
    cpu: &Cpu<'_, '_, P>,
    request: Request,
    access: Access,
) -> Result<u32, AllocError> {
    match request.list() {
        Some(list) => cpu.alloc(list, access),
        None => cpu.alloc_from_zone(request.order(), request.migratetype(), access),
    }
}
