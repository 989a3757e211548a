//! Asking for huge pages: one after the other, each kept until the pass ends.
//!
//! What is achievable: how many huge pages there could be if every movable page could be placed
//! anywhere.
//!
//! The oracle looks at what frames hold, and asks the library nothing but what has to stay free. A
//! pageblock with one frame of the kernel's own cannot become a huge page. Pages of files can be dropped;
//! pages of programs have to be somewhere, and so has what the min watermark keeps back: in
//! pageblocks that are spoilt anyway, as far as they have room, or else in others.

use framewright::{Block, MigrateType, Order, Request, frame::PAGEBLOCK_FRAMES};

use super::{
    Flags,
    figures::{Counts, Pass},
    frames::Holds,
    kernel::{Kernel, Token},
    picture::Snapshot,
    world::{OnCpu, World},
};

/// A huge page every 125 ms: 16 MB/s.
pub(super) const EVERY_NS: u64 = 125_000_000;

/// Moments of a pass at which memory is looked at, if it is watched.
const MOMENTS: u64 = 48;

/// How it asks.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// How often.
    pub(super) attempts: u64,
    /// Nanoseconds from one to the next.
    pub(super) every: u64,
    pub(super) flags: Flags,
    /// Which pass it is, if memory is watched.
    pub(super) watched: Option<u8>,
}

/// The request for one.
pub(super) fn request(flags: Flags) -> Request {
    let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    match flags {
        Flags::Default => request,
        Flags::Thp => request.no_retry().without_reserves().no_wake(),
    }
}

/// Asks as often as `pace` says, gives everything back, and says what came of it. `wait` waits until it is time for
/// the next request, and does what there is to do meanwhile; `reach` hears how many of how many there were.
pub(super) fn pass<'m, W: World>(
    cpu: W::Cpu,
    kernel: &Kernel<'_, 'm, W>,
    token: &mut Token<'_, 'm, W>,
    wait: impl Fn(u64, &mut Token<'_, 'm, W>),
    Pace { attempts, every, flags, watched }: Pace,
    seen: &mut Vec<Snapshot>,
    reach: &dyn Fn(u64, u64),
) -> Pass {
    let before = Counts::of(kernel);
    let begun = kernel.world.watch();
    let mut kept: Vec<Block<'m>> = Vec::new();
    let mut latencies = Vec::new();
    let moments = attempts.div_ceil(MOMENTS);
    let look = |attempt: u64, seen: &mut Vec<Snapshot>| {
        let nanos = kernel.world.elapsed(begun);
        seen.extend(watched.map(|pass| Snapshot::of(kernel, pass, attempt, nanos)));
    };
    for attempt in 0..attempts {
        reach(attempt, attempts);
        if attempt.is_multiple_of(moments) {
            look(attempt, seen);
        }
        let asked = cpu.now();
        kernel.asking.set(true);
        let (block, latency) = alloc(kernel.world, token, flags);
        kernel.asking.set(false);
        latencies.push(latency);
        kernel.took(latency);
        if let Some(block) = block {
            let first = block.pfn().get() as u32;
            kernel.state.frames.set_block(first, Order::PAGEBLOCK, Holds::Huge);
            frames_of(&block).for_each(|frame| kernel.world.store(frame));
            kept.push(block);
        }
        wait(asked + kernel.ticks(every), token);
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
        frames_of(&block).for_each(|frame| kernel.world.look(frame));
        let freed = token.free(block);
        debug_assert!(freed.is_ok(), "it is this memory's");
    }
    pass
}

/// A huge page, if there is one, and what it took in nanoseconds: all that the library did and had done,
/// and no wait for others who run the kernel, since the lock of theirs is none of the library's.
fn alloc<'m, W: World>(
    world: &W,
    token: &mut Token<'_, 'm, W>,
    flags: Flags,
) -> (Option<Block<'m>>, u64) {
    world.outside(|| {
        let (watch, waited) = (world.watch(), world.waited());
        let block = token.alloc(request(flags)).ok();
        (block, world.elapsed(watch).saturating_sub(world.waited() - waited))
    })
}

/// The numbers of a block's frames.
fn frames_of(block: &Block<'_>) -> std::ops::Range<u32> {
    let first = block.pfn().get() as u32;
    first..first + block.order().frames() as u32
}

/// Huge pages that there are or could be.
pub(super) fn formable<W: World>(kernel: &Kernel<'_, '_, W>) -> u64 {
    let frames = &kernel.state.frames;
    // The mark itself: what raises it for a while, huge pages may have.
    let min: u64 = kernel.memory.free_and_min().map(|(_, _, min)| min).sum();
    let own = |block: &[super::frames::Frame]| {
        block.iter().filter(|frame| frame.holds() == Holds::Kernel).count() as u64
    };
    let programs = frames.count(|holds| matches!(holds, Holds::Anonymous { .. }));
    count(frames.pageblocks().map(own), programs + min)
}

/// `spoilt` has for each pageblock the frames that cannot move; `placed` frames have to be somewhere.
fn count(spoilt: impl Iterator<Item = u64>, placed: u64) -> u64 {
    let (mut clean, mut room) = (0, 0);
    for own in spoilt {
        if own == 0 {
            clean += 1;
        } else {
            room += PAGEBLOCK_FRAMES as u64 - own;
        }
    }
    let lost = placed.saturating_sub(room).div_ceil(PAGEBLOCK_FRAMES as u64);
    u64::saturating_sub(clean, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_be_somewhere_fills_spoilt_pageblocks_first() {
        let blocks = || [0, 0, 1, 0, 512].into_iter();
        assert_eq!(count(blocks(), 0), 3);
        assert_eq!(count(blocks(), 511), 3);
        assert_eq!(count(blocks(), 512), 2);
        assert_eq!(count(blocks(), 511 + 513), 1);
        assert_eq!(count(blocks(), 1 << 20), 0);
    }
}
