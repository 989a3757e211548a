//! `kbuild`: every CPU runs compilers, one after the other, as in a build of a kernel: each gets an
//! address space, reads files, faults pages, writes an object, and exits, which frees all of its
//! memory at once.
//!
//! Memory is never short. The workload measures the effect of exits on the lists of a CPU, and
//! their costs.

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::observe::{CpuStats, DrainReason};
use framewright_workloads::compilers::MOST_PAGES;

use super::{
    Options,
    builder::{Builder, Done, Sizes},
    sources::Sources,
    verdict::Before,
};
use crate::{
    clock::Clock,
    cpu::{self, Cpu, Rendezvous, control},
    exit::refuse,
    memory::memory,
    report::{Better, Check, Fixed, Report, Unit},
    serial::println,
};

/// Compilers of each CPU.
const COMPILERS: u64 = 12;
/// Pages of all sources: 16 MiB, or less on small machines.
const SOURCES: u64 = 4096;
/// Pages of the objects of each CPU, and frames of its inodes.
const OBJECTS: u64 = 128;
const INODES: u64 = 64;

/// The counts of all CPUs together.
#[derive(Default)]
struct Sum {
    exits: AtomicU64,
    pages: AtomicU64,
    out_of_memory: AtomicU64,
    wrong: AtomicU64,
}

impl Sum {
    fn add(&self, done: &Done) {
        self.exits.fetch_add(done.exits, Ordering::Relaxed);
        self.pages.fetch_add(done.pages, Ordering::Relaxed);
        self.out_of_memory.fetch_add(done.out_of_memory, Ordering::Relaxed);
        self.wrong.fetch_add(done.wrong, Ordering::Relaxed);
    }
}

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["compilers", "pages"]);
    let (cpus, managed) = (cpu::online() as u64, memory().managed());
    let compilers = options.number("compilers", COMPILERS);
    let most = options.number("pages", u64::from(MOST_PAGES).min(managed / 2 / cpus));
    let sources = SOURCES.min(managed / 8);
    if most.saturating_mul(cpus) > managed * 3 / 4 {
        refuse(format_args!(
            "{cpus} CPUs with compilers of {most} pages need more than the {} MiB of the machine",
            managed >> 8
        ))
    }
    let least = (most / 12).max(1);
    let sizes = Sizes { least, most, sources, objects: OBJECTS, inodes: INODES };
    let before = Before::now();
    let (first, sum) = (Sum::default(), Sum::default());
    let (mut stats, mut interrupts, mut nanos, mut cycles) = Default::default();
    Sources::new(sources + OBJECTS * cpus).opened(|| {
        // The first compilers find an empty cache, and make the lists grow.
        build(sizes, 1, &first);
        let (before, tlb) = (memory().stats(), memory().tlb().stats().interrupts);
        let (start, began) = (control::timestamp(), Clock::now());
        build(sizes, compilers, &sum);
        (nanos, cycles) = (Clock::now() - began, control::timestamp() - start);
        (stats, interrupts) = ((before, memory().stats()), memory().tlb().stats().interrupts - tlb);
    });
    let [exits, pages, out_of_memory, wrong] =
        [sum.exits, sum.pages, sum.out_of_memory, sum.wrong].map(AtomicU64::into_inner);
    let wrong = wrong + first.wrong.into_inner();
    if options.counts_instructions() {
        let each = Fixed::ratio(cycles, pages);
        report.add("instructions_per_page", each, Unit::Ratio, Better::Lower);
    } else {
        let speed = Fixed::ratio(pages * 1_000_000_000, nanos);
        report.add("pages_per_s", speed, Unit::PerSecond, Better::Higher);
    }
    show(report, &stats.0, &stats.1, pages, exits);
    let each = Fixed::ratio(interrupts, pages);
    report.add("interrupts_per_page", each, Unit::Ratio, Better::Lower);
    report.add("interrupts", Fixed::whole(interrupts), Unit::Count, Better::Neither);
    let checks = [
        Check {
            name: "contents",
            passed: wrong == 0,
            detail: format_args!("{wrong} words differ from the stored ones"),
        },
        Check {
            name: "exits",
            passed: exits == compilers * cpus && out_of_memory == 0,
            detail: format_args!("{exits} compilers exited, {out_of_memory} allocations failed"),
        },
    ];
    before.conclude("kbuild", report, &checks)
}

/// Runs `compilers` compilers on each CPU.
fn build(sizes: Sizes, compilers: u64, sum: &Sum) {
    let together = Rendezvous::new();
    cpu::run_on_all(&|cpu: &'static Cpu| {
        let Some(mut builder) = Builder::new(cpu, sizes) else {
            refuse(format_args!("there is not enough memory for builders"))
        };
        together.meet();
        let mut told = 0;
        while builder.done.exits + builder.done.out_of_memory < compilers {
            builder.step();
            if cpu.id.get() == 0 && told < builder.done.exits {
                told = builder.done.exits;
                println!("progress {told} {compilers}");
            }
        }
        builder.read_objects_back();
        sum.add(&builder.end());
    });
}

/// Adds the figures, with the names that they have on other machines.
fn show(report: &mut Report, before: &CpuStats, now: &CpuStats, pages: u64, exits: u64) {
    let of = |of: fn(&CpuStats) -> u64| of(now) - of(before);
    let drains = |why: DrainReason| now.drains[why as usize] - before.drains[why as usize];
    let acquisitions = of(|stats| stats.zone_lock_acquisitions);
    let frames = of(|stats| stats.zone_lock_frames);
    let high_order = drains(DrainReason::HighOrder);
    let each = Fixed::ratio(acquisitions, pages);
    report.add("acquisitions_per_page", each, Unit::Ratio, Better::Lower);
    if acquisitions > 0 {
        let per_hold = Fixed::ratio(frames, acquisitions);
        report.add("frames_per_lock_hold", per_hold, Unit::FramesPerAcquisition, Better::Higher);
    }
    report.add("drains_per_exit", Fixed::ratio(high_order, exits), Unit::Ratio, Better::Lower);
    let (hits, misses) = (of(|stats| stats.list_hits), of(|stats| stats.list_misses));
    let asked = hits + misses + of(|stats| stats.zone_allocs);
    let share = Fixed::ratio(100 * hits, asked);
    report.add("list_hits_pct", share, Unit::Percent, Better::Higher);
    for (name, value) in [
        ("pages", pages),
        ("exits", exits),
        ("zone_lock_acquisitions", acquisitions),
        ("zone_lock_frames", frames),
        ("refills", of(|stats| stats.refills)),
        ("refilled_frames", of(|stats| stats.refilled_frames)),
        ("drains", now.drains.iter().sum::<u64>() - before.drains.iter().sum::<u64>()),
        ("drains_threshold", drains(DrainReason::Threshold)),
        ("drains_high_order", high_order),
        ("drains_capacity", drains(DrainReason::Capacity)),
        ("drained_frames", of(|stats| stats.drained_frames)),
        ("zone_allocs", of(|stats| stats.zone_allocs)),
        ("zone_frees", of(|stats| stats.zone_frees)),
        ("claims", of(|stats| stats.claims)),
        ("steals", of(|stats| stats.steals)),
        ("slow_paths", of(|stats| stats.slow_paths)),
    ] {
        report.add(name, Fixed::whole(value), Unit::Count, Better::Neither);
    }
}
