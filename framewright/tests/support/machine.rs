//! A machine of one thread, which plays all CPUs in turn.

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

/// Nothing runs beside this thread, so whoever waits waits for ever.
const SPINS_MAX: u32 = 1000;

/// See the module.
#[derive(Default)]
pub struct Machine {
    pub owner_lock: OwnerLock,
    reports: Mutex<Vec<Corruption>>,
    cleared: Mutex<Vec<(Pfn, Order)>>,
    /// What was written into each frame last.
    contents: Mutex<HashMap<Pfn, u64>>,
    masked: AtomicU32,
    /// Nanoseconds.
    time: AtomicU64,
    /// Which locks whoever asks is told to be held.
    pub contention: Mutex<Contention>,
    /// The lock that was taken last.
    taken: AtomicUsize,
    /// Locks of LRU lists.
    of_lru: Mutex<HashSet<usize>>,
    /// Who reclaims and compacts, if anybody does.
    pub relief: OnceLock<&'static (dyn Relief + Sync)>,
    /// What others do while somebody waits.
    pub others: OnceLock<&'static (dyn Fn(Wait) + Sync)>,
}

impl Machine {
    pub fn new(owner_lock: OwnerLock) -> Self {
        Self { owner_lock, ..Self::default() }
    }

    /// What hardening has reported since the last call.
    pub fn take_reports(&self) -> Vec<Corruption> {
        std::mem::take(&mut self.reports.lock().unwrap())
    }

    /// What was cleared since the last call.
    pub fn take_cleared(&self) -> Vec<(Pfn, Order)> {
        std::mem::take(&mut self.cleared.lock().unwrap())
    }

    /// Writes into all frames of a block, whoever owns them.
    pub fn write(&self, pfn: Pfn, order: Order, value: u64) {
        self.fill(pfn, order, |_| value);
    }

    /// Lets time pass.
    pub fn advance(&self, nanos: u64) {
        self.time.fetch_add(nanos, Ordering::Relaxed);
    }

    /// What was written into a frame last; 0 if nothing was.
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

/// Where others are said to be at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Contention {
    #[default]
    NoLock,
    LruLocks,
    AllLocks,
}

/// A lock of which the machine says whether it is held.
pub struct Lock(SpinFlag);

impl Lock {
    /// Which it is.
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

// SAFETY: it is the library's own.
unsafe impl RawLock<Machine> for Lock {
    fn new() -> Self {
        Self(<SpinFlag as RawLock<Machine>>::new())
    }

    fn lock(&self, machine: &Machine) {
        self.0.lock(machine);
        machine.taken.store(self.number(), Ordering::Relaxed);
    }

    unsafe fn unlock(&self, machine: &Machine) {
        // SAFETY: as the caller promises.
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

    fn clear(&self, pfn: Pfn, order: Order) {
        self.assert_no_lock();
        self.cleared.lock().unwrap().push((pfn, order));
        self.write(pfn, order, 0);
    }

    fn poison(&self, pfn: Pfn, order: Order) {
        self.assert_no_lock();
        self.fill(pfn, order, poison_word);
    }

    fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        self.assert_no_lock();
        (self.contents.lock().unwrap().get(&pfn) != Some(&poison_word(pfn))).then_some(0)
    }

    fn copy(&self, to: Pfn, from: Pfn) {
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
    /// At least `bytes` bytes of rubbish.
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
