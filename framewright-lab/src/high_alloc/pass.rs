//! Asking for huge pages: one after the other, each kept until the pass ends.

use framewright::{Block, MigrateType, Order, Request};

use super::{
    Flags,
    frames::Holds,
    kernel::{Kernel, Token},
    oracle,
    outcome::{Counts, Pass},
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
    let formable = oracle::formable(kernel);
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
