//! Part two: memory hotplug.
//!
//! The memory of the last node (on a machine of one node, the upper half) is absent at first. It is
//! added and removed as a whole, and GiB by GiB, as firmware and hypervisors do. In between, a
//! removal while one frame is in use must return *busy* with that frame.

use framewright::{FrameRange, HotplugError, Order, Pfn, frame::FRAME_SIZE};

use super::{
    LargeMemory,
    machine::{BufferState, Cpu, Machine, free, movable, number, range, share},
    plan::{GIB, promise},
    samples::{Samples, Topic, Value},
};
use crate::Error;
use crate::clock::thread_time;

pub(super) const TOPIC: Topic = Topic {
    title: "memory hotplug",
    note: "the memory of the last node, at once and GiB by GiB; refused: removing all of it while\n\
           one frame is in use",
};

/// The column of the goal.
pub(super) const AT_ONCE: &str = "at once";
const BY_GIB: &str = "GiB by GiB";
/// The row of the goal.
pub(super) const ADD: &str = "add_bytes_per_s";
const REMOVE: &str = "remove_bytes_per_s";
const REFUSED: &str = "refused_ns";

pub(super) fn measure(plan: &LargeMemory, _round: u64, samples: &mut Samples) -> Result<(), Error> {
    let last = share(plan, plan.nodes - 1);
    let (start, end) = (last.start().get(), last.end().get());
    let middle = start + last.frames() / 2 / GIB * GIB;
    let part = if plan.nodes > 1 { last } else { range(middle, end) };
    let machine = Machine::whole(plan).without(part);
    machine.boot(BufferState::Untouched, |cpu, _| {
        let memory = cpu.memory();
        let add = |piece| memory.add_memory(piece);
        let remove = |piece| memory.remove_memory(piece, &mut |_| ());
        let all = part.frames();
        change_all(part, all, (AT_ONCE, ADD), samples, add)?;
        refuse(plan, cpu, part, samples)?;
        change_all(part, all, (AT_ONCE, REMOVE), samples, remove)?;
        change_all(part, GIB, (BY_GIB, ADD), samples, add)?;
        change_all(part, GIB, (BY_GIB, REMOVE), samples, remove)
    })
}

/// Measures `change` of all of `part`, `step` frames at a time.
fn change_all(
    part: FrameRange,
    step: u64,
    (column, row): (&str, &str),
    samples: &mut Samples,
    change: impl Fn(FrameRange) -> Result<(), HotplugError>,
) -> Result<(), Error> {
    let before = thread_time();
    pieces(part, step).try_for_each(change)?;
    let took = thread_time() - before;
    samples.add(TOPIC, column, row, Value::rate(bytes(part), took));
    Ok(())
}

/// Tries to remove all of `part` while one frame of it is in use.
fn refuse(
    plan: &LargeMemory,
    cpu: &mut Cpu<'_, '_>,
    part: FrameRange,
    samples: &mut Samples,
) -> Result<(), Error> {
    let block = frame_of(plan, cpu, part)?;
    let used = block.pfn();
    let mut named: Vec<(Pfn, u64)> = Vec::new();
    let before = thread_time();
    let answer = cpu
        .memory()
        .remove_memory(part, &mut |frames| named.push((frames.start(), frames.frames())));
    let took = thread_time() - before;
    promise(answer == Err(HotplugError::Busy { frames: 1 }), || {
        format!("removing memory with one frame in use returned {answer:?}")
    })?;
    promise(named == [(used, 1)], || format!("frame {used} was in use, reported was {named:?}"))?;
    free(cpu, block)?;
    samples.add(TOPIC, AT_ONCE, REFUSED, Value::time(took));
    Ok(())
}

/// Allocates the first frame of `part`, or else any frame of the last node.
fn frame_of<'m>(
    plan: &LargeMemory,
    cpu: &mut Cpu<'_, 'm>,
    part: FrameRange,
) -> Result<framewright::Block<'m>, Error> {
    let migratetype = framewright::MigrateType::Movable;
    if let Ok(block) = cpu.alloc_at(part.start(), Order::ZERO, migratetype) {
        return Ok(block);
    }
    let request = movable(Order::ZERO).on_node(number(plan.nodes - 1)).this_node();
    cpu.alloc(request).map_err(|reason| {
        Error::broken(format_args!(concat!("new memory has no frame", ": {}"), reason))
    })
}

fn pieces(part: FrameRange, step: u64) -> impl Iterator<Item = FrameRange> {
    let (start, end) = (part.start().get(), part.end().get());
    (start..end).step_by(step as usize).map(move |at| range(at, end.min(at + step)))
}

fn bytes(part: FrameRange) -> u64 {
    part.frames() * FRAME_SIZE as u64
}
