//! The result of one run, and the figures computed from it.
//!
//! On threads one call in seven is timed, on a simulated machine every call. The times are counted in a
//! histogram with a resolution of 2 %.
//!
//! Seven has no factor in common with the periods of the experiments, so every kind of call is
//! timed.

use framewright::frame::PAGEBLOCK_FRAMES;
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Instant,
};

use super::{cpu::Calls, subject::Locks};
use crate::{
    report::{Point, figure::ratio},
    samples::Sample,
};

/// The result of one run of one allocator.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Free frames divided by the frames of a huge page.
    pub(super) ideal: u64,
    /// Huge pages that can be allocated at the end, without and with a drain.
    pub(super) allocatable: (u64, Option<u64>),
    /// Requests for huge pages that were refused, if the workload has such requests.
    pub(super) refused_huge: Option<u64>,
    /// Calls after the initial fill.
    pub(super) calls: Calls,
    /// The costs of zone locks after the initial fill, on a simulated machine.
    pub(super) locks: Option<Locks>,
    /// Pageblocks without allocated frames, over time.
    pub(super) series: Vec<Point>,
    /// The memory over time, on a simulated machine, if it was sampled.
    pub(super) samples: Vec<Sample>,
}

pub(super) fn ideal(outcome: &Outcome) -> Option<f64> {
    Some(outcome.ideal as f64)
}

pub(super) fn allocatable(outcome: &Outcome) -> Option<f64> {
    Some(outcome.allocatable.0 as f64)
}

/// The share of time that CPUs wait for zone locks, in percent.
pub(super) fn lock_wait(outcome: &Outcome) -> Option<f64> {
    Some(outcome.locks?.cycles.wait_pct())
}

/// Cycles for which zone locks are held, per frame that is moved under them.
pub(super) fn lock_cycles(outcome: &Outcome) -> Option<f64> {
    let Locks { cycles, counts } = outcome.locks?;
    cycles.per_frame(&counts)
}

/// Acquisitions of zone locks by allocations and frees, per unit of work.
pub(super) fn acquisitions_per(outcome: &Outcome, work: u64) -> Option<f64> {
    Some(ratio(outcome.locks?.counts.acquisitions, work))
}

/// `part` of `whole`, in percent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Mean time of an allocation or a free in nanoseconds, refused requests included.
fn mean(outcome: &Outcome) -> f64 {
    let Calls { allocs, frees, .. } = &outcome.calls;
    let nanos = allocs.mean() * allocs.calls() as f64 + frees.mean() * frees.calls() as f64;
    nanos / outcome.calls.operations().max(1) as f64
}

/// The mean time on threads; `None` on a simulated machine.
pub(super) fn measured_mean(outcome: &Outcome) -> Option<f64> {
    outcome.locks.is_none().then(|| mean(outcome))
}

/// The mean time on a simulated machine; `None` on threads.
pub(super) fn modelled_mean(outcome: &Outcome) -> Option<f64> {
    outcome.locks.is_some().then(|| mean(outcome))
}

/// CPU time of this process per allocation or free. It includes the work of the experiment, which
/// is the same for every allocator. Unknown on a simulated machine.
pub(super) fn cpu_mean(outcome: &Outcome) -> Option<f64> {
    let nanos = outcome.calls.cpu_time.as_nanos() as f64;
    outcome.locks.is_none().then(|| nanos / outcome.calls.operations().max(1) as f64)
}

/// One call in this number is timed.
pub const TIMED_ONE_IN: u64 = 7;

/// Slots of the histogram per power of two.
const PARTS: u64 = 1 << PARTS_LOG2;
const PARTS_LOG2: u32 = 6;

/// Latencies of calls of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    /// All calls, timed or not.
    calls: u64,
    timed: u64,
    /// Their time in picoseconds.
    picos: u64,
    /// Nanoseconds for reading the clock, which are a part of each measured time.
    overhead: f64,
    /// Timed calls by [`slot`].
    counts: Vec<u64>,
}

impl Latencies {
    /// Makes a call, and times one in seven.
    #[inline(always)]
    pub(super) fn time<R>(&mut self, call: impl FnOnce() -> R) -> R {
        self.calls += 1;
        if !self.calls.is_multiple_of(TIMED_ONE_IN) {
            return call();
        }
        let start = Instant::now();
        let result = call();
        self.add(start.elapsed().as_nanos() as u64 * 1000);
        self.overhead = clock_cost();
        result
    }

    /// Adds a call whose time a model knows exactly, in picoseconds.
    pub(super) fn modelled(&mut self, picos: u64) {
        self.calls += 1;
        self.add(picos);
    }

    fn add(&mut self, picos: u64) {
        self.timed += 1;
        self.picos += picos;
        let slot = slot(picos / 1000);
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
    }

    /// Adds the latencies of another CPU.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.calls += other.calls;
        self.timed += other.timed;
        self.picos += other.picos;
        self.overhead = self.overhead.max(other.overhead);
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// All calls, timed or not.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// The mean, in nanoseconds; 0 if none was timed.
    pub(super) fn mean(&self) -> f64 {
        let mean = self.picos as f64 / 1e3 / self.timed.max(1) as f64;
        (mean - self.overhead).max(0.0)
    }

    /// The time that this share of the calls does not exceed, in nanoseconds.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = ((share * self.timed as f64).ceil() as u64).max(1);
        let mut below = 0;
        let slot = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some((least(slot) as f64 - self.overhead).max(0.0))
    }
}

/// The slot of calls of this latency.
fn slot(nanos: u64) -> usize {
    let shift = nanos.checked_ilog2().unwrap_or(0).saturating_sub(PARTS_LOG2);
    (u64::from(shift) * PARTS + (nanos >> shift)) as usize
}

/// The shortest latency of a slot.
fn least(slot: usize) -> u64 {
    let slot = slot as u64;
    // Slots below `2 * PARTS` are one nanosecond wide.
    let shift = (slot / PARTS).saturating_sub(1);
    (slot - shift * PARTS) << shift
}

/// Nanoseconds between two readings of the clock, from 1001 tries.
fn clock_cost() -> f64 {
    static COST: OnceLock<f64> = OnceLock::new();
    *COST
        .get_or_init(|| typical([0; 1001].map(|_: u64| Instant::now().elapsed().as_nanos() as u64)))
}

/// The mean of the tries that took at most twice as long as the median. The median itself would be wrong by half a step
/// of the clock, which may be longer than an allocation.
fn typical(mut tries: [u64; 1001]) -> f64 {
    let most = 2 * *tries.select_nth_unstable(500).1;
    let usual = tries.iter().filter(|&&nanos| nanos <= most);
    usual.clone().sum::<u64>() as f64 / usual.count() as f64
}

/// Allocated frames of every pageblock.
pub(super) struct Pageblocks(Vec<AtomicU32>);

impl Pageblocks {
    /// Pageblocks of a memory without allocations.
    pub(super) fn new(frames: u64) -> Self {
        let pageblocks = frames / PAGEBLOCK_FRAMES as u64;
        Self((0..pageblocks).map(|_| AtomicU32::new(0)).collect())
    }

    /// Counts a block as allocated.
    ///
    /// # Panics
    ///
    /// If the pageblock gets more allocated frames than it has frames.
    pub(super) fn take(&self, first: u64, frames: u32) {
        let before = self.of(first).fetch_add(frames, Relaxed);
        assert!(
            before + frames <= PAGEBLOCK_FRAMES as u32,
            "the allocator handed out frames at {first} that are allocated"
        );
    }

    /// Counts a block as free; called before it is freed.
    pub(super) fn give(&self, first: u64, frames: u32) {
        self.of(first).fetch_sub(frames, Relaxed);
    }

    /// Pageblocks without allocated frames.
    pub(super) fn free(&self) -> u64 {
        self.0.iter().filter(|used| used.load(Relaxed) == 0).count() as u64
    }

    fn of(&self, first: u64) -> &AtomicU32 {
        &self.0[first as usize / PAGEBLOCK_FRAMES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_has_a_slot_of_its_size() {
        let lengths = (0..2000).chain([4095, 4096, 123_456, 10_000_000_000]);
        for nanos in lengths {
            let least = least(slot(nanos));
            assert!(least <= nanos && nanos - least <= nanos / PARTS, "{nanos}: {least}");
        }
        assert!((0..500).all(|index| slot(least(index)) == index));
    }

    #[test]
    fn quantiles_are_of_the_timed_calls_without_the_clock() {
        let mut latencies = Latencies { overhead: 20.0, ..Latencies::default() };
        for nanos in 1..=100 {
            latencies.add((20 + nanos) * 1000);
        }
        let exact = |share| latencies.quantile(share).unwrap();
        assert!((exact(0.5) - 50.0).abs() <= 4.0, "{}", exact(0.5));
        assert!((exact(1.0) - 100.0).abs() <= 4.0, "{}", exact(1.0));
        assert!((latencies.mean() - 50.5).abs() < 1e-6);
        assert_eq!(Latencies::default().quantile(0.5), None);
    }

    #[test]
    fn the_cost_of_a_coarse_clock_is_its_mean_without_interruptions() {
        // A clock with steps of 10 ns that takes 25 ns shows 20 and 30 equally often.
        let tries: [u64; 1001] = std::array::from_fn(|i| match i {
            0 => 5_000_000,
            _ => 20 + 10 * (i as u64 % 2),
        });
        assert_eq!(typical(tries), 25.0);
    }

    #[test]
    fn one_call_in_seven_is_timed_and_all_are_counted() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        (0..21).for_each(|_| one.time(|| ()));
        (0..7).for_each(|_| other.time(|| ()));
        one.absorb(&other);
        assert_eq!((one.calls(), one.timed, one.counts.iter().sum()), (28, 4, 4));
    }

    #[test]
    fn a_pageblock_is_free_when_its_last_frame_is() {
        let pageblocks = Pageblocks::new(1024);
        pageblocks.take(511, 1);
        pageblocks.take(512, 512);
        assert_eq!(pageblocks.free(), 0);
        pageblocks.give(511, 1);
        assert_eq!(pageblocks.free(), 1);
    }

    #[test]
    #[should_panic(expected = "that are allocated")]
    fn frames_that_are_allocated_twice_are_detected() {
        let pageblocks = Pageblocks::new(512);
        pageblocks.take(0, 512);
        pageblocks.take(8, 8);
    }
}
