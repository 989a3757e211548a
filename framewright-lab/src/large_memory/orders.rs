//! Part three: blocks of 4 MiB to 1 GiB, in zones of several sizes.
//!
//! The cost of a block must not depend on the size of the zone. It is measured in a *fresh* zone
//! and in a *full* one, where the only available block may be anywhere. A zone is full if one more
//! block would leave less than the low watermark. In a full zone, random blocks are freed and
//! allocated again.

use fastrand::Rng;
use framewright::{Block, Order, ZoneId};
use std::time::{Duration, Instant};

use super::{
    LargeMemory,
    machine::{BufferState, Cpu, Machine, free, movable, order},
    plan::{promise, size},
    samples::{Samples, Topic, Value, percentile},
};
use crate::Error;

pub(super) const TOPIC: Topic = Topic {
    title: "large blocks",
    note: "1 GiB: all blocks, each timed, from an unused zone (before the first,\n\
           neither code nor metadata is in the caches); fresh: allocate some, free them, in order;\n\
           full: free one at random, allocate it again",
};

/// The rows of blocks of the largest order, from an unused zone: the first, then the median and
/// 99th percentile of all others.
pub(super) const LARGEST: [&str; 3] = ["1gib_first_ns", "1gib_median_ns", "1gib_p99_ns"];

/// The orders that are measured.
pub(super) const ORDERS: std::ops::RangeInclusive<u8> = 10..=18;

/// The state of a zone, and the operation.
pub(super) const FRESH: [&str; 2] = ["fresh_alloc", "fresh_free"];
pub(super) const FULL: [&str; 2] = ["full_alloc", "full_free"];

/// The row of an order and an operation.
pub(super) fn row(order: u8, what: &str) -> String {
    format!("o{order}_{what}_ns")
}

pub(super) fn measure(plan: &LargeMemory, round: u64, samples: &mut Samples) -> Result<(), Error> {
    for frames in plan.zones {
        let column = size(frames);
        let mut add = |row: &str, time: Option<Duration>| {
            let time = time.map(Value::time);
            time.into_iter().for_each(|time| samples.add(TOPIC, &column, row, time));
        };
        Machine::one_zone(frames).boot(BufferState::Untouched, |cpu, _| {
            for (row, time) in LARGEST.into_iter().zip(largest(cpu)?) {
                add(row, time);
            }
            for number in ORDERS {
                let order = order(number);
                let (alloc, free) = fresh(plan, cpu, order)?;
                add(&row(number, FRESH[0]), alloc);
                add(&row(number, FRESH[1]), free);
            }
            for number in ORDERS {
                let mut random = Rng::with_seed(round << 8 | u64::from(number));
                let (alloc, free) = full(plan, cpu, order(number), &mut random)?;
                add(&row(number, FULL[0]), alloc);
                add(&row(number, FULL[1]), free);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Allocates every available block of the largest order from an unused zone. Returns the time of
/// the first, then the median and the 99th percentile of the others.
fn largest(cpu: &mut Cpu<'_, '_>) -> Result<[Option<Duration>; 3], Error> {
    let mut blocks = Vec::with_capacity(available(cpu, Order::MAX) as usize);
    let mut times = Vec::with_capacity(blocks.capacity());
    // The first reading of the clock is slow; it must not be part of the first time.
    let _ = Instant::now();
    for _ in 0..blocks.capacity() {
        let started = Instant::now();
        let block = cpu.alloc(movable(Order::MAX));
        times.push(started.elapsed());
        blocks.push(block.map_err(ample)?);
    }
    free_all(cpu, blocks)?;
    let first = times.first().copied();
    let others = times.get_mut(1..).unwrap_or_default();
    Ok([first, percentile(others, 50), percentile(others, 99)])
}

/// Repeatedly allocates blocks of an order, and frees them in the order of allocation. The number
/// of blocks is the same in every zone (at most half of the smallest zone), so that only the size
/// of the zone differs.
fn fresh(
    plan: &LargeMemory,
    cpu: &mut Cpu<'_, '_>,
    order: Order,
) -> Result<(Option<Duration>, Option<Duration>), Error> {
    let count = (plan.zones[0] / 2 / order.frames()).min(available(cpu, order)).min(1024) as usize;
    if count == 0 {
        return Ok((None, None));
    }
    let mut blocks = Vec::with_capacity(count);
    let (mut allocs, mut frees) = (Vec::new(), Vec::new());
    for _ in 0..plan.operations.div_ceil(count as u64).max(3) {
        let started = Instant::now();
        for _ in 0..count {
            blocks.push(cpu.alloc(movable(order)).map_err(ample)?);
        }
        allocs.push(started.elapsed() / count as u32);
        let started = Instant::now();
        for block in blocks.drain(..) {
            free(cpu, block)?;
        }
        frees.push(started.elapsed() / count as u32);
    }
    Ok((percentile(&mut allocs, 50), percentile(&mut frees, 50)))
}

/// Fills the zone with blocks of an order, then frees a random one and allocates one, many times.
fn full(
    plan: &LargeMemory,
    cpu: &mut Cpu<'_, '_>,
    order: Order,
    random: &mut Rng,
) -> Result<(Option<Duration>, Option<Duration>), Error> {
    let mut blocks = Vec::new();
    for _ in 0..available(cpu, order) {
        blocks.push(cpu.alloc(movable(order)).map_err(ample)?);
    }
    promise(available(cpu, order) == 0, || "a full zone has a free block".to_owned())?;
    let (mut allocs, mut frees) = (Vec::new(), Vec::new());
    if !blocks.is_empty() {
        for _ in 0..plan.operations {
            let block = blocks.swap_remove(random.usize(..blocks.len()));
            let started = Instant::now();
            free(cpu, block)?;
            frees.push(started.elapsed());
            let started = Instant::now();
            let block = cpu.alloc(movable(order));
            allocs.push(started.elapsed());
            blocks.push(block.map_err(ample)?);
        }
    }
    free_all(cpu, blocks)?;
    Ok((percentile(&mut allocs, 50), percentile(&mut frees, 50)))
}

fn free_all<'m>(cpu: &mut Cpu<'_, 'm>, blocks: Vec<Block<'m>>) -> Result<(), Error> {
    blocks.into_iter().try_for_each(|block| free(cpu, block))
}

/// Blocks of an order that the zone has above its low watermark.
fn available(cpu: &Cpu<'_, '_>, order: Order) -> u64 {
    let zone = cpu.memory().zone(ZoneId::default());
    zone.map_or(0, |zone| zone.free.saturating_sub(zone.low) / order.frames())
}

fn ample(reason: framewright::AllocError) -> Error {
    Error::broken(format_args!(
        concat!("a zone with free blocks has no large block", ": {}"),
        reason
    ))
}
