//! `high-alloc`: the number of huge pages that can be allocated while CPUs build, and after the
//! builds have ended (as in stress-highalloc).
//!
//! Builders fill memory with pages of files, inodes, programs and page tables. Meanwhile the last
//! CPU requests 95 % of memory in huge pages, one after the other, and writes to each. It frees
//! them at the end of the pass. Two passes run under load, and one after builders, files and most
//! inodes are freed. The interval between two requests is a number of steps of the builders, not a
//! time. On a machine with one CPU, that CPU also runs a builder.
//!
//! Pages are migrated while they are in use. The most important check is that builders find the
//! words that they stored.

#![allow(unsafe_code)]

mod figures;
mod oracle;

use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use framewright::{MigrateType, Order, Pfn, Request};

use super::{
    Options,
    builder::{Builder, Done, Sizes},
    sources::Sources,
    verdict::Before,
};
use figures::Counts;

use crate::{
    cpu::{self, Cpu, MAX_CPUS},
    exit::refuse,
    frames, kthread,
    memory::{self, memory},
    report::{Check, Fixed, Report},
    serial::println,
    wait::{self, Event},
};

/// Steps of each builder between two requests: about 300 pages.
const STEPS: u64 = 20;
/// One in this many frames of inodes stays in use after the builds.
const OUTLIVED: usize = 50;
/// Pages of the objects of each builder.
const OBJECTS: u64 = 64;
/// The least managed memory, in frames: 120 MiB, as on a machine of 128 MiB.
const LEAST: u64 = 120 << 8;
const PHASES: usize = 3;

/// Frames that were allocated as huge pages, linked through their second words.
struct Kept {
    last: Option<Pfn>,
    count: u64,
    wrong: u64,
}

impl Kept {
    fn mark(pfn: Pfn, frame: u64) -> u64 {
        pfn.get() << 10 | frame
    }

    /// Requests a huge page.
    fn request(&mut self, request: Request) {
        let Some(pfn) = memory::alloc(request) else { return };
        for frame in 0..request.order().frames() {
            frames::write(pfn.offset(frame), 0, Self::mark(pfn, frame));
        }
        frames::write(pfn, 1, self.last.map_or(u64::MAX, Pfn::get));
        self.last = Some(pfn);
        self.count += 1;
    }

    /// Verifies and frees all of them.
    fn give_back(&mut self) {
        while let Some(pfn) = self.last {
            let before = frames::read(pfn, 1);
            self.last = (before != u64::MAX).then(|| Pfn::new(before));
            let other = |&frame: &u64| frames::read(pfn.offset(frame), 0) != Self::mark(pfn, frame);
            self.wrong += (0..Order::PAGEBLOCK.frames()).filter(other).count() as u64;
            // SAFETY: a block of this order, not used any more.
            unsafe { memory::free(pfn, Order::PAGEBLOCK) };
        }
    }
}

/// The result of each CPU: its builder, and the passes if it made the requests.
struct Parts([UnsafeCell<Part>; MAX_CPUS]);

struct Part {
    builder: Option<Builder>,
    passes: [Pass; PHASES - 1],
}

impl Part {
    /// No result yet.
    const NONE: Self = Self { builder: None, passes: [Pass::NONE; PHASES - 1] };
}

// SAFETY: each CPU uses its own part in a job, and the first CPU uses all of them after the job.
unsafe impl Sync for Parts {}

impl Parts {
    fn of(&self, cpu: &Cpu) -> *mut Part {
        self.0[cpu.id.index()].get()
    }
}

/// The shared state of a run.
struct Shared {
    request: Request,
    attempts: u64,
    /// Steps of all builders between two requests.
    steps: u64,
    sizes: Sizes,
    /// Steps of all builders so far.
    work: AtomicU64,
    /// CPUs that have not read all their files yet.
    unpacking: AtomicUsize,
    stop: AtomicBool,
}

/// The result of a pass.
#[derive(Clone, Copy)]
struct Pass {
    successes: u64,
    /// Huge pages that existed or could have existed at the end of the pass, at most the number of
    /// requests.
    formable: u64,
    wrong: u64,
}

impl Pass {
    const NONE: Self = Self { successes: 0, formable: 0, wrong: 0 };
}

impl Shared {
    /// The work of one CPU until the builders stop: the last one makes the requests.
    fn part(&self, cpu: &'static Cpu) -> Part {
        let (cpus, me) = (cpu::online(), cpu.id.index());
        let requests = me + 1 == cpus;
        if requests && cpus > 1 {
            kthread::run_until(Event::SERVED, || self.unpacking.load(Ordering::Acquire) == 0);
            return Part { builder: None, passes: self.request_twice(None) };
        }
        let Some(mut builder) = Builder::new(cpu, self.sizes) else {
            refuse(format_args!("there is not enough memory for builders"))
        };
        let (builders, me) = (cpus.saturating_sub(1).max(1) as u64, me as u64);
        (me..self.sizes.sources).step_by(builders as usize).for_each(|page| builder.unpack(page));
        self.unpacking.fetch_sub(1, Ordering::AcqRel);
        wait::wake(Event::SERVED);
        let passes =
            if requests { self.request_twice(Some(&mut builder)) } else { Part::NONE.passes };
        while !self.stop.load(Ordering::Acquire) {
            self.step(&mut builder);
        }
        builder.exit();
        builder.read_objects_back();
        Part { builder: Some(builder), passes }
    }

    fn step(&self, builder: &mut Builder) {
        builder.step();
        if (self.work.fetch_add(1, Ordering::AcqRel) + 1).is_multiple_of(self.steps) {
            wait::wake(Event::SERVED);
        }
    }

    /// Waits for the work of builders; `own` is the builder of this CPU, if it has one.
    fn wait(&self, rounds: u64, own: &mut Option<&mut Builder>) {
        let until = self.work.load(Ordering::Acquire) / self.steps + rounds;
        let is_over = || self.work.load(Ordering::Acquire) / self.steps >= until;
        match own {
            Some(builder) => {
                while !is_over() {
                    self.step(builder);
                    kthread::run();
                }
            }
            None => kthread::run_until(Event::SERVED, is_over),
        }
    }

    fn request_twice(&self, mut own: Option<&mut Builder>) -> [Pass; PHASES - 1] {
        let mut wait = |rounds| self.wait(rounds, &mut own);
        wait(self.attempts);
        let passes = core::array::from_fn(|number| {
            let pass = self.pass(number as u64, &mut wait);
            wait(self.attempts / 8);
            pass
        });
        self.stop.store(true, Ordering::Release);
        passes
    }

    /// Makes all requests of a pass, with `wait` between them.
    fn pass(&self, number: u64, wait: &mut dyn FnMut(u64)) -> Pass {
        let mut kept = Kept { last: None, count: 0, wrong: 0 };
        for attempt in 0..self.attempts {
            if attempt.is_multiple_of(8) {
                let all = PHASES as u64 * self.attempts;
                println!("progress {} {all}", number * self.attempts + attempt);
            }
            kept.request(self.request);
            wait(1);
        }
        let successes = kept.count;
        let formable = oracle::formable().min(self.attempts);
        kept.give_back();
        Pass { successes, formable, wrong: kept.wrong }
    }
}

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["flags", "steps"]);
    let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let request = match options.choice("flags", ["default", "thp"]) {
        "thp" => request.no_retry().without_reserves().no_wake(),
        _ => request,
    };
    let managed = memory().managed();
    if managed < LEAST {
        refuse(format_args!("high-alloc needs 128 MiB, and the machine has {} MiB", managed >> 8))
    }
    let cpus = cpu::online() as u64;
    let builders = cpus.saturating_sub(1).max(1);
    // Files and programs together exceed memory: there is always something to reclaim.
    let sources = managed;
    let largest = (managed / 16 / builders).clamp(64, 12_288);
    let shared = Shared {
        request,
        attempts: managed / Order::PAGEBLOCK.frames() * 95 / 100,
        steps: options.number("steps", STEPS).max(1).saturating_mul(builders),
        sizes: Sizes {
            least: (largest / 12).max(16),
            most: largest,
            sources,
            objects: OBJECTS,
            inodes: managed / 16 / builders,
        },
        work: AtomicU64::new(0),
        unpacking: AtomicUsize::new(builders as usize),
        stop: AtomicBool::new(false),
    };
    let before = Before::now();
    let begun = Counts::now();
    let mut parts = Parts([const { UnsafeCell::new(Part::NONE) }; MAX_CPUS]);
    Sources::new(sources + OBJECTS * cpus).opened(|| {
        cpu::run_on_all(&|cpu| {
            let part = shared.part(cpu);
            // SAFETY: the part of this CPU.
            unsafe { *parts.of(cpu) = part };
        });
    });
    let [first, second] = parts.0[cpu::online() - 1].get_mut().passes;
    let mut builders = parts.0.map(|part| part.into_inner().builder);
    builders.iter().flatten().for_each(|builder| builder.free_inodes(OUTLIVED));
    memory().drain_all();
    let third = shared.pass(PHASES as u64 - 1, &mut |_| _ = kthread::run());
    let passes = [first, second, third];
    let mut done = Done::default();
    builders.iter_mut().filter_map(Option::take).for_each(|builder| done.add(&builder.end()));
    let counts = Counts::now().since(&begun);
    let achievable = figures::show(report, shared.attempts, &passes, &counts, &done);
    let wrong = passes.iter().map(|pass| pass.wrong).sum::<u64>() + done.wrong;
    let lists_hold = memory().lru().is_some_and(|lru| lru.check().is_ok());
    let checks = [
        Check {
            name: "contents",
            passed: wrong == 0,
            detail: format_args!("{wrong} words differ from the stored ones"),
        },
        Check {
            name: "achievable",
            passed: achievable >= Fixed::whole(70),
            detail: format_args!("at least {achievable} % of the huge pages; the goal is 70"),
        },
        Check {
            name: "compaction",
            passed: counts.moved() > 0 && lists_hold,
            detail: format_args!(
                "{} pages were migrated; the lists are consistent: {lists_hold}",
                counts.moved()
            ),
        },
    ];
    before.conclude("high-alloc", report, &checks)
}
