//! `tlb-proof`: what other CPUs have cached is reached before they have flushed, and never after.
//!
//! In every trial the first CPU maps a page, and all others read it. Then the entry is cleared, and the
//! others, *witnesses*, look again:
//!
//! 1. before the flush: whoever has cached the translation still reads the frame (*stale*);
//! 2. after it, when the frame is free, allocated anew and has other contents: nobody does.
//!
//! A proof that cannot fail proves nothing: with `break=flush` CPUs say that they have forgotten and have
//! not, with `break=cpu` one is left out, with `break=reuse` the frame is free before the flush. Each has
//! to fail the run. Stale reads are what a witness may see; that he sees any shows that he can.
//!
//! A last trial asks what the library relies on ([`clean_stores_fault`]): a store through a cached
//! translation that nothing was stored through before looks at the entry again.
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
/// Pages that trials go round: more than a CPU caches the tables of at once.
const PAGES: u64 = 64;

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Break {
    Nothing,
    Flush,
    Cpu,
    Reuse,
}

/// What witnesses are told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Step {
    /// Read the page: they cache it.
    Read,
    /// Look before the flush.
    Before,
    /// Look after it.
    After,
    /// Store to a page that they have only read.
    Store,
    /// Go home.
    End,
}

impl Step {
    const ALL: [Self; 5] = [Self::Read, Self::Before, Self::After, Self::Store, Self::End];
}

/// What witnesses are told, and what they see.
struct Stage {
    witnesses: u64,
    /// What they are told: how often they were told something before, and the step.
    told: AtomicU64,
    /// The trial that it is for.
    trial: AtomicU64,
    /// Witnesses that have done it.
    done: AtomicU64,
    seen: Seen,
}

/// What witnesses saw.
#[derive(Default)]
struct Seen {
    /// Something else than the contents of a page that was mapped.
    wrong: AtomicU64,
    /// A page that was unmapped, before the flush.
    stale: AtomicU64,
    /// After it.
    reached: AtomicU64,
    /// Of those, what the next owner of the frame wrote.
    leaked: AtomicU64,
    /// A page that they stored to, and was unmapped.
    stored: AtomicU64,
}

fn count(what: &AtomicU64, happened: bool) {
    what.fetch_add(u64::from(happened), Ordering::Relaxed);
}

/// What the first owner of a frame writes, and the next.
fn contents(trial: u64) -> [u64; 2] {
    [trial << 8 | 1, trial << 8 | 2]
}

impl Stage {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            witnesses: cpu::online() as u64 - 1,
            told: zero(),
            trial: zero(),
            done: zero(),
            seen: Seen::default(),
        }
    }

    /// Has all witnesses do something.
    fn tell(&self, trial: u64, step: Step) {
        self.trial.store(trial, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        let before = self.told.load(Ordering::Relaxed) >> 3;
        self.told.store((before + 1) << 3 | step as u64, Ordering::Release);
        wait::wake(Event::SERVED);
        wait::until(Event::SERVED, || self.done.load(Ordering::Acquire) == self.witnesses);
    }

    /// What a witness does until the end.
    fn witness(&self) {
        for number in 1.. {
            wait::until(Event::SERVED, || self.told.load(Ordering::Acquire) >> 3 >= number);
            let step = Step::ALL[(self.told.load(Ordering::Acquire) & 7) as usize];
            self.look(self.trial.load(Ordering::Relaxed), step);
            self.done.fetch_add(1, Ordering::AcqRel);
            wait::wake(Event::SERVED);
            if step == Step::End {
                return;
            }
        }
    }

    fn look(&self, trial: u64, step: Step) {
        let ([first, second], page) = (contents(trial), trial % PAGES);
        match step {
            Step::Read => count(&self.seen.wrong, probe::read(page) != Some(first)),
            Step::Before => count(&self.seen.stale, probe::read(page) == Some(first)),
            Step::After => {
                let found = probe::read(page);
                count(&self.seen.reached, found.is_some());
                count(&self.seen.leaked, found == Some(second));
            }
            // SAFETY: the frame behind the page is the first CPU's, which waits for this.
            Step::Store => count(&self.seen.stored, unsafe { probe::write(page, second) }),
            Step::End => {}
        }
    }
}

/// What the first CPU does.
struct Prover<'s> {
    stage: &'s Stage,
    space: &'static AddressSpace,
    broken: Break,
    /// Times that the frame of a trial was allocated again.
    reused: AtomicU64,
    /// Entries whose accessed and dirty bits were not what had been done.
    unmarked: AtomicU64,
}

impl Prover<'_> {
    fn trial(&self, trial: u64) {
        let page = trial % PAGES;
        let pfn = self.map(page, contents(trial)[0]);
        self.stage.tell(trial, Step::Read);
        self.touch(page, contents(trial)[0]);
        let mut cpus = self.take(page);
        self.stage.tell(trial, Step::Before);
        if self.broken == Break::Cpu {
            cpus.remove(CpuId::new(self.stage.witnesses as u16));
        }
        let next = if self.broken == Break::Reuse {
            free(pfn);
            let next = self.reuse(pfn, trial);
            self.stage.tell(trial, Step::After);
            self.flush(page, pfn, &cpus, false);
            next
        } else {
            self.flush(page, pfn, &cpus, true);
            let next = self.reuse(pfn, trial);
            self.stage.tell(trial, Step::After);
            next
        };
        free(next);
    }

    /// Nothing was stored to the page when its entry goes; then a witness stores.
    fn clean_store(&self, trial: u64) {
        let page = trial % PAGES;
        let pfn = self.map(page, contents(trial)[0]);
        self.stage.tell(trial, Step::Read);
        let cpus = self.take(page);
        self.stage.tell(trial, Step::Store);
        self.flush(page, pfn, &cpus, true);
    }

    /// Maps a new frame, which the CPU has not accessed.
    fn map(&self, page: u64, value: u64) -> Pfn {
        let Some(pfn) = memory::alloc(PAGE) else {
            refuse(format_args!("there is not enough memory for a page"))
        };
        frames::write(pfn, 0, value);
        let installed =
            self.space.find_or_make(page).map(|slot| slot.install(Entry::page(pfn).writable()));
        assert!(installed == Some(true), "a page was left mapped");
        pfn
    }

    /// Stores to a page, and looks at what the CPU notes of it.
    fn touch(&self, page: u64, value: u64) {
        let noted = |page| {
            let entry = self.space.find(page).expect("the page is mapped").get();
            (entry.is_accessed(), entry.is_dirty())
        };
        let read = noted(page);
        // SAFETY: the frame is this CPU's.
        let stored = unsafe { probe::write(page, value) };
        count(&self.unmarked, read != (true, false) || !stored || noted(page) != (true, true));
    }

    /// Takes an entry away, and has this CPU alone forget it; who may have cached it.
    fn take(&self, page: u64) -> CpuMask {
        self.space.find(page).expect("the page is mapped").take();
        let cpus = self.space.advance();
        control::invalidate_page(paging::address_of(page));
        cpus
    }

    /// Has the library flush, and free the frame.
    fn flush(&self, page: u64, pfn: Pfn, cpus: &CpuMask, retires: bool) {
        let mut slots = [BatchSlot::default(); 4];
        let mut batch = shootdown::flusher().batch(&mut slots);
        batch.add(
            pfn,
            &Translation {
                cpus,
                writable: true,
                // Whatever the setting is: nothing is put off.
                dirty: true,
                space: self.space.number().into(),
                page,
                space_flush: self.space.owed(),
                file_flush: None,
            },
        );
        if retires {
            // SAFETY: the trial owns the frame as a block, and gives it up here.
            let block = with_token(|token| unsafe { token.adopt_unchecked(pfn, Order::ZERO) });
            assert!(batch.retire(block).is_ok());
        }
        batch.finish(&mut |blocks| blocks.for_each(|block| free(block.into_raw().0)));
    }

    /// Allocates the frame of a trial, which comes again at once, and writes to it. Where it is kept
    /// back for a while (`hardening=paranoid`), it is fetched.
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
        let Some(next) = next else { panic!("the frame of a page that was freed is not free") };
        count(&self.reused, next == pfn);
        frames::write(next, 0, contents(trial)[1]);
        next
    }
}

fn free(pfn: Pfn) {
    // SAFETY: allocated as a block of order 0 by `map` or `reuse`, and freed once.
    unsafe { memory::free(pfn, Order::ZERO) };
}

/// Runs it; whether it passed.
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
    shootdown::FORGETS_NOTHING.store(broken == Break::Flush, Ordering::SeqCst);
    cpu::run_on_all(&|cpu| take_part(cpu, &prover, trials));
    shootdown::FORGETS_NOTHING.store(false, Ordering::SeqCst);
    let flushed = memory().tlb().stats();
    space.end();

    let looks = trials * stage.witnesses;
    let interrupts = flushed.interrupts - flushes.interrupts;
    let Seen { wrong, stale, reached, leaked, stored } = &stage.seen;
    let [wrong, stale, reached, leaked, stored, reused, unmarked] =
        [wrong, stale, reached, leaked, stored, &prover.reused, &prover.unmarked]
            .map(|counter| counter.load(Ordering::Relaxed));
    let mut add = |name, value, better| {
        report.add(name, Fixed::whole(value), Unit::Count, better);
    };
    add("trials", trials, Better::Neither);
    add("looks", looks, Better::Neither);
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
                "before the flush {stale} of {looks} looks were stale; {wrong} reads were wrong"
            ),
        },
        Check {
            name: "flushed",
            passed: reached == 0,
            detail: format_args!("after the flush {reached} of {looks} looks reached the page"),
        },
        Check {
            name: "out of reach",
            passed: leaked == 0 && reused > 0,
            detail: format_args!(
                "{reused} frames had a next owner, {leaked} looks saw what he wrote"
            ),
        },
        Check {
            name: "clean stores fault",
            passed: stored == 0,
            detail: format_args!(
                "{stored} stores went through translations that were clean and gone"
            ),
        },
        Check {
            name: "accessed and dirty",
            passed: unmarked == 0,
            detail: format_args!(
                "in {unmarked} of {trials} entries the bits were not what had been done"
            ),
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
        prover.stage.tell(trials, Step::End);
    }
    AddressSpace::unload();
}
