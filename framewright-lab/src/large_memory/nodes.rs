//! Part five: single frames on several nodes, and the NUMA counters. A CPU of node 0 requests
//! frames in five cases: from its own node (the hot path), from another preferred node, while its
//! own node is full, while all nodes but the last are full, and from its own full node only. The
//! last case is refused. The counters with the kernel's names count the nodes of these frames, and
//! must be exact.

use framewright::{AllocError, Block, Order, Request, observe::CpuStats};

use super::{
    LargeMemory,
    machine::{BufferState, Cpu, Machine, free, movable, number, order},
    plan::promise,
    samples::{Samples, Topic, Value},
};
use crate::Error;
use crate::clock::thread_time;

pub(super) const TOPIC: Topic = Topic {
    title: "nodes",
    note: "order 0, one CPU of node 0; per frame, CPU time; counters per round",
};

const SINGLE: Request = movable(Order::ZERO);

pub(super) fn measure(plan: &LargeMemory, _round: u64, samples: &mut Samples) -> Result<(), Error> {
    let last = plan.nodes - 1;
    Machine::whole(plan).boot(BufferState::Untouched, |cpu, _| {
        let mut step = |cpu: &mut Cpu<'_, '_>, column, request, expected| {
            frames(plan, cpu, column, request, expected, samples)
        };
        step(cpu, "own node", SINGLE, Served { preferred: true, own: true })?;
        if last == 0 {
            return Ok(());
        }
        let remote = SINGLE.on_node(number(last));
        step(cpu, "last preferred", remote, Served { preferred: true, own: false })?;
        let mut taken = Vec::new();
        exhaust(cpu, 0, &mut taken)?;
        step(cpu, "own full", SINGLE, Served { preferred: false, own: false })?;
        for node in 1..last {
            exhaust(cpu, node, &mut taken)?;
        }
        step(cpu, "all but last full", SINGLE, Served { preferred: false, own: false })?;
        refusals(plan, cpu, samples)?;
        taken.into_iter().try_for_each(|block| free(cpu, block))
    })
}

/// The zone that served requests.
#[derive(Clone, Copy)]
struct Served {
    /// A zone of the preferred node.
    preferred: bool,
    /// A zone of the CPU's node.
    own: bool,
}

impl Served {
    /// The expected counters after `count` requests, by name.
    fn counters(self, count: u64) -> [(&'static str, u64); 5] {
        let when = |yes: bool| if yes { count } else { 0 };
        [
            ("numa_hit", when(self.preferred)),
            ("numa_miss", when(!self.preferred)),
            ("numa_foreign", when(!self.preferred)),
            ("numa_local", when(self.own)),
            ("numa_other", when(!self.own)),
        ]
    }
}

/// Allocates many single frames and frees them.
fn frames(
    plan: &LargeMemory,
    cpu: &mut Cpu<'_, '_>,
    column: &str,
    request: Request,
    expected: Served,
    samples: &mut Samples,
) -> Result<(), Error> {
    let count = plan.singles;
    let mut blocks = Vec::with_capacity(count as usize);
    let stats = cpu.memory().stats();
    let before = thread_time();
    for _ in 0..count {
        blocks.push(cpu.alloc(request).map_err(|reason| {
            Error::broken(format_args!(
                concat!("a machine with an empty node has no frame", ": {}"),
                reason
            ))
        })?);
    }
    let between = thread_time();
    let counted = numa(&stats, &cpu.memory().stats());
    let resumed = thread_time();
    for block in blocks {
        free(cpu, block)?;
    }
    let after = thread_time();
    let each = |nanos: u128| Value::Nanos(nanos as f64 / count as f64);
    samples.add(TOPIC, column, "alloc_ns", each((between - before).as_nanos()));
    samples.add(TOPIC, column, "free_ns", each((after - resumed).as_nanos()));
    for ((name, expected), counted) in expected.counters(count).into_iter().zip(counted) {
        promise(counted == expected, || {
            format!("{name} went up by {counted} instead of {expected} ({column})")
        })?;
        samples.add(TOPIC, column, name, Value::Count(counted));
    }
    Ok(())
}

/// The NUMA counters, in the order of [`Served::counters`].
fn numa(before: &CpuStats, after: &CpuStats) -> [u64; 5] {
    let of = |stats: &CpuStats| {
        [stats.numa_hit, stats.numa_miss, stats.numa_foreign, stats.numa_local, stats.numa_other]
    };
    let (before, after) = (of(before), of(after));
    std::array::from_fn(|i| after[i] - before[i])
}

/// Allocates all of a node, largest blocks first.
fn exhaust<'m>(cpu: &mut Cpu<'_, 'm>, node: u8, taken: &mut Vec<Block<'m>>) -> Result<(), Error> {
    cpu.drain();
    for size in (0..=Order::MAX.get()).rev() {
        let request = movable(order(size)).on_node(number(node)).this_node();
        loop {
            match cpu.alloc(request) {
                Ok(block) => taken.push(block),
                Err(AllocError::BelowWatermark(_) | AllocError::NoBlockOfOrder(_)) => break,
                Err(reason) => {
                    return Err(Error::broken(format_args!(
                        concat!("a node cannot be used up", ": {}"),
                        reason
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Requests frames of the CPU's own node only, which has none.
fn refusals(plan: &LargeMemory, cpu: &mut Cpu<'_, '_>, samples: &mut Samples) -> Result<(), Error> {
    let request = SINGLE.on_node(number(0)).this_node();
    let before = thread_time();
    for _ in 0..plan.operations {
        promise(cpu.alloc(request).is_err(), || "a full node had a frame".to_owned())?;
    }
    let took = (thread_time() - before).as_nanos() as f64;
    let each = Value::Nanos(took / plan.operations as f64);
    samples.add(TOPIC, "refused", "alloc_ns", each);
    Ok(())
}
