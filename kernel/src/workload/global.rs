//! `global`: one allocator in a static for the whole kernel, [`Global`], over a part of the machine's memory.
//!
//! Every CPU allocates, writes, verifies and frees bursts of frames, while the handler of its timer
//! allocates and frees frames of the same static. With `icount`, the workload also counts the
//! instructions of an allocation plus a free: through the token of the first CPU, through the
//! static, and through the static with interrupts masked around each call.

#![allow(unsafe_code)]

use core::{
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use framewright::{
    Block, Config, Contiguous, CpuId, Global, MigrateType, Order, Pfn, Platform, Request, Tuning,
    global::Pinning,
};

use super::{
    Options,
    alloc_micro::{PAIRS, repeated, use_up},
    verdict::Before,
};
use crate::{
    apic,
    cpu::{self, Cpu, MAX_CPUS},
    exit::refuse,
    frames, memory,
    platform::Machine,
    report::{Better, Check, Fixed, Report, Unit},
    wait,
};

static GLOBAL: Global<Machine, MAX_CPUS> = Global::new();

/// Frames of the static: 64 MiB.
const FRAMES: u64 = 1 << 14;
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
/// Frames of a burst.
const BURST: usize = 64;
/// Frames that the timer handlers of a CPU keep; a later handler frees them.
const KEPT: usize = 8;

/// The frames and counts of the handlers of a CPU.
struct Handler {
    runs: AtomicBool,
    /// Whether the code that may be interrupted is allocating or freeing.
    in_call: AtomicBool,
    kept: [AtomicU64; KEPT],
    calls: AtomicU64,
    interrupted_calls: AtomicU64,
}

static HANDLERS: [Handler; MAX_CPUS] = [const {
    Handler {
        runs: AtomicBool::new(false),
        in_call: AtomicBool::new(false),
        kept: [const { AtomicU64::new(0) }; KEPT],
        calls: AtomicU64::new(0),
        interrupted_calls: AtomicU64::new(0),
    }
}; MAX_CPUS];

/// The number of frames with a wrong word, and of failed requests and frees.
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["interrupts"]);
    let interrupts = options.number("interrupts", 200);
    // Timer handlers allocate here. A CPU that waits for a lock with interrupts masked normally
    // takes interrupts while it waits. A handler would then wait for the lock that the interrupted
    // code is about to get.
    wait::stay_masked();
    initialise(report, options.counts_instructions());
    let before = Before::now();
    let Ok(memory) = GLOBAL.memory() else { refuse(format_args!("the static is not initialised")) };
    let free = memory.free() + memory.held_by_cpus();
    apic::divide_period(if options.counts_instructions() { 40 } else { 4 });
    cpu::run_on_all(&|cpu| work(cpu, interrupts));
    let sum = |of: fn(&Handler) -> &AtomicU64| {
        Fixed::whole(HANDLERS.iter().map(|handler| of(handler).load(Ordering::Relaxed)).sum())
    };
    report.add("handlers", sum(|all| &all.calls), Unit::Count, Better::Neither);
    let interrupted = sum(|all| &all.interrupted_calls);
    report.add("interrupted_calls", interrupted, Unit::Count, Better::Neither);
    memory.drain_all();
    let wrong = WRONG.load(Ordering::Relaxed);
    let left = memory.free();
    let contents = Check {
        name: "contents",
        passed: wrong == 0,
        detail: format_args!("{wrong} frames or calls were wrong"),
    };
    let balance = Check {
        name: "global_balance",
        passed: left == free && memory.check().is_ok(),
        detail: format_args!("{left} of {free} frames of the static are free again"),
    };
    before.conclude("global", report, &[contents, balance])
}

/// Takes 64 MiB from the kernel's main allocator for good, and initialises the static with them. If
/// `counts`, counts instructions here: the token of the first CPU can be claimed for the comparison
/// only before the static claims it.
fn initialise(report: &mut Report, counts: bool) {
    let early = GLOBAL.alloc(PAGE).is_err();
    let wanted = Contiguous::new(FRAMES, MigrateType::Unmovable).aligned(Order::PAGEBLOCK);
    let Ok(extent) = memory::memory().alloc_contiguous(&wanted) else {
        refuse(format_args!("there is not enough memory for the static: 64 MiB"))
    };
    let map = [extent.into_raw().into()];
    let config = Config::new(&map, cpu::online() as u16).with_tuning(Tuning::default());
    if let Err(error) = GLOBAL.init_in_map(Machine, &config) {
        refuse(format_args!("the static cannot be initialised: {error}"))
    }
    let twice = GLOBAL.init_in_map(Machine, &config).is_err();
    assert!(
        early && twice,
        "the static must refuse calls before its initialisation, and a second initialisation"
    );
    if counts {
        count(report);
    }
}

/// Counts pairs. A block passes through memory between the two calls, as most blocks do, so the compiler knows nothing
/// about the block at its free.
fn count(report: &mut Report) {
    let Some(by_token) = pairs_by_token() else {
        refuse(format_args!("the token of the first CPU is claimed already"))
    };
    let by_global = pairs(|| {
        let Ok(block) = GLOBAL.alloc(PAGE) else { failed() };
        let Ok(()) = GLOBAL.free(black_box(block)) else { failed() };
    });
    let masked = pairs(|| {
        let Ok(block) = masked(|| GLOBAL.alloc(PAGE)) else { failed() };
        let Ok(()) = masked(|| GLOBAL.free(black_box(block))) else { failed() };
    });
    let pinning = pairs(|| {
        find_slot();
        find_slot();
    });
    let mut add = |name, count| {
        report.add(name, Fixed::ratio(count, PAIRS), Unit::Ratio, Better::Lower);
    };
    add("instructions_pair_by_token", by_token);
    add("instructions_pair_by_global", by_global);
    add("instructions_pair_by_global_masked", masked);
    add("instructions_pinning_per_pair", pinning);
    let over = by_global.saturating_sub(by_token).saturating_sub(pinning);
    add("instructions_global_over_token_per_call", over / 2);
}

/// Instructions of [`PAIRS`] pairs; the lists are warm.
#[inline(always)]
fn pairs(mut pair: impl FnMut()) -> u64 {
    // One loop, so that the pair is inlined into it.
    let counted = (0..2).map(|_| repeated(&mut pair)).last().unwrap_or(0);
    // The instructions of an empty loop are subtracted.
    counted.saturating_sub(repeated(|| use_up(0)))
}

fn pairs_by_token() -> Option<u64> {
    let mut token = GLOBAL.memory().ok()?.cpu(CpuId::new(0)).ok()?;
    Some(pairs(|| {
        let Ok(block) = token.alloc(PAGE) else { failed() };
        let Ok(()) = token.free(black_box(block)) else { failed() };
    }))
}

#[cold]
#[inline(never)]
fn failed() -> ! {
    refuse(format_args!("a pair of allocation and free failed"))
}

#[inline(always)]
fn masked<R>(call: impl FnOnce() -> R) -> R {
    let irq = Machine.irq_save();
    let result = call();
    Machine.irq_restore(irq);
    result
}

/// The work of pinning: it finds the number of the CPU, and its element of a table.
#[inline(always)]
fn find_slot() {
    #[repr(C, align(128))]
    struct Element(AtomicU64);
    static TABLE: [Element; MAX_CPUS] = [const { Element(AtomicU64::new(0)) }; MAX_CPUS];
    if let Some(element) = TABLE.get(Machine.pin().0.index()) {
        use_up(&raw const element.0 as u64);
    }
}

/// The work of one CPU: bursts, until its timer has interrupted enough calls.
fn work(cpu: &Cpu, interrupts: u64) {
    let handler = &HANDLERS[cpu.id.index()];
    apic::start_timer();
    handler.runs.store(true, Ordering::Relaxed);
    while handler.interrupted_calls.load(Ordering::Relaxed) < interrupts {
        burst(handler);
    }
    handler.runs.store(false, Ordering::Relaxed);
    // The first pass frees the kept frames, but fills the empty slots. The second pass frees the
    // frames in these.
    handler.kept.iter().for_each(exchange);
    let kept = handler.kept.iter().filter(|kept| kept.load(Ordering::Relaxed) != 0);
    kept.for_each(exchange);
}

/// Allocates, writes, verifies and frees some frames.
fn burst(handler: &Handler) {
    let in_call = |now| handler.in_call.store(now, Ordering::Relaxed);
    let blocks = [(); BURST].map(|()| {
        in_call(true);
        let block = GLOBAL.alloc(PAGE.no_wait());
        in_call(false);
        if let Ok(block) = &block {
            frames::write(block.pfn(), 0, block.pfn().address());
        }
        block
    });
    for block in blocks {
        let right = block.as_ref().is_ok_and(has_own_word);
        in_call(true);
        let freed = block.is_ok_and(|block| GLOBAL.free(block).is_ok());
        in_call(false);
        WRONG.fetch_add(u64::from(!right || !freed), Ordering::Relaxed);
    }
}

/// Whether the first word of a frame is the one that its owner has written.
fn has_own_word(block: &Block<'_>) -> bool {
    frames::read(block.pfn(), 0) == block.pfn().address()
}

/// Called by the handler of the timer.
pub(crate) fn tick(cpu: &Cpu) {
    let handler = &HANDLERS[cpu.id.index()];
    if !handler.runs.load(Ordering::Relaxed) {
        return;
    }
    let calls = handler.calls.fetch_add(1, Ordering::Relaxed);
    if handler.in_call.load(Ordering::Relaxed) {
        handler.interrupted_calls.fetch_add(1, Ordering::Relaxed);
    }
    exchange(&handler.kept[calls as usize % KEPT]);
}

/// Frees the frame that was kept, or allocates one.
fn exchange(kept: &AtomicU64) {
    let fine = match kept.load(Ordering::Relaxed) {
        0 => match GLOBAL.alloc(PAGE.zeroed().atomic()) {
            Ok(block) => {
                let clean = frames::words(block.pfn()).all(|word| word == 0);
                let pfn = block.into_raw().0;
                frames::write(pfn, 1, pfn.address());
                kept.store(pfn.get(), Ordering::Relaxed);
                clean
            }
            Err(_) => false,
        },
        number => {
            kept.store(0, Ordering::Relaxed);
            let pfn = Pfn::new(number);
            let right = frames::read(pfn, 1) == pfn.address();
            // SAFETY: a handler of this CPU has allocated the frame, and has kept it until now.
            right && unsafe { GLOBAL.free_raw(pfn, Order::ZERO) }.is_ok()
        }
    };
    WRONG.fetch_add(u64::from(!fine), Ordering::Relaxed);
}
