//! [`FakePlatform`]: a platform without hardware.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
};

use framewright::{
    CpuId, Order, Pfn, Platform,
    global::Pinning,
    observe::{Corruption, Event},
    platform::{
        Access, BarrierTarget, Cost, Line, Miss, NoRelief, OwnerLock, Probe, Relief, Section, Site,
        Wait, poison_word,
    },
};

use crate::{
    contention::{Contention, Locks},
    hooks::{Hooks, ProbeCall, set},
    words::{Lock, Word},
};

/// Calls of `wait` in one loop after which a single thread counts as deadlocked.
const WAITS: u32 = 1000;

thread_local! {
    /// The depth of nested calls by which this thread has masked interrupts.
    static MASKED: Cell<u32> = const { Cell::new(0) };
}

/// A platform whose CPUs are the threads that use it. Often a single thread acts for all CPUs in
/// turn.
///
/// The contents of a frame are one number. The clock advances only if a test advances it. The platform
/// asserts two promises of the library: no callback runs under a lock of the library (except `wait`,
/// interrupt functions and `Probe`), and no loop waits for ever.
///
/// With `TRACED` the platform traces ([`on_trace`](FakePlatform::on_trace)); with `PROBED` it has the hooks of a
/// simulator ([`on_probe`](FakePlatform::on_probe), [`on_force`](FakePlatform::on_force)). Without them, the library runs
/// the code that a kernel without tracing runs.
///
/// A hook is set once, before the memory is created, or later through
/// [`Memory::platform`](framewright::Memory::platform). Setting it a second time panics. The default is for a single
/// thread, with [`OwnerLock::Biased`].
pub struct FakePlatform<const TRACED: bool = false, const PROBED: bool = false> {
    owner_lock: OwnerLock,
    /// Whether several threads use the platform.
    is_threaded: bool,
    /// The only thread that may use the lists of CPUs, if owners are biased without a barrier, and
    /// that may pin itself.
    thread: OnceLock<ThreadId>,
    /// The contents of frames; 0 if absent.
    contents: Mutex<HashMap<Pfn, u64>>,
    cleared: Mutex<Vec<(Pfn, Order)>>,
    reports: Mutex<Vec<Corruption>>,
    keeps_reports: AtomicBool,
    /// The clock, in nanoseconds.
    time: AtomicU64,
    /// Nanoseconds that pass with each reading of the clock.
    tick: AtomicU64,
    relief: OnceLock<&'static (dyn Relief + Sync)>,
    pub(crate) locks: Locks,
    pub(crate) hooks: Hooks,
}

/// A platform that traces: the result of [`FakePlatform::traced`].
pub type TracedPlatform = FakePlatform<true>;

/// A platform with the hooks of a simulator: the result of [`FakePlatform::probed`].
pub type ProbedPlatform = FakePlatform<false, true>;

impl Default for FakePlatform {
    fn default() -> Self {
        Self::new(OwnerLock::default())
    }
}

impl FakePlatform {
    /// A platform for a single thread that acts for all CPUs. It panics if a loop waits more than 1000 times. With
    /// [`OwnerLock::Biased`] it also panics if a second thread uses the lists of a CPU, because no barrier reaches
    /// another thread.
    #[must_use]
    pub fn new(owner_lock: OwnerLock) -> Self {
        Self {
            owner_lock,
            is_threaded: false,
            thread: OnceLock::new(),
            contents: Mutex::default(),
            cleared: Mutex::default(),
            reports: Mutex::default(),
            keeps_reports: AtomicBool::new(false),
            time: AtomicU64::new(0),
            tick: AtomicU64::new(0),
            relief: OnceLock::new(),
            locks: Locks::default(),
            hooks: Hooks::default(),
        }
    }

    /// A platform for any number of threads, with [`OwnerLock::Trylock`]. It yields the thread in each waiting loop.
    #[must_use]
    pub fn threaded() -> Self {
        Self { is_threaded: true, ..Self::new(OwnerLock::Trylock) }
    }
}

impl<const TRACED: bool, const PROBED: bool> FakePlatform<TRACED, PROBED> {
    /// The same platform, which traces.
    #[must_use]
    pub fn traced(self) -> FakePlatform<true, PROBED> {
        self.into_type()
    }

    /// The same platform, with the hooks of a simulator.
    #[must_use]
    pub fn probed(self) -> FakePlatform<TRACED, true> {
        self.into_type()
    }

    fn into_type<const T: bool, const P: bool>(self) -> FakePlatform<T, P> {
        FakePlatform {
            owner_lock: self.owner_lock,
            is_threaded: self.is_threaded,
            thread: self.thread,
            contents: self.contents,
            cleared: self.cleared,
            reports: self.reports,
            keeps_reports: self.keeps_reports,
            time: self.time,
            tick: self.tick,
            relief: self.relief,
            locks: self.locks,
            hooks: self.hooks,
        }
    }

    /// Stores reports of corruption for [`FakePlatform::take_reports`]. Otherwise a report panics, or is passed to the
    /// hook of [`FakePlatform::on_corruption`].
    #[must_use]
    pub fn keeping_reports(self) -> Self {
        self.keeps_reports.store(true, Relaxed);
        self
    }

    /// The reports of corruption since the last call.
    pub fn take_reports(&self) -> Vec<Corruption> {
        std::mem::take(&mut self.reports.lock().unwrap())
    }

    /// The blocks that were cleared since the last call.
    pub fn take_cleared(&self) -> Vec<(Pfn, Order)> {
        std::mem::take(&mut self.cleared.lock().unwrap())
    }

    /// Sets the contents of all frames of a block, in use or free.
    pub fn write(&self, pfn: Pfn, order: Order, value: u64) {
        self.fill(pfn, order, |_| value);
    }

    /// The contents of a frame; 0 if nothing was written.
    pub fn read(&self, pfn: Pfn) -> u64 {
        self.contents.lock().unwrap().get(&pfn).copied().unwrap_or(0)
    }

    /// Advances the clock.
    pub fn advance(&self, nanos: u64) {
        self.time.fetch_add(nanos, Relaxed);
    }

    /// From now on, each reading of the clock advances it by `nanos` nanoseconds.
    pub fn set_tick(&self, nanos: u64) {
        self.tick.store(nanos, Relaxed);
    }

    /// Makes locks appear to be held by another CPU. Locks are still acquired at once.
    pub fn set_contention(&self, contention: Contention) {
        self.locks.set_contention(contention);
    }

    /// Sets the relief, once. It lives as long as the process. Without it there is none.
    pub fn set_relief(&self, relief: impl Relief + Sync + 'static) {
        set(&self.relief, Box::leak(Box::new(relief)));
    }

    /// Asserts that this thread holds no lock of the library: no callback may run under one.
    ///
    /// # Panics
    ///
    /// If the thread holds a lock.
    pub fn assert_no_lock(&self) {
        assert_eq!(MASKED.get(), 0, "the library called back while it held a lock");
    }

    /// Asserts that only one thread uses biased owners, unless there is a barrier that reaches other threads.
    pub(crate) fn check_thread(&self) {
        if self.owner_lock == OwnerLock::Biased && self.hooks.barrier.get().is_none() {
            self.assert_one_thread();
        }
    }

    /// Asserts that the first thread that called this is the only one.
    fn assert_one_thread(&self) {
        let this = thread::current().id();
        assert_eq!(*self.thread.get_or_init(|| this), this, "a second thread uses the platform");
    }

    fn fill(&self, pfn: Pfn, order: Order, value: impl Fn(Pfn) -> u64) {
        let frames = (0..order.frames()).map(|i| pfn.offset(i));
        self.contents.lock().unwrap().extend(frames.map(|pfn| (pfn, value(pfn))));
    }

    fn probe(&self, call: ProbeCall) {
        if let Some(hook) = self.hooks.probe.get() {
            hook(call);
        }
    }
}

// SAFETY: lock and words are the library's own. With biased owners, either a single thread uses the words, so that no
// barrier is needed, or the barrier is a hook that reaches all threads, as its setter has promised.
unsafe impl<const TRACED: bool, const PROBED: bool> Platform for FakePlatform<TRACED, PROBED> {
    type Lock = Lock;
    type Word = Word;
    type Irq = u32;

    const TRACING: bool = TRACED;

    fn irq_save(&self) -> u32 {
        MASKED.replace(MASKED.get() + 1)
    }

    fn irq_restore(&self, irq: u32) {
        MASKED.set(irq);
        if let Some(hook) = self.hooks.irq_restore.get() {
            hook();
        }
    }

    fn owner_lock(&self) -> OwnerLock {
        self.owner_lock
    }

    fn remote_barrier(&self, target: BarrierTarget) {
        self.assert_no_lock();
        assert_eq!(self.owner_lock, OwnerLock::Biased, "a barrier for try-lock owners");
        if let Some(hook) = self.hooks.barrier.get() {
            hook(target);
        }
    }

    fn wait(&self, why: Wait, spins: u32) {
        assert!(self.is_threaded || spins < WAITS, "waits for ever: {why:?}");
        match self.hooks.wait.get() {
            Some(hook) => hook(why, spins),
            None if self.is_threaded => thread::yield_now(),
            None => {}
        }
    }

    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        self.assert_no_lock();
        if let Some(hook) = self.hooks.clear.get() {
            hook(pfn, order);
        }
        self.cleared.lock().unwrap().push((pfn, order));
        self.write(pfn, order, 0);
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        self.assert_no_lock();
        let value = self.read(from);
        self.write(to, Order::ZERO, value);
    }

    unsafe fn poison(&self, pfn: Pfn, order: Order) {
        self.assert_no_lock();
        self.fill(pfn, order, poison_word);
    }

    unsafe fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        self.assert_no_lock();
        (self.contents.lock().unwrap().get(&pfn) != Some(&poison_word(pfn))).then_some(0)
    }

    fn now(&self) -> u64 {
        self.time.fetch_add(self.tick.load(Relaxed), Relaxed)
    }

    fn relief(&self) -> &dyn Relief {
        match self.relief.get() {
            Some(relief) => *relief,
            None => &NoRelief,
        }
    }

    fn trace(&self, cpu: CpuId, event: &Event) {
        // A flush is traced in an interrupt handler, where interrupts are masked.
        if !matches!(event, Event::TlbFlush { .. }) {
            self.assert_no_lock();
        }
        if let Some(hook) = self.hooks.trace.get() {
            hook(cpu, event);
        }
    }

    fn corruption(&self, report: &Corruption) {
        self.assert_no_lock();
        match self.hooks.corruption.get() {
            Some(hook) => hook(report),
            None if self.keeps_reports.load(Relaxed) => self.reports.lock().unwrap().push(*report),
            None => panic!("{report}"),
        }
    }
}

// SAFETY: only one thread can pin itself; it is CPU 0.
unsafe impl<const TRACED: bool, const PROBED: bool> Pinning for FakePlatform<TRACED, PROBED> {
    type Pin = ();

    /// The only thread that calls this is CPU 0.
    ///
    /// # Panics
    ///
    /// If a second thread calls it.
    fn pin(&self) -> (CpuId, ()) {
        self.assert_one_thread();
        (CpuId::new(0), ())
    }

    fn unpin(&self, (): ()) {}
}

impl<const TRACED: bool, const PROBED: bool> Probe for FakePlatform<TRACED, PROBED> {
    const LISTENING: bool = PROBED;

    fn cost(&self, cost: Cost, count: u32) {
        self.probe(ProbeCall::Cost(cost, count));
    }

    fn touch(&self, line: Line, access: Access, miss: Miss) {
        self.probe(ProbeCall::Touch(line, access, miss));
    }

    fn enter(&self, section: Section) {
        if let Section::Lru(_) = section {
            self.locks.note_lru();
        }
        self.probe(ProbeCall::Enter(section));
    }

    fn leave(&self, section: Section) {
        self.probe(ProbeCall::Leave(section));
    }

    fn point(&self, site: Site) {
        self.probe(ProbeCall::Point(site));
    }

    fn force(&self, site: Site) -> bool {
        self.hooks.force.get().is_some_and(|hook| hook(site))
    }
}
