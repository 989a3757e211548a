//! `page-fault`: every CPU touches pages in ascending order, and unmaps them, as will-it-scale's
//! page_fault1. Each CPU has its own address space (`sharing=private`, processes), or all CPUs share
//! one (`sharing=shared`, threads).
//!
//! Each page gets a unique value, which is verified after all are touched. Touching and unmapping
//! are timed or counted separately.

use core::sync::atomic::{AtomicU64, Ordering};

use framewright_workloads::{
    Sharing,
    page_fault::{BURST, WARM_UP},
};

use super::{
    Options,
    pages::{first_word, touch},
    verdict::Before,
};
use crate::{
    clock::Clock,
    cpu::{self, Cpu, MAX_CPUS, Rendezvous, control},
    exit::refuse,
    memory::memory,
    paging::{self, AddressSpace, Area, Space},
    report::{Better, Check, Fixed, Report, Unit},
    serial::println,
};

const ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 32;

/// The address spaces of a run.
struct Spaces {
    spaces: [Option<Space>; MAX_CPUS],
    sharing: Sharing,
    pages: u64,
}

impl Spaces {
    fn new(sharing: Sharing, pages: u64) -> Self {
        let (count, each) = sharing.mappings(cpu::online(), pages);
        let mut spaces = [const { None }; MAX_CPUS];
        for slot in &mut spaces[..count] {
            *slot = AddressSpace::create(&[Area::anonymous(0, each)]);
            if slot.is_none() {
                refuse(format_args!("there is not enough memory for address spaces"));
            }
        }
        Self { spaces, sharing, pages }
    }

    /// The address space of a CPU, and its first page there.
    fn of(&self, cpu: &Cpu) -> (&'static AddressSpace, u64) {
        let part = self.sharing.part(cpu.id.index(), self.pages);
        let space = self.spaces[part.mapping].as_ref().expect("there is one for every CPU");
        (space.get(), part.first)
    }

    /// Runs a function for the pages of every CPU, between two barriers. Returns its duration, in
    /// instructions or cycles of the machine, and in nanoseconds.
    fn on_all(&self, run: impl Fn(&Cpu, &'static AddressSpace, u64) + Sync) -> (u64, u64) {
        let (start, nanos) = (control::timestamp(), Clock::now());
        let together = Rendezvous::new();
        cpu::run_on_all(&|cpu| {
            let (space, first) = self.of(cpu);
            space.load();
            together.meet();
            run(cpu, space, first);
            together.meet();
            AddressSpace::unload();
        });
        (control::timestamp() - start, Clock::now() - nanos)
    }

    fn end(self) {
        self.spaces.into_iter().flatten().for_each(Space::end);
    }
}

/// A unique value for a page in a round.
fn value_of(round: usize, page: u64, space: &AddressSpace) -> u64 {
    (round as u64 + 1) << 48 | u64::from(space.number()) << 32 | page
}

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["sharing", "pages", "rounds"]);
    let cpus = cpu::online() as u64;
    // A fifth of memory stays free: memory is never short.
    let pages = options.number("pages", u64::from(BURST).min(memory().managed() * 4 / 5 / cpus));
    let rounds = (options.number("rounds", ROUNDS as u64) as usize).clamp(1, MOST_ROUNDS);
    let sharing = match options.choice("sharing", ["private", "shared"]) {
        "shared" => Sharing::Shared,
        _ => Sharing::Private,
    };
    if pages * cpus > memory().managed() * 9 / 10 {
        let mib = (pages * cpus) >> 8;
        let has = memory().managed() >> 8;
        refuse(format_args!(
            "{cpus} CPUs with {pages} pages each use {mib} MiB, more than nine tenths of the {has} MiB \
             of the machine: give it more memory, or choose a smaller pages=N"
        ))
    }

    let before = Before::now();
    let spaces = Spaces::new(sharing, pages);
    let wrong = AtomicU64::new(0);
    let mut measured = Measured::default();
    for round in 0..WARM_UP + rounds {
        println!("progress {round} {}", WARM_UP + rounds);
        let counts = Counts::now();
        let counts_instructions = round >= WARM_UP;
        let faults = marked(counts_instructions, || {
            spaces.on_all(|_, space, first| {
                (first..first + pages).for_each(|page| touch(page, value_of(round, page, space)));
            })
        });
        spaces.on_all(|_, space, first| {
            let other = |&page: &u64| first_word(page) != value_of(round, page, space);
            wrong.fetch_add((first..first + pages).filter(other).count() as u64, Ordering::Relaxed);
        });
        let unmaps = marked(counts_instructions, || {
            spaces.on_all(|_, space, first| paging::unmap(space, first, pages))
        });
        if round >= WARM_UP {
            measured.add(round - WARM_UP, pages * cpus, faults, unmaps);
            measured.counts.add(&counts);
        }
    }
    spaces.end();

    measured.report(options, rounds, pages * cpus, report);
    let wrong = wrong.into_inner();
    let contents = Check {
        name: "contents",
        passed: wrong == 0,
        detail: format_args!("{wrong} pages did not hold the stored value"),
    };
    before.conclude("page-fault", report, &[contents])
}

/// Runs `work` between marks for an external counter, if `counts`.
fn marked<R>(counts: bool, work: impl FnOnce() -> R) -> R {
    if counts {
        control::mark_begin();
    }
    let result = work();
    if counts {
        control::mark_end();
    }
    result
}

/// For each round: instructions per page fault, instructions per unmapped page, and pages per
/// second.
#[derive(Default)]
struct Measured {
    faults: [Fixed; MOST_ROUNDS],
    unmaps: [Fixed; MOST_ROUNDS],
    speed: [Fixed; MOST_ROUNDS],
    counts: Counts,
}

impl Measured {
    fn add(&mut self, round: usize, pages: u64, faults: (u64, u64), unmaps: (u64, u64)) {
        self.faults[round] = Fixed::ratio(faults.0, pages);
        self.unmaps[round] = Fixed::ratio(unmaps.0, pages);
        self.speed[round] = Fixed::ratio(pages * 1_000_000_000, faults.1 + unmaps.1);
    }

    fn report(&mut self, options: &Options<'_>, rounds: usize, pages: u64, report: &mut Report) {
        use Better::{Higher, Lower};
        if options.counts_instructions() {
            let rounds = ..rounds;
            report.add_rounds(
                "instructions_per_fault",
                &mut self.faults[rounds],
                Unit::Ratio,
                Lower,
            );
            report.add_rounds(
                "instructions_per_unmap",
                &mut self.unmaps[rounds],
                Unit::Ratio,
                Lower,
            );
        } else {
            report.add_rounds("pages_per_s", &mut self.speed[..rounds], Unit::PerSecond, Higher);
        }
        let all = pages * rounds as u64;
        let Counts { acquisitions, lock_frames, interrupts, flushes } = self.counts;
        report.add("acquisitions_per_page", Fixed::ratio(acquisitions, all), Unit::Ratio, Lower);
        // Without acquisitions there is no divisor.
        if acquisitions > 0 {
            let per_hold = Fixed::ratio(lock_frames, acquisitions);
            report.add("frames_per_lock_hold", per_hold, Unit::FramesPerAcquisition, Higher);
        }
        report.add("interrupts_per_page", Fixed::ratio(interrupts, all), Unit::Ratio, Lower);
        report.add("pages", Fixed::whole(all), Unit::Count, Better::Neither);
        report.add("interrupts", Fixed::whole(interrupts), Unit::Count, Better::Neither);
        report.add("nr_tlb_remote_flush", Fixed::whole(flushes), Unit::Count, Better::Neither);
    }
}

/// Counters of the library that the result shows.
#[derive(Clone, Copy, Default)]
struct Counts {
    acquisitions: u64,
    lock_frames: u64,
    interrupts: u64,
    flushes: u64,
}

impl Counts {
    fn now() -> Self {
        let (zone, tlb) = (memory().stats(), memory().tlb().stats());
        Self {
            acquisitions: zone.zone_lock_acquisitions,
            lock_frames: zone.zone_lock_frames,
            interrupts: tlb.interrupts,
            flushes: tlb.nr_tlb_remote_flush,
        }
    }

    /// Adds the counts since `before`.
    fn add(&mut self, before: &Self) {
        let now = Self::now();
        self.acquisitions += now.acquisitions - before.acquisitions;
        self.lock_frames += now.lock_frames - before.lock_frames;
        self.interrupts += now.interrupts - before.interrupts;
        self.flushes += now.flushes - before.flushes;
    }
}
