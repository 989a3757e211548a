//! Requests for huge pages, one after the other; all huge pages are freed at the end of the pass.
//!
//! The *oracle* computes the number of huge pages that there could be if every movable page could
//! be in any frame.
//!
//! It reads the use of frames; from the library it needs only the min watermark. A pageblock with
//! one unmovable frame cannot become a huge page. File pages can be dropped. Pages of programs and
//! the frames below the min watermark need space: first in pageblocks with unmovable frames, then
//! in further pageblocks.

use framewright::{Block, MigrateType, Order, Request, frame::PAGEBLOCK_FRAMES};

use super::{
    Flags,
    figures::{Counts, Pass},
    frames::Holds,
    kernel::{CpuContext, Kernel},
    picture::Snapshot,
    world::{OnCpu, World},
};

/// A huge page every 125 ms: 16 MB/s.
pub(super) const EVERY_NS: u64 = 125_000_000;

/// Snapshots per pass, if memory is watched.
const MOMENTS: u64 = 48;

/// The rate of requests.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Number of requests.
    pub(super) attempts: u64,
    /// Nanoseconds between two requests.
    pub(super) every: u64,
    pub(super) flags: Flags,
    /// The number of the pass, if memory is watched.
    pub(super) watched: Option<u8>,
}

/// A request for a huge page.
pub(super) fn request(flags: Flags) -> Request {
    let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    match flags {
        Flags::Default => request,
        Flags::Thp => request.no_retry().without_reserves().no_wake(),
    }
}

/// Makes the requests of `pace`, then frees all huge pages. Returns the result. `wait` waits until
/// the time of the next request, and may do background work; `reach` gets the number of requests so
/// far and of all.
pub(super) fn pass<'k, 'm, W: World>(
    on: &mut CpuContext<'_, 'k, 'm, W>,
    wait: impl Fn(u64, &mut CpuContext<'_, 'k, 'm, W>),
    Pace { attempts, every, flags, watched }: Pace,
    seen: &mut Vec<Snapshot>,
    reach: &dyn Fn(u64, u64),
) -> Pass {
    let kernel = on.kernel;
    let before = Counts::of(kernel);
    let begun = kernel.world.watch();
    let mut kept: Vec<Block<'m>> = Vec::new();
    let mut latencies = Vec::new();
    let moments = attempts.div_ceil(MOMENTS);
    let mut due = false;
    // A snapshot that is impossible now is taken before a later request: waiting would change the run.
    let mut look = |attempt: u64, seen: &mut Vec<Snapshot>| {
        let Some(pass) = watched else { return };
        due |= attempt.is_multiple_of(moments) || attempt == attempts;
        if due {
            let nanos = kernel.world.elapsed(begun);
            let snapshot = || Snapshot::of(kernel, pass, attempt, nanos);
            let snapshot = kernel.world.observe(snapshot);
            due = snapshot.is_none();
            seen.extend(snapshot);
        }
    };
    for attempt in 0..attempts {
        reach(attempt, attempts);
        look(attempt, seen);
        let asked = on.cpu.now();
        kernel.asking.set(true);
        let (block, latency) = alloc(on, flags);
        kernel.asking.set(false);
        latencies.push(latency);
        kernel.record_request_time(latency);
        if let Some(block) = block {
            let first = block.pfn().get() as u32;
            kernel.state.frames.set_block(first, Order::PAGEBLOCK, Holds::Huge);
            frames_of(&block).for_each(|frame| kernel.world.store(frame));
            kept.push(block);
        }
        wait(asked + kernel.ticks(every), on);
    }
    look(attempts, seen);
    let formable = formable(kernel);
    let pass = Pass {
        attempts,
        successes: kept.len() as u64,
        formable,
        latencies,
        nanos: kernel.world.elapsed(begun),
        counts: Counts::of(kernel) - before,
    };
    for block in kept {
        let first = block.pfn().get() as u32;
        kernel.state.frames.set_block(first, Order::PAGEBLOCK, Holds::Nothing);
        frames_of(&block).for_each(|frame| kernel.world.verify(frame));
        let freed = on.token.free(block);
        debug_assert!(freed.is_ok(), "the block is of another memory");
    }
    pass
}

/// Requests a huge page. Returns it, if there is one, and the latency in nanoseconds: the time in
/// the library and its callbacks, without waits for the kernel's lock.
fn alloc<'m, W: World>(
    on: &mut CpuContext<'_, '_, 'm, W>,
    flags: Flags,
) -> (Option<Block<'m>>, u64) {
    let world = on.kernel.world;
    world.without_lock(|| {
        let (watch, waited) = (world.watch(), world.waited());
        let block = on.token.alloc(request(flags)).ok();
        (block, world.elapsed(watch).saturating_sub(world.waited() - waited))
    })
}

/// The frame numbers of a block.
fn frames_of(block: &Block<'_>) -> std::ops::Range<u32> {
    let first = block.pfn().get() as u32;
    first..first + block.order().frames() as u32
}

/// The number of huge pages that exist or could be formed.
pub(super) fn formable<W: World>(kernel: &Kernel<'_, '_, W>) -> u64 {
    let frames = &kernel.state.frames;
    // The watermark without boost: huge pages may use the boost.
    let min: u64 = kernel.memory.free_and_min().map(|(_, _, min)| min).sum();
    let own = |block: &[super::frames::Frame]| {
        block.iter().filter(|frame| frame.holds() == Holds::Kernel).count() as u64
    };
    let programs = frames.count(|holds| matches!(holds, Holds::Anonymous { .. }));
    count(frames.pageblocks().map(own), programs + min)
}

/// The number of pageblocks that can become huge pages. `unmovable` has the number of unmovable
/// frames of each pageblock; `placed` movable frames need space.
fn count(unmovable: impl Iterator<Item = u64>, placed: u64) -> u64 {
    let (mut clean, mut space) = (0, 0);
    for own in unmovable {
        if own == 0 {
            clean += 1;
        } else {
            space += PAGEBLOCK_FRAMES as u64 - own;
        }
    }
    let lost = placed.saturating_sub(space).div_ceil(PAGEBLOCK_FRAMES as u64);
    u64::saturating_sub(clean, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movable_frames_fill_pageblocks_with_unmovable_ones_first() {
        let blocks = || [0, 0, 1, 0, 512].into_iter();
        assert_eq!(count(blocks(), 0), 3);
        assert_eq!(count(blocks(), 511), 3);
        assert_eq!(count(blocks(), 512), 2);
        assert_eq!(count(blocks(), 511 + 513), 1);
        assert_eq!(count(blocks(), 1 << 20), 0);
    }
}
