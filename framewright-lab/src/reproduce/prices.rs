//! The operation costs that the gain of each mechanism (bulk free, high-order drains, compaction by
//! index, flush batches) depends on.
//!
//! A mechanism saves time because it avoids a costly operation. If that operation costs nothing, no
//! gain may be left: a remaining gain has another cause, and the model or the explanation is wrong.
//! Gains are differences of times. Percentages would mislead, because the times themselves shrink
//! with the costs.

use framewright::{
    Tuning,
    tuning::{CompactMethod, FlushBatching},
};
use framewright_sim::machine::Spec;

use super::{Plan, Tell, bulk_free, high_order_drain::trials, pairs::Pair};
use crate::Error;
use crate::{
    high_alloc::{Environment, Flags, HighAlloc},
    paging::{Paging, Work},
    report::Run,
    simulated::Simulation,
    workloads::{
        Side, Workload,
        mmap_read::{MmapRead, Readers},
        page_fault::FreeOrder,
        socket_pairs::SocketPairs,
    },
};

/// Maximum share of a gain that may be left without its costs, in percent.
pub const MOST_LEFT_PERCENT: f64 = 3.0;

/// A mechanism, and the costs that its gain depends on.
#[derive(Clone, Copy, Debug)]
pub struct Mechanism {
    /// Its name.
    pub name: &'static str,
    /// The setting of the mechanism: key, value without it, value with it.
    pub setting: [&'static str; 3],
    /// The machine of the measurement.
    pub machine: &'static str,
    /// The operation whose time it saves.
    pub figure: &'static str,
    /// The keys, in machine files, of the costs that the gain depends on.
    pub prices: &'static [&'static str],
    times: fn(&Spec) -> Result<Times, Error>,
}

/// A time without a mechanism and with it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Without it.
    pub before: f64,
    /// With it.
    pub after: f64,
}

/// The gain of a mechanism, with and without the costs of the operation.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Times with all costs.
    pub priced: Times,
    /// Times with these costs set to zero.
    pub free: Times,
}

/// The costs of cache lines that are not in the first-level cache.
macro_rules! with_lines {
    ($($other:literal),*) => {
        &[$($other,)* "latency.l2", "latency.llc", "latency.modified_same_socket",
          "latency.modified_remote", "latency.dram_local", "latency.dram_remote"]
    };
}

/// All mechanisms.
pub const MECHANISMS: [Mechanism; 4] = [
    Mechanism {
        name: "bulk free",
        setting: ["pcp.bulk_free", "select-under-lock", "select-before-lock"],
        machine: "uniform:32",
        figure: "a page fault of page-fault, list-buddy",
        prices: with_lines!("code.list_buddy_select"),
        times: bulk_free_times,
    },
    Mechanism {
        name: "high-order drains",
        setting: ["pcp.high_order_drain", "every-free", "second-consecutive"],
        machine: "uniform:32",
        figure: "a GB of socket-pairs, list-buddy",
        prices: with_lines!(
            "code.list_buddy_take",
            "code.list_buddy_give",
            "code.list_buddy_select",
            "lock.atomic",
            "lock.handoff_fixed"
        ),
        times: drain_times,
    },
    Mechanism {
        name: "compaction by index",
        setting: ["compact.method", "scan", "index"],
        machine: "uniform:4",
        figure: "the 99th percentile of requests of high-alloc",
        // The costs of scanning and of moving a page: isolating, unmapping, flushing and copying
        // it, allocating its new frame and freeing the old one. Requests that the scanners do not
        // serve also reclaim. With the costs of reclaim, allocation and freeing, 4.5 % of the gain
        // was left in an earlier version.
        prices: with_lines!(
            "library.search",
            "library.range_pageblocks",
            "library.change_pageblocks",
            "library.lru_hold",
            "library.lru_moves",
            "library.lru_skips",
            "library.reclaim_pages",
            "library.zone_hold",
            "library.take_pageblocks",
            "library.take_bundles",
            "library.take_high_order",
            "library.take_frames",
            "library.give_pageblocks",
            "library.give_singles",
            "library.give_bundles",
            "library.give_frames",
            "library.loose_blocks",
            "library.relist",
            "library.pageblock_words",
            "library.whole_pageblocks",
            "library.fallback",
            "lock.atomic",
            "lock.handoff_fixed",
            "fault.look",
            "fault.unmap",
            "fault.copy",
            "fault.copy_hot",
            "interrupt.send",
            "interrupt.latency_local",
            "interrupt.entry",
            "interrupt.acknowledge",
            "tlb.invalidate_page",
            "tlb.flush_all"
        ),
        times: compaction_times,
    },
    Mechanism {
        name: "flush batches",
        setting: ["tlb.batching", "off", "all"],
        machine: "desk-1n-8",
        figure: "mmap-read, from start to end",
        // The request of a flush is a word that the sender writes and the target reads. If the
        // costs of cache lines are not zero, 4 % of the gain is left.
        prices: with_lines!(
            "interrupt.send",
            "interrupt.latency_local",
            "interrupt.latency_remote",
            "interrupt.entry",
            "interrupt.acknowledge",
            "tlb.invalidate_page",
            "tlb.flush_all"
        ),
        times: flush_times,
    },
];

impl Mechanism {
    /// Runs with and without the mechanism, on its machine and on one where the operation costs
    /// nothing. `tell` gets the number of machines on which both have run, and the number of
    /// machines.
    ///
    /// # Errors
    ///
    /// The error of a run.
    pub fn origin(&self, tell: &mut Tell<'_>) -> Result<Origin, Error> {
        let spec = match self.machine.strip_prefix("uniform:") {
            Some(cpus) => Spec::uniform(cpus.parse().unwrap_or(1))?,
            None => Spec::preset(self.machine)?,
        };
        tell(0, 2);
        let priced = (self.times)(&spec)?;
        tell(1, 2);
        let free = (self.times)(&without(&spec, self.prices)?)?;
        tell(2, 2);
        Ok(Origin { mechanism: *self, priced, free })
    }
}

impl Times {
    /// The saved time, in nanoseconds.
    #[must_use]
    pub fn saved(&self) -> f64 {
        self.before - self.after
    }
}

impl Origin {
    /// The share of the gain that is left without the costs, in percent.
    #[must_use]
    pub fn left_percent(&self) -> f64 {
        100.0 * self.free.saved() / self.priced.saved()
    }

    /// Whether the gain is due to the named costs: there is a gain, and almost none is left without
    /// them.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.priced.saved() > 0.0 && self.left_percent() <= MOST_LEFT_PERCENT
    }
}

/// The machine with the costs `prices` set to zero.
fn without(spec: &Spec, prices: &[&str]) -> Result<Spec, Error> {
    let free = |spec: Spec, key: &&str| spec.scaled(key, 0.0);
    Ok(prices.iter().try_fold(spec.clone(), free)?)
}

const PLAN: fn() -> Plan = || Plan::new(1, true);

fn bulk_free_times(spec: &Spec) -> Result<Times, Error> {
    let pair = bulk_free::pair(&PLAN(), spec.clone(), bulk_free::CLASSIC, FreeOrder::Mapping);
    per_unit(&pair, "pages_per_s", 1.0)
}

fn drain_times(spec: &Spec) -> Result<Times, Error> {
    let work = Workload::SocketPairs(SocketPairs::new(1));
    let plan = trials::length(&PLAN(), &work, None);
    let simulation = Simulation { work, spec: spec.clone(), frames: None, plan };
    let pair = trials::pair("socket-pairs", trials::LISTS, trials::list_buddy, &simulation);
    per_unit(&pair.with_lists(Some(trials::SERVER_LISTS)), "bandwidth_bytes_per_s", 1e9)
}

/// The time of `units`, at a `rate` per second.
fn per_unit(pair: &Pair, rate: &str, units: f64) -> Result<Times, Error> {
    let outcome = pair.run(&PLAN(), &|_| ())?;
    let sides = outcome.sides(rate).ok_or_else(|| missing(rate))?;
    let after = sides.after.as_ref().ok_or_else(|| missing(rate))?;
    let nanos = |rate: f64| 1e9 * units / rate;
    Ok(Times { before: nanos(sides.before.median), after: nanos(after.median) })
}

fn compaction_times(spec: &Spec) -> Result<Times, Error> {
    let work = HighAlloc {
        flags: Flags::Thp,
        spec: spec.clone(),
        frames: HighAlloc::DEFAULT_FRAMES,
        from: None,
        environment: Environment::default(),
        quick: true,
    };
    let sides = [CompactMethod::Scan, CompactMethod::Index]
        .map(|method| side(|tuning| tuning.compact.method = method));
    mean(|seed| both(&work.run_each(&sides, seed)?, "stall_p99_ns", 1.0))
}

fn flush_times(spec: &Spec) -> Result<Times, Error> {
    const FRAMES: u64 = 64 << 8;
    let work = Work::MmapRead(MmapRead::new(Readers::Processes));
    let paging = Paging { work, spec: spec.clone(), frames: FRAMES };
    let sides = [FlushBatching::Off, FlushBatching::All]
        .map(|batching| side(|tuning| tuning.tlb.batching = batching));
    mean(|seed| both(&paging.run(&sides, &[seed], &mut |_, _| ())?.runs, "elapsed_s", 1e9))
}

/// The means of many seeds: the order of events alone changes the time of one seed by some percent, and the 99th percentile
/// of requests that the scanners serve to several times as much.
fn mean(run: impl Fn(u64) -> Result<Times, Error>) -> Result<Times, Error> {
    const SEEDS: u64 = 12;
    let mut mean = Times { before: 0.0, after: 0.0 };
    for seed in 1..=SEEDS {
        let times = run(seed)?;
        mean.before += times.before / SEEDS as f64;
        mean.after += times.after / SEEDS as f64;
    }
    Ok(mean)
}

fn side(set: impl FnOnce(&mut Tuning)) -> Side {
    let mut side = Side::new("");
    set(&mut side.tuning);
    side
}

/// A figure of two runs, in nanoseconds.
fn both(runs: &[Run], metric: &str, nanos: f64) -> Result<Times, Error> {
    let of = |run: usize| {
        let metric = runs.get(run).and_then(|run| run.metrics.get(metric));
        metric.map(|metric| nanos * metric.median)
    };
    let times = of(0).zip(of(1)).map(|(before, after)| Times { before, after });
    times.ok_or_else(|| missing(metric))
}

fn missing(metric: &str) -> Error {
    Error::broken(format_args!("the run has no figure {metric}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The fastest mechanism. All of them take half a minute, and run in the test of the command `prices`.
    #[test]
    fn fewer_drains_gain_by_lines_and_refills() {
        let mechanism =
            MECHANISMS.iter().find(|mechanism| mechanism.name == "high-order drains").unwrap();
        let origin = mechanism.origin(&mut |_, _| ()).unwrap();
        let (priced, free) = (origin.priced, origin.free);
        assert!(origin.holds(), "{:.2} % left: {priced:?}, {free:?}", origin.left_percent());
    }
}
