//! `tlb-proof`: checks that no CPU uses a stale translation after the flush of that translation.
//! Before the flush, other CPUs may use the translation.
//!
//! In every trial the first CPU maps a page, and all other CPUs, the *witnesses*, read it. Then the
//! entry is cleared, and the witnesses read again:
//!
//! 1. before the flush: a witness that has cached the translation still reads the frame (*stale*);
//! 2. after the flush, when the frame was freed, allocated again and has other contents: no witness
//!    reads it.
//!
//! The test has to be able to fail: with `break=flush` CPUs acknowledge without flushing, with
//! `break=cpu` one CPU is skipped, with `break=reuse` the frame is freed before the flush. Each of
//! these has to fail the run. Stale reads before the flush are allowed; they show that witnesses
//! can detect them.
//!
//! A last trial checks an assumption of the library ([`clean_stores_fault`]): a first store through
//! a cached translation reads the entry again.
//!
//! [`clean_stores_fault`]: framewright::tlb::Shootdown::clean_stores_fault

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::{
    CpuId, MigrateType, Order, Pfn, Request,
    tlb::{BatchSlot, CpuMask, Translation},
};

use super::{Options, verdict::Before};
use crate::{
    cpu::{self, Cpu, control},
    exit::refuse,
    frames,
    memory::{self, memory, with_token},
    paging::{self, AddressSpace, Area, Entry, probe},
    report::{Better, Check, Fixed, Report, Unit},
    serial::println,
    shootdown,
    wait::{self, Event},
};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
const TRIALS: u64 = 200;
/// Pages that trials use in turn, so that successive trials use different page-table entries.
const PAGES: u64 = 64;

/// The seeded bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Break {
    Nothing,
    Flush,
    Cpu,
    Reuse,
}

/// The steps of a witness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Step {
    /// Read the page, to cache its translation.
    Read,
    /// Read before the flush.
    Before,
    /// Read after the flush.
    After,
    /// Store to a page that was only read.
    Store,
    /// End.
    End,
}

impl Step {
    const ALL: [Self; 5] = [Self::Read, Self::Before, Self::After, Self::Store, Self::End];
}

/// The commands to witnesses, and their results.
struct Stage {
    witnesses: u64,
    /// The sequence number of the command, and its step in the lowest three bits.
    command: AtomicU64,
    /// The trial of the step.
    trial: AtomicU64,
    /// Witnesses that have done the step.
    done: AtomicU64,
    seen: Seen,
}

/// Counts of the results.
#[derive(Default)]
struct Seen {
    /// Wrong contents of a mapped page.
    wrong: AtomicU64,
    /// Reads of an unmapped page before the flush.
    stale: AtomicU64,
    /// Reads of an unmapped page after the flush.
    reached: AtomicU64,
    /// Of these, reads of words of the frame's next owner.
    leaked: AtomicU64,
    /// Stores to an unmapped page that succeeded.
    stored: AtomicU64,
}

fn count(what: &AtomicU64, happened: bool) {
    what.fetch_add(u64::from(happened), Ordering::Relaxed);
}

/// The words of the first owner of a frame, and of the next one.
fn contents(trial: u64) -> [u64; 2] {
    [trial << 8 | 1, trial << 8 | 2]
}

impl Stage {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            witnesses: cpu::online() as u64 - 1,
            command: zero(),
            trial: zero(),
            done: zero(),
            seen: Seen::default(),
        }
    }

    /// Makes all witnesses do a step, and waits for them.
    fn run_on_all(&self, trial: u64, step: Step) {
        self.trial.store(trial, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        let before = self.command.load(Ordering::Relaxed) >> 3;
        self.command.store((before + 1) << 3 | step as u64, Ordering::Release);
        wait::wake(Event::SERVED);
        wait::until(Event::SERVED, || self.done.load(Ordering::Acquire) == self.witnesses);
    }

    /// The loop of a witness.
    fn witness(&self) {
        for number in 1.. {
            wait::until(Event::SERVED, || self.command.load(Ordering::Acquire) >> 3 >= number);
            let step = Step::ALL[(self.command.load(Ordering::Acquire) & 7) as usize];
            self.run_step(self.trial.load(Ordering::Relaxed), step);
            self.done.fetch_add(1, Ordering::AcqRel);
            wait::wake(Event::SERVED);
            if step == Step::End {
                return;
            }
        }
    }

    fn run_step(&self, trial: u64, step: Step) {
        let ([first, second], page) = (contents(trial), trial % PAGES);
        match step {
            Step::Read => count(&self.seen.wrong, probe::read(page) != Some(first)),
            Step::Before => count(&self.seen.stale, probe::read(page) == Some(first)),
            Step::After => {
                let found = probe::read(page);
                count(&self.seen.reached, found.is_some());
                count(&self.seen.leaked, found == Some(second));
            }
            // SAFETY: the frame of the page belongs to the first CPU, which waits for this.
            Step::Store => count(&self.seen.stored, unsafe { probe::write(page, second) }),
            Step::End => {}
        }
    }
}

/// The first CPU.
struct Prover<'s> {
    stage: &'s Stage,
    space: &'static AddressSpace,
    broken: Break,
    /// Times that the frame of a trial was allocated again.
    reused: AtomicU64,
    /// Entries with unexpected accessed or dirty bits.
    unmarked: AtomicU64,
}

impl Prover<'_> {
    fn trial(&self, trial: u64) {
        let page = trial % PAGES;
        let pfn = self.map(page, contents(trial)[0]);
        self.stage.run_on_all(trial, Step::Read);
        self.touch(page, contents(trial)[0]);
        let mut cpus = self.take(page);
        self.stage.run_on_all(trial, Step::Before);
        if self.broken == Break::Cpu {
            cpus.remove(CpuId::new(self.stage.witnesses as u16));
        }
        let next = if self.broken == Break::Reuse {
            free(pfn);
            let next = self.reuse(pfn, trial);
            self.stage.run_on_all(trial, Step::After);
            self.flush(page, pfn, &cpus, false);
            next
        } else {
            self.flush(page, pfn, &cpus, true);
            let next = self.reuse(pfn, trial);
            self.stage.run_on_all(trial, Step::After);
            next
        };
        free(next);
    }

    /// Unmaps a page to which no CPU has stored. Then the witnesses store to it.
    fn clean_store(&self, trial: u64) {
        let page = trial % PAGES;
        let pfn = self.map(page, contents(trial)[0]);
        self.stage.run_on_all(trial, Step::Read);
        let cpus = self.take(page);
        self.stage.run_on_all(trial, Step::Store);
        self.flush(page, pfn, &cpus, true);
    }

    /// Maps a new frame with the accessed bit clear.
    fn map(&self, page: u64, value: u64) -> Pfn {
        let Some(pfn) = memory::alloc(PAGE) else {
            refuse(format_args!("there is not enough memory for a page"))
        };
        frames::write(pfn, 0, value);
        let installed =
            self.space.find_or_make(page).map(|slot| slot.install(Entry::page(pfn).writable()));
        assert!(installed == Some(true), "a page is still mapped");
        pfn
    }

    /// Stores to a page, and checks its accessed and dirty bits.
    fn touch(&self, page: u64, value: u64) {
        let noted = |page| {
            let entry = self.space.find(page).expect("the page is mapped").get();
            (entry.is_accessed(), entry.is_dirty())
        };
        let read = noted(page);
        // SAFETY: the frame belongs to this CPU.
        let stored = unsafe { probe::write(page, value) };
        count(&self.unmarked, read != (true, false) || !stored || noted(page) != (true, true));
    }

    /// Clears an entry, and flushes this CPU only. Returns the CPUs that may have cached it.
    fn take(&self, page: u64) -> CpuMask {
        self.space.find(page).expect("the page is mapped").take();
        let cpus = self.space.advance();
        control::invalidate_page(paging::address_of(page));
        cpus
    }

    /// Flushes through the library. If `retires`, the frame is freed after the flush.
    fn flush(&self, page: u64, pfn: Pfn, cpus: &CpuMask, retires: bool) {
        let mut slots = [BatchSlot::default(); 4];
        let mut batch = shootdown::flusher().batch(&mut slots);
        batch.add(
            pfn,
            &Translation {
                cpus,
                writable: true,
                // Marked dirty, so that the flush is not deferred under any setting.
                dirty: true,
                space: self.space.number().into(),
                page,
                space_flush: self.space.deferred_flush(),
                file_flush: None,
            },
        );
        if retires {
            // SAFETY: the trial owns the frame as a block, and gives it to the batch.
            let block = with_token(|token| unsafe { token.adopt_unchecked(pfn, Order::ZERO) });
            assert!(batch.retire(block).is_ok());
        }
        batch.finish(&mut |blocks| blocks.for_each(|block| free(block.into_raw().0)));
    }

    /// Allocates the frame of a trial again, and writes to it. If the library allocates another
    /// frame (`hardening=paranoid` delays the reuse), this frees that frame, drains the lists, and
    /// allocates the wanted frame by its number.
    fn reuse(&self, pfn: Pfn, trial: u64) -> Pfn {
        let fetch = |other| {
            free(other);
            with_token(|token| {
                token.drain();
                let block = token.alloc_at(pfn, Order::ZERO, MigrateType::Movable).ok()?;
                Some(block.into_raw().0)
            })
        };
        let next =
            memory::alloc(PAGE).and_then(|got| if got == pfn { Some(got) } else { fetch(got) });
        let Some(next) = next else { panic!("the frame of a freed page is not free") };
        count(&self.reused, next == pfn);
        frames::write(next, 0, contents(trial)[1]);
        next
    }
}

fn free(pfn: Pfn) {
    // SAFETY: allocated as a block of order 0 by `map` or `reuse`, and freed once.
    unsafe { memory::free(pfn, Order::ZERO) };
}

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["trials", "break"]);
    if cpu::online() < 2 {
        refuse(format_args!("tlb-proof needs two CPUs: one that unmaps, and a witness"))
    }
    let trials = options.number("trials", TRIALS).max(1);
    let broken = match options.choice("break", ["none", "flush", "cpu", "reuse"]) {
        "flush" => Break::Flush,
        "cpu" => Break::Cpu,
        "reuse" => Break::Reuse,
        _ => Break::Nothing,
    };
    let before = Before::now();
    let Some(space) = AddressSpace::create(&[Area::anonymous(0, PAGES)]) else {
        refuse(format_args!("there is not enough memory for an address space"))
    };
    let stage = Stage::new();
    let zero = || AtomicU64::new(0);
    let prover =
        Prover { stage: &stage, space: space.get(), broken, reused: zero(), unmarked: zero() };
    let flushes = memory().tlb().stats();
    shootdown::SKIPS_FLUSHES.store(broken == Break::Flush, Ordering::SeqCst);
    cpu::run_on_all(&|cpu| take_part(cpu, &prover, trials));
    shootdown::SKIPS_FLUSHES.store(false, Ordering::SeqCst);
    let flushed = memory().tlb().stats();
    space.end();

    let reads = trials * stage.witnesses;
    let interrupts = flushed.interrupts - flushes.interrupts;
    let Seen { wrong, stale, reached, leaked, stored } = &stage.seen;
    let [wrong, stale, reached, leaked, stored, reused, unmarked] =
        [wrong, stale, reached, leaked, stored, &prover.reused, &prover.unmarked]
            .map(|counter| counter.load(Ordering::Relaxed));
    let mut add = |name, value, better| {
        report.add(name, Fixed::whole(value), Unit::Count, better);
    };
    add("trials", trials, Better::Neither);
    add("reads", reads, Better::Neither);
    add("stale_before_flush", stale, Better::Neither);
    add("reached_after_flush", reached, Better::Lower);
    add("reused_frames", reused, Better::Neither);
    add("contents_leaked", leaked, Better::Lower);
    add("interrupts", interrupts, Better::Lower);
    let checks = [
        Check {
            name: "witnesses",
            passed: stale > 0 && wrong == 0,
            detail: format_args!(
                "before the flush {stale} of {reads} reads were stale; {wrong} reads were wrong"
            ),
        },
        Check {
            name: "flushed",
            passed: reached == 0,
            detail: format_args!("after the flush {reached} of {reads} reads accessed the page"),
        },
        Check {
            name: "no leak to the next owner",
            passed: leaked == 0 && reused > 0,
            detail: format_args!(
                "{reused} frames were reused; {leaked} stale reads saw the next owner's words"
            ),
        },
        Check {
            name: "clean stores fault",
            passed: stored == 0,
            detail: format_args!(
                "{stored} stores succeeded through clean translations of unmapped pages"
            ),
        },
        Check {
            name: "accessed and dirty",
            passed: unmarked == 0,
            detail: format_args!("{unmarked} of {trials} entries had unexpected bits"),
        },
    ];
    before.conclude("tlb-proof", report, &checks)
}

fn take_part(cpu: &Cpu, prover: &Prover<'_>, trials: u64) {
    prover.space.load();
    if cpu.id.index() > 0 {
        prover.stage.witness();
    } else {
        for trial in 0..trials {
            if trial % 50 == 0 {
                println!("progress {trial} {trials}");
            }
            prover.trial(trial);
        }
        if prover.broken == Break::Nothing {
            prover.clean_store(trials);
        }
        prover.stage.run_on_all(trials, Step::End);
    }
    AddressSpace::unload();
}
