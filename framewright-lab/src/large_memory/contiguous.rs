//! Part four of `large-memory`: contiguous runs of any length, found or refused.
//!
//! Two half-full zones make the search long. In the *scattered* zone a random half of the frames is
//! free: 16 GiB have about a million runs of free frames, and none is long enough. In the *alternate*
//! zone every other pageblock is free; only the far end of the zone has a long run, which is found
//! last. The counters of free frames alone cannot refuse a length: at least four times as many
//! frames are free.
//!
//! The frames have no memory, so a search examines only metadata. For a run that must contain a
//! whole pageblock, these are the maps of gigablocks (1 GiB), with 64 pageblocks per word, and the
//! two pageblocks next to a free run. For a shorter run, they are the header of each pageblock and
//! both ends of its map. The time per pageblock shows that a search does not walk over the frames
//! in a map. A run is refused after two searches, with a drain of all CPU lists between them.

use framewright::{
    Block, Contiguous, MigrateType, Order, Pfn, RangeError, frame::PAGEBLOCK_FRAMES,
};
use std::time::{Duration, Instant};

use super::{
    LargeMemory,
    machine::{BufferState, Cpu, Machine, free, movable, range},
    plan::{GIB, promise, size},
    samples::{Samples, Topic, Value, percentile},
};
use crate::Error;

pub(super) const TOPIC: Topic = Topic {
    title: "contiguous memory",
    note: "a half-full zone; scattered: half of all frames are free, at random, and nothing is\n\
           found; alternate: every other pageblock is free, and a long run at the far end",
};

/// The columns: runs that are refused, and runs that are found.
pub(super) const COLUMNS: [&str; 2] = ["scattered", "alternate"];

/// Lengths, in frames.
const LENGTHS: [u64; 4] = [512, 16_384, 76_801, GIB];

/// The row for the time of the slowest length, divided by the pageblocks of the zone.
pub(super) const PER_PAGEBLOCK: &str = "slowest_per_pageblock_ns";

/// Requests per length and round.
const REPEATS: usize = 5;

/// The length of the range that is requested by its frame numbers: the last frames of the zone,
/// which are a part of the long run at its end.
const GIVEN: u64 = LENGTHS[1];

/// The rows of run lengths, for a plan.
pub(super) fn rows(plan: &LargeMemory) -> impl Iterator<Item = String> {
    lengths(plan).map(row)
}

/// The row of a run length: `2mib_ns`.
fn row(frames: u64) -> String {
    format!("{}_ns", size(frames).replace(' ', "").to_lowercase())
}

fn lengths(plan: &LargeMemory) -> impl Iterator<Item = u64> {
    let longest = plan.half_used_zone / 8;
    LENGTHS.into_iter().filter(move |length| *length <= longest)
}

pub(super) fn measure(plan: &LargeMemory, round: u64, samples: &mut Samples) -> Result<(), Error> {
    let machine = || Machine::one_zone(plan.half_used_zone).without_reserve();
    machine().boot(BufferState::Untouched, |cpu, _| {
        let blocks = scatter(plan, cpu, round)?;
        search(plan, cpu, COLUMNS[0], Expected::Refused, samples)?;
        blocks.into_iter().try_for_each(|block| free(cpu, block))
    })?;
    machine().boot(BufferState::Untouched, |cpu, _| {
        let (blocks, far_end) = alternate(plan, cpu)?;
        search(plan, cpu, COLUMNS[1], Expected::From(far_end), samples)?;
        blocks.into_iter().try_for_each(|block| free(cpu, block))
    })
}

/// Allocates every frame and frees half of them, at random.
fn scatter<'m>(
    plan: &LargeMemory,
    cpu: &mut Cpu<'_, 'm>,
    round: u64,
) -> Result<Vec<Block<'m>>, Error> {
    let mut blocks = fill(cpu, plan.half_used_zone, Order::ZERO)?;
    fastrand::Rng::with_seed(round).shuffle(&mut blocks);
    let kept = blocks.split_off(blocks.len() / 2);
    blocks.into_iter().try_for_each(|block| free(cpu, block))?;
    cpu.drain();
    Ok(kept)
}

/// Allocates every pageblock and frees half of them: a run of the longest length at the far end,
/// none at the near end, and every other pageblock between. Returns the first frame of the run.
fn alternate<'m>(
    plan: &LargeMemory,
    cpu: &mut Cpu<'_, 'm>,
) -> Result<(Vec<Block<'m>>, Pfn), Error> {
    let mut blocks = fill(cpu, plan.half_used_zone / PAGEBLOCK_FRAMES as u64, Order::PAGEBLOCK)?;
    blocks.sort_unstable_by_key(Block::pfn);
    let run = lengths(plan).max().unwrap_or(0).div_ceil(PAGEBLOCK_FRAMES as u64) as usize;
    let far_end = blocks.len() - run;
    let first = blocks[far_end].pfn();
    let mut kept = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        if index >= far_end || (index >= run && index % 2 == 0) {
            free(cpu, block)?;
        } else {
            kept.push(block);
        }
    }
    cpu.drain();
    Ok((kept, first))
}

/// Allocates `count` blocks. No further block may be free.
fn fill<'m>(cpu: &mut Cpu<'_, 'm>, count: u64, order: Order) -> Result<Vec<Block<'m>>, Error> {
    let what = "a zone without reserve cannot be filled";
    let block = |_| {
        cpu.alloc(movable(order)).map_err(|reason| Error::broken(format_args!("{what}: {reason}")))
    };
    (0..count).map(block).collect()
}

/// The expected result of a search.
#[derive(Clone, Copy)]
enum Expected {
    /// No run.
    Refused,
    /// A run that starts at this frame, unless it fits into one pageblock.
    From(Pfn),
}

fn search(
    plan: &LargeMemory,
    cpu: &Cpu<'_, '_>,
    column: &str,
    expected: Expected,
    samples: &mut Samples,
) -> Result<(), Error> {
    let mut slowest = Duration::ZERO;
    for length in lengths(plan) {
        let mut times = Vec::with_capacity(REPEATS);
        for _ in 0..REPEATS {
            times.push(request(cpu, length, expected)?);
        }
        let Some(time) = percentile(&mut times, 50) else { continue };
        samples.add(TOPIC, column, row(length), Value::time(time));
        slowest = slowest.max(time);
    }
    let pageblocks = plan.half_used_zone / PAGEBLOCK_FRAMES as u64;
    let each = slowest.as_nanos() as f64 / pageblocks as f64;
    samples.add(TOPIC, column, PER_PAGEBLOCK, Value::Nanos(each));
    let time = given(plan, cpu, expected)?;
    samples.add(TOPIC, column, format!("given_{}", row(GIVEN)), Value::time(time));
    Ok(())
}

/// Requests a run of `length` frames, and frees it if there is one.
fn request(cpu: &Cpu<'_, '_>, length: u64, expected: Expected) -> Result<Duration, Error> {
    let memory = cpu.memory();
    // A request with bounds always searches. Without bounds, a free block that contains the run
    // would be found at once.
    let anywhere = range(0, Pfn::MAX.get());
    let wanted = Contiguous::new(length, MigrateType::Movable).within(anywhere);
    let started = Instant::now();
    let answer = memory.alloc_contiguous(&wanted);
    let took = started.elapsed();
    match (answer, expected) {
        (Err(RangeError::NotFound), Expected::Refused) => Ok(took),
        (Ok(extent), Expected::From(far_end)) => {
            let start = extent.range().start();
            let right = length <= PAGEBLOCK_FRAMES as u64 || start == far_end;
            promise(right, || format!("{length} frames at {start}, not at {far_end}"))?;
            let back = memory.free_extent(extent);
            promise(back.is_ok(), || format!("{length} frames could not be freed"))?;
            Ok(took)
        }
        (answer, _) => {
            let answer = answer.map(|extent| extent.range());
            Err(Error::broken(format!("a run of {length} frames: {answer:?}")))
        }
    }
}

/// Requests the last frames of the zone, free or not.
fn given(plan: &LargeMemory, cpu: &Cpu<'_, '_>, expected: Expected) -> Result<Duration, Error> {
    let memory = cpu.memory();
    let last = range(plan.half_used_zone - GIVEN, plan.half_used_zone);
    let mut in_use = 0;
    let started = Instant::now();
    let mut in_the_way = |frames: framewright::FrameRange| in_use += frames.frames();
    let answer = memory.alloc_range(last, MigrateType::Movable, &mut in_the_way);
    let took = started.elapsed();
    match (answer, expected) {
        (Err(RangeError::Busy { frames }), Expected::Refused) if frames == in_use => Ok(took),
        (Ok(extent), Expected::From(_)) => {
            let back = memory.free_extent(extent);
            promise(back.is_ok(), || "a given range could not be freed".to_owned())?;
            Ok(took)
        }
        (answer, _) => {
            let answer = answer.map(|extent| extent.range());
            Err(Error::broken(format!("the range {last}: {answer:?}")))
        }
    }
}
