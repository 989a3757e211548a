//! The machine that the workloads run on: one thread, no memory behind the frames.

#![allow(unsafe_code)]

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
    },
};

use framewright::{
    Order, Pfn, Platform,
    observe::Corruption,
    platform::{BarrierTarget, Cost, OwnerLock, Probe, Section, Wait},
    sync::{PlainWord, RawLock, SpinFlag},
};

/// Allocations or frees, without the holds of the zone lock or only these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Part {
    Alloc = 1,
    Free,
    /// Under the zone lock, in allocations.
    AllocHold,
    /// Under the zone lock, in frees.
    FreeHold,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Alloc, Self::Free, Self::AllocHold, Self::FreeHold];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Alloc => "allocate",
            Self::Free => "free",
            Self::AllocHold => "allocate, locked",
            Self::FreeHold => "free, locked",
        }
    }

    fn under_lock(self) -> Self {
        match self {
            Self::Alloc | Self::AllocHold => Self::AllocHold,
            Self::Free | Self::FreeHold => Self::FreeHold,
        }
    }
}

/// The part that callgrind counts; 0: none.
static WANTED: AtomicU8 = AtomicU8::new(0);
/// The part that runs; 0: none.
static RUNNING: AtomicU8 = AtomicU8::new(0);
static IS_WARM: AtomicBool = AtomicBool::new(false);
static REPORTED: Mutex<BTreeMap<(u8, Cost), u64>> = Mutex::new(BTreeMap::new());

/// Lets callgrind count `part`.
pub(crate) fn want(part: Part) {
    WANTED.store(part as u8, Relaxed);
}

/// Begins the counted rounds.
pub(crate) fn warmed_up() {
    IS_WARM.store(true, Relaxed);
}

/// Runs `work` as `part`, which is counted without the holds of the zone lock.
#[inline(always)]
pub(crate) fn run<R>(part: Part, work: impl FnOnce() -> R) -> R {
    RUNNING.store(if IS_WARM.load(Relaxed) { part as u8 } else { 0 }, Relaxed);
    toggle_if(|wanted, running| wanted == running);
    let result = work();
    toggle_if(|wanted, running| wanted == running);
    RUNNING.store(0, Relaxed);
    result
}

/// Called when the zone lock was acquired and before it is released. Starts or stops counting, if the wanted part is the
/// hold or the code around it.
#[inline(always)]
fn hold() {
    toggle_if(|wanted, running| wanted == running || wanted == running + 2);
}

#[inline(always)]
fn toggle_if(is_border: impl Fn(u8, u8) -> bool) {
    let (wanted, running) = (WANTED.load(Relaxed), RUNNING.load(Relaxed));
    if running != 0 && wanted != 0 && is_border(wanted, running) {
        toggle();
    }
}

/// Begins or ends the counting of callgrind: its client request TOGGLE_COLLECT, as `valgrind.h` documents it. Without
/// valgrind it does nothing.
#[inline(always)]
fn toggle() {
    #[cfg(target_arch = "x86_64")]
    {
        static REQUEST: [usize; 6] =
            [((b'C' as usize) << 24) + ((b'T' as usize) << 16) + 2, 0, 0, 0, 0, 0];
        // SAFETY: natively these instructions rotate `rdi` by 128 bits in all, and exchange `rbx` with itself. Valgrind
        // reads the request behind `rax`, which is static, and writes only `rdx`.
        unsafe {
            core::arch::asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                in("rax") REQUEST.as_ptr(), inout("rdx") 0_usize => _, inout("rdi") 0_usize => _,
                options(nostack),
            );
        }
    }
}

/// Takes what the library has reported, by part.
pub(crate) fn take_reported() -> BTreeMap<Part, Vec<(Cost, u64)>> {
    let mut all = REPORTED.lock().expect("no report panics");
    let mut by_part: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for ((part, cost), units) in std::mem::take(&mut *all) {
        let part = Part::ALL.into_iter().find(|&one| one as u8 == part).expect("a part");
        by_part.entry(part).or_default().push((cost, units));
    }
    IS_WARM.store(false, Relaxed);
    by_part
}

/// The lock word. Counting changes at its borders.
pub(crate) struct Lock(SpinFlag);

// SAFETY: it is the library's own lock.
unsafe impl<const LISTENING: bool> RawLock<Machine<LISTENING>> for Lock {
    fn new() -> Self {
        Self(<SpinFlag as RawLock<Machine<LISTENING>>>::new())
    }

    #[inline(always)]
    fn lock(&self, platform: &Machine<LISTENING>) {
        self.0.lock(platform);
        if !LISTENING {
            hold();
        }
    }

    #[inline(always)]
    unsafe fn unlock(&self, platform: &Machine<LISTENING>) {
        if !LISTENING {
            hold();
        }
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock(platform) };
    }
}

/// A machine of one thread, which sums the reported work if it listens.
pub(crate) struct Machine<const LISTENING: bool>;

// SAFETY: the lock is the library's, and there is only one thread.
unsafe impl<const LISTENING: bool> Platform for Machine<LISTENING> {
    type Lock = Lock;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, _: Wait, _: u32) {
        std::hint::spin_loop();
    }
    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        0
    }
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl<const LISTENING: bool> Probe for Machine<LISTENING> {
    const LISTENING: bool = LISTENING;

    #[inline(always)]
    fn cost(&self, cost: Cost, count: u32) {
        let running = RUNNING.load(Relaxed);
        if LISTENING && running != 0 {
            let mut reported = REPORTED.lock().expect("no report panics");
            *reported.entry((running, cost)).or_default() += u64::from(count);
        }
    }

    #[inline(always)]
    fn enter(&self, section: Section) {
        if LISTENING && matches!(section, Section::Zone(_)) {
            move_to(Part::under_lock);
        }
    }

    #[inline(always)]
    fn leave(&self, section: Section) {
        if LISTENING && matches!(section, Section::Zone(_)) {
            move_to(|part| if part == Part::AllocHold { Part::Alloc } else { Part::Free });
        }
    }
}

/// Changes the part that runs, if any does.
fn move_to(next: impl Fn(Part) -> Part) {
    let running = RUNNING.load(Relaxed);
    if let Some(part) = Part::ALL.into_iter().find(|&part| part as u8 == running) {
        RUNNING.store(next(part) as u8, Relaxed);
    }
}
