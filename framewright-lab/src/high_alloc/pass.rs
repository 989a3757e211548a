//! Asking for huge pages: one after the other, each kept until the pass ends.

use framewright::{Block, MigrateType, Order, Request};
use framewright_sim::engine::Cpu;

use super::{
    Flags,
    daemon::Daemon,
    frames::Holds,
    kernel::{Kernel, Token},
    oracle,
    outcome::{Counts, Pass},
    picture::Snapshot,
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

/// Asks as often as `pace` says, gives everything back, and says what came of it.
pub(super) fn pass<'m>(
    cpu: Cpu<'_>,
    kernel: &Kernel<'_, 'm>,
    token: &mut Token<'_, 'm>,
    daemon: &mut Daemon<'_, 'm>,
    Pace { attempts, every, flags, watched }: Pace,
    seen: &mut Vec<Snapshot>,
) -> Pass {
    let before = Counts::of(kernel);
    let begun = cpu.now();
    let mut kept: Vec<Block<'m>> = Vec::new();
    let mut latencies = Vec::new();
    let moments = attempts.div_ceil(MOMENTS);
    for attempt in 0..attempts {
        if attempt.is_multiple_of(moments) {
            seen.extend(watched.map(|pass| Snapshot::of(kernel, pass, attempt)));
        }
        let asked = cpu.now();
        if let Ok(block) = token.alloc(request(flags)) {
            let first = block.pfn().get() as u32;
            kernel.state.frames.set_block(first, Order::PAGEBLOCK, Holds::Huge);
            kept.push(block);
        }
        latencies.push(kernel.nanos(cpu.now() - asked));
        daemon.work_until(asked + kernel.cycles(every), cpu, kernel, token);
    }
    seen.extend(watched.map(|pass| Snapshot::of(kernel, pass, attempts)));
    let formable = oracle::formable(kernel);
    let pass = Pass {
        attempts,
        successes: kept.len() as u64,
        formable,
        latencies,
        nanos: kernel.nanos(cpu.now() - begun),
        counts: Counts::of(kernel) - before,
    };
    for block in kept {
        let first = block.pfn().get() as u32;
        kernel.state.frames.set_block(first, Order::PAGEBLOCK, Holds::Nothing);
        let freed = token.free(block);
        debug_assert!(freed.is_ok(), "it is this memory's");
    }
    pass
}
