//! A machine of one thread, which acts for all CPUs in turn.

use std::{
    collections::{HashMap, HashSet},
    mem::MaybeUninit,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use framewright::{
    Block, CpuId, Order, Pfn, Platform,
    observe::Corruption,
    platform::{BarrierTarget, NoRelief, OwnerLock, Probe, Relief, Section, Wait, poison_word},
    sync::{PlainWord, RawLock, SpinFlag},
};

/// Iterations after which a waiting loop panics. No other thread runs, so such a loop would never
/// end.
const SPINS_MAX: u32 = 1000;

/// A platform for tests. It records the contents of frames, cleared blocks and reports.
#[derive(Default)]
pub struct Machine {
    pub owner_lock: OwnerLock,
    reports: Mutex<Vec<Corruption>>,
    cleared: Mutex<Vec<(Pfn, Order)>>,
    /// The last value written to each frame.
    contents: Mutex<HashMap<Pfn, u64>>,
    masked: AtomicU32,
    /// The clock, in nanoseconds.
    time: AtomicU64,
    /// The locks that report that they are held.
    pub contention: Mutex<Contention>,
    /// The lock that was taken last.
    taken: AtomicUsize,
    /// The numbers of the locks of LRU lists.
    of_lru: Mutex<HashSet<usize>>,
    /// Relief; the default is none.
    pub relief: OnceLock<&'static (dyn Relief + Sync)>,
    /// The activity of other CPUs while this one waits.
    pub others: OnceLock<&'static (dyn Fn(Wait) + Sync)>,
}

impl Machine {
    pub fn new(owner_lock: OwnerLock) -> Self {
        Self { owner_lock, ..Self::default() }
    }

    /// The reports of hardening since the last call.
    pub fn take_reports(&self) -> Vec<Corruption> {
        std::mem::take(&mut self.reports.lock().unwrap())
    }

    /// The blocks that were cleared since the last call.
    pub fn take_cleared(&self) -> Vec<(Pfn, Order)> {
        std::mem::take(&mut self.cleared.lock().unwrap())
    }

    /// Writes to all frames of a block, as a user would, allocated or not.
    pub fn write(&self, pfn: Pfn, order: Order, value: u64) {
        self.fill(pfn, order, |_| value);
    }

    /// Advances the clock.
    pub fn advance(&self, nanos: u64) {
        self.time.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The last value written to a frame; 0 if there is none.
    pub fn read(&self, pfn: Pfn) -> u64 {
        self.contents.lock().unwrap().get(&pfn).copied().unwrap_or(0)
    }

    fn fill(&self, pfn: Pfn, order: Order, value: impl Fn(Pfn) -> u64) {
        let frames = (0..order.frames()).map(|i| pfn.offset(i));
        self.contents.lock().unwrap().extend(frames.map(|pfn| (pfn, value(pfn))));
    }

    fn assert_no_lock(&self) {
        assert_eq!(self.masked.load(Ordering::Relaxed), 0, "called back under a lock");
    }
}

/// The locks that report that they are held, as if other CPUs contended for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Contention {
    #[default]
    NoLock,
    LruLocks,
    AllLocks,
}

/// A lock that reports as held what the machine's [`Contention`] says.
pub struct Lock(SpinFlag);

impl Lock {
    /// The number of the lock.
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

// SAFETY: all operations are those of the library's own lock.
unsafe impl RawLock<Machine> for Lock {
    fn new() -> Self {
        Self(<SpinFlag as RawLock<Machine>>::new())
    }

    fn lock(&self, machine: &Machine) {
        self.0.lock(machine);
        machine.taken.store(self.number(), Ordering::Relaxed);
    }

    unsafe fn unlock(&self, machine: &Machine) {
        // SAFETY: the caller fulfils the contract, which is the same.
        unsafe { self.0.unlock(machine) };
    }

    fn is_held(&self, machine: &Machine) -> bool {
        match *machine.contention.lock().unwrap() {
            Contention::NoLock => false,
            Contention::LruLocks => machine.of_lru.lock().unwrap().contains(&self.number()),
            Contention::AllLocks => true,
        }
    }
}

// SAFETY: the lock is the library's own; with one thread every barrier has run everywhere.
unsafe impl Platform for Machine {
    type Lock = Lock;
    type Word = PlainWord;
    type Irq = u32;

    fn irq_save(&self) -> u32 {
        self.masked.fetch_add(1, Ordering::Relaxed)
    }

    fn irq_restore(&self, irq: u32) {
        self.masked.store(irq, Ordering::Relaxed);
    }

    fn owner_lock(&self) -> OwnerLock {
        self.owner_lock
    }

    fn remote_barrier(&self, _target: BarrierTarget) {
        self.assert_no_lock();
        assert_eq!(self.owner_lock, OwnerLock::Biased, "a barrier that is not needed");
    }

    fn wait(&self, why: Wait, spins: u32) {
        assert!(spins < SPINS_MAX, "waits for ever: {why:?}");
        if let Some(others) = self.others.get() {
            others(why);
        }
    }

    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        self.assert_no_lock();
        self.cleared.lock().unwrap().push((pfn, order));
        self.write(pfn, order, 0);
    }

    unsafe fn poison(&self, pfn: Pfn, order: Order) {
        self.assert_no_lock();
        self.fill(pfn, order, poison_word);
    }

    unsafe fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        self.assert_no_lock();
        (self.contents.lock().unwrap().get(&pfn) != Some(&poison_word(pfn))).then_some(0)
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        self.assert_no_lock();
        let value = self.read(from);
        self.write(to, Order::ZERO, value);
    }

    fn relief(&self) -> &dyn Relief {
        match self.relief.get() {
            Some(relief) => *relief,
            None => &NoRelief,
        }
    }

    fn now(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }

    fn corruption(&self, report: &Corruption) {
        self.assert_no_lock();
        self.reports.lock().unwrap().push(*report);
    }
}

impl Probe for Machine {
    fn enter(&self, section: Section) {
        if let Section::Lru(_) = section {
            self.of_lru.lock().unwrap().insert(self.taken.load(Ordering::Relaxed));
        }
    }
}

/// A buffer for metadata, aligned to a cache line.
pub struct Metadata(Vec<Line>);

#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line([MaybeUninit<u8>; 128]);

impl Metadata {
    /// A buffer of at least `bytes` uninitialised bytes.
    pub fn new(bytes: usize) -> Self {
        Self(vec![Line([MaybeUninit::new(0xa5); 128]); bytes.div_ceil(128)])
    }

    pub fn as_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let bytes = self.0.len() * size_of::<Line>();
        // SAFETY: a `Line` is 128 bytes without padding, any of which may be uninitialised.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) }
    }
}

/// CPU `number`.
pub fn cpu(number: u16) -> CpuId {
    CpuId::new(number)
}

/// Order `number`, which exists.
pub fn order(number: u8) -> Order {
    Order::new(number).expect("an order that exists")
}

/// First frame and order of a block that stays allocated.
pub fn raw(block: &Block<'_>) -> (Pfn, Order) {
    (block.pfn(), block.order())
}
