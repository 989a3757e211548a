//! A fake embedder: a machine of one thread, its memory, and programs that use pages.

use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use framewright::{
    AllocError, Config, CpuId, CpuToken, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn,
    Platform, Request, SideTables, ZoneId, ZoneKind,
    observe::{Corruption, Event, NodeStat},
    platform::{BarrierTarget, Need, OwnerLock, Probe, Relief, Wait},
    reclaim::{Lru, PageKind, Pause, Reclaim, Throttle, WriteError},
    sync::{PlainWord, SpinFlag},
    tlb::{BatchSlot, DeferredFlush, Flusher},
    tuning::{Auto, Tuning},
};

use crate::{
    pages::{PageId, Pages, Resident, StoreBehavior},
    toy::leaked,
};

/// The CPU that has TLB entries. CPU 0 does everything else.
pub(crate) const OTHER: u16 = 1;

pub(crate) type Mem = Memory<'static, Embedder>;

/// The activity of others while reclaim pauses.
pub(crate) type Others = fn(&'static Embedder, &Pause<'_>);

/// A platform with relief, page owner and TLB flushes.
pub(crate) struct Embedder {
    memory: OnceLock<&'static Mem>,
    /// The deferred flush of the only address space.
    pub(crate) space_flush: DeferredFlush,
    pages: Mutex<Pages>,
    notes: Mutex<Vec<&'static str>>,
    masked: AtomicU32,
    clock: AtomicU64,
    /// Whether background reclaim was woken.
    pub(crate) woken: AtomicU32,
    background: bool,
    /// Whether `Relief` panics, once, after it has reclaimed.
    pub(crate) fails: AtomicBool,
    /// The answer of `Shootdown::has_local_flush`.
    pub(crate) has_local_flush: AtomicBool,
    /// The activity of the other CPU while it is interrupted, once.
    pub(crate) meanwhile: Mutex<Option<fn(&'static Embedder)>>,
    /// The activity of others while reclaim pauses, once.
    pub(crate) others: Mutex<Option<Others>>,
    /// The reasons for which waiters were woken.
    pub(crate) resumed: Mutex<Vec<Throttle>>,
}

/// A memory of `frames` frames with 64 in reserve, in one zone.
pub(crate) fn memory(frames: u64, tune: impl FnOnce(&mut Tuning)) -> &'static Mem {
    memory_of(&[range(0, frames, ZoneKind::Normal)], true, tune)
}

/// A range of memory on node 0.
pub(crate) fn range(start: u64, frames: u64, zone: ZoneKind) -> MemoryRange {
    let frames = framewright::FrameRange::new(Pfn::new(start), Pfn::new(start + frames)).unwrap();
    MemoryRange { zone, ..frames.into() }
}

pub(crate) fn memory_of(
    map: &[MemoryRange],
    background: bool,
    tune: impl FnOnce(&mut Tuning),
) -> &'static Mem {
    let mut config = Config::new(map, 2).with_side_tables(SideTables::default().with_lru());
    config.tuning.zone.min_free = Auto::Fixed(64);
    tune(&mut config.tuning);
    let embedder = Embedder {
        memory: OnceLock::new(),
        space_flush: DeferredFlush::new(),
        pages: Mutex::default(),
        notes: Mutex::default(),
        masked: AtomicU32::new(0),
        clock: AtomicU64::new(0),
        woken: AtomicU32::new(0),
        background,
        fails: AtomicBool::new(false),
        has_local_flush: AtomicBool::new(true),
        meanwhile: Mutex::default(),
        others: Mutex::default(),
        resumed: Mutex::default(),
    };
    let memory = leaked(embedder, &config);
    assert!(memory.platform().memory.set(memory).is_ok());
    memory
}

pub(crate) const CPU: CpuId = CpuId::new(0);

pub(crate) fn node() -> NodeId {
    NodeId::default()
}

impl Embedder {
    pub(crate) fn memory(&self) -> &'static Mem {
        self.memory.get().expect("the memory is set after construction")
    }

    pub(crate) fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'static, Embedder> {
        // SAFETY: the embedder flushes all translations that it has made.
        unsafe { self.memory().flusher(cpu, self) }
    }

    pub(crate) fn reclaim(&'static self) -> Reclaim<'static, 'static, Embedder> {
        // SAFETY: the pages of the embedder are in frames of this memory, and it flushes all
        // translations to them.
        unsafe { Reclaim::new(self.memory(), self, self) }.expect("the memory has lists")
    }

    pub(crate) fn lru(&self) -> Lru<'static, 'static, Embedder> {
        self.memory().lru().expect("the memory has lists")
    }

    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }

    pub(crate) fn note(&self, what: &'static str) {
        self.notes.lock().unwrap().push(what);
    }

    /// The events since the last call.
    pub(crate) fn take_notes(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }

    pub(crate) fn assert_no_lock(&self) {
        assert_eq!(self.masked.load(Ordering::Relaxed), 0, "called back under a lock");
    }

    pub(crate) fn token(&self) -> CpuToken<'static, 'static, Embedder> {
        self.memory().cpu(CPU).expect("the CPU is not claimed")
    }

    /// A program uses a page, which is read if it is not resident. Fails if there is no memory.
    pub(crate) fn touch(&self, id: PageId, kind: PageKind) -> Result<Pfn, AllocError> {
        let there = self.pages().place.get(&id).copied();
        let pfn = match there {
            Some(pfn) => pfn,
            None => self.read_in(id, kind)?,
        };
        let mut pages = self.pages();
        let page = pages.page(pfn);
        page.maps = page.maps.max(1);
        page.young = page.young.max(1);
        Ok(pfn)
    }

    fn read_in(&self, id: PageId, kind: PageKind) -> Result<Pfn, AllocError> {
        let request = Request::new(Order::ZERO, MigrateType::Movable);
        let (pfn, _) = self.token().alloc(request)?.into_raw();
        let mut pages = self.pages();
        let version = pages.store.get(&id).copied().unwrap_or(0);
        // An anonymous page that was never written has no stored copy.
        let dirty = kind == PageKind::Anon && !pages.store.contains_key(&id);
        let page = resident(id, kind, version, dirty);
        assert!(pages.resident.insert(pfn, page).is_none(), "the frame is in use");
        assert!(!pages.cached.contains(&pfn), "stale TLB access to an unmapped page (I5)");
        pages.place.insert(id, pfn);
        let shadow = pages.shadows.remove(&id);
        drop(pages);
        let lru = self.lru();
        let refault = shadow.map_or_else(Default::default, |shadow| lru.refault(shadow, kind));
        assert!(lru.add_as(CPU, pfn, kind, refault), "the page is new");
        Ok(pfn)
    }

    /// Adds a page that was never read, in a frame that the program has allocated.
    pub(crate) fn take(&self, pfn: Pfn) {
        let id = PageId::MAX - self.pages().resident.len() as PageId;
        let mut pages = self.pages();
        assert!(pages.resident.insert(pfn, resident(id, PageKind::File, 0, false)).is_none());
        pages.place.insert(id, pfn);
        pages.page(pfn).maps = 1;
        drop(pages);
        assert!(self.lru().add(CPU, pfn, PageKind::File), "the page is new");
    }

    /// A program stores to a page.
    pub(crate) fn store(&self, id: PageId, kind: PageKind) -> Result<(), AllocError> {
        let pfn = self.touch(id, kind)?;
        // Before a page becomes writable, the pending flush is made.
        self.flusher(CPU).flush_deferred(&self.space_flush);
        let mut pages = self.pages();
        let page = pages.page(pfn);
        page.pte_dirty = true;
        page.version += 1;
        let version = page.version;
        pages.truth.insert(id, version);
        Ok(())
    }

    /// The owner of a page truncates it.
    pub(crate) fn truncate(&self, id: PageId) {
        let Some(pfn) = self.pages().place.get(&id).copied() else { return };
        let mut pages = self.pages();
        if pages.page(pfn).writeback {
            return;
        }
        pages.resident.remove(&pfn);
        pages.forget(id);
        drop(pages);
        self.flusher(CPU).flush_deferred(&self.space_flush);
        assert!(self.lru().remove(pfn), "the page is not isolated");
        // SAFETY: the page was added as a block of order 0, and nothing refers to it any more.
        unsafe { self.token().free_raw(pfn, Order::ZERO).expect("the frame was allocated") };
    }

    /// The store completes up to `count` writes.
    pub(crate) fn complete(&'static self, count: usize) {
        for _ in 0..count {
            let Some((pfn, id, version, succeeds)) = self.pages().writes.pop_front() else {
                return;
            };
            let result = {
                let mut pages = self.pages();
                if succeeds {
                    pages.store.insert(id, version);
                }
                let page = pages.page(pfn);
                page.writeback = false;
                page.dirty |= !succeeds;
                if succeeds { Ok(()) } else { Err(WriteError::Io) }
            };
            self.reclaim().written(CPU, pfn, result);
        }
    }

    /// Direct reclaim on CPU 0.
    pub(crate) fn direct(&'static self, frames: u64) -> u64 {
        self.direct_on(CPU, frames)
    }

    /// Direct reclaim on this CPU.
    pub(crate) fn direct_on(&'static self, cpu: CpuId, frames: u64) -> u64 {
        let request = Request::new(Order::ZERO, MigrateType::Movable);
        self.reclaim().direct(&Need { request, cpu, node: node(), unmixed: false }, frames)
    }

    pub(crate) fn set_behavior(&self, behavior: StoreBehavior) {
        self.pages().behavior = behavior;
    }

    /// Checks all invariants that hold while no operation is in progress.
    pub(crate) fn check(&self) {
        let memory = self.memory();
        self.pages().check();
        memory.check().unwrap();
        self.lru().check().unwrap();
        let resident = self.pages().resident.len() as u64;
        let used = memory.managed() - memory.free() - memory.held_by_cpus();
        assert_eq!(used, resident + memory.tlb().deferred(), "every frame is in one place (I1)");
    }

    /// Frees all deferred frames.
    pub(crate) fn drain_deferred(&self) {
        let mut token = self.token();
        self.flusher(CPU).drain_deferred(&mut |blocks| {
            blocks.for_each(|block| token.free(block).unwrap());
        });
        let mut slots = [BatchSlot::default(); 1];
        self.flusher(CPU).batch(&mut slots).finish(&mut |_| ());
    }
}

// SAFETY: `SpinFlag` excludes; there is one thread, which needs no barriers.
unsafe impl Platform for Embedder {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = u32;

    const TRACING: bool = true;

    fn irq_save(&self) -> u32 {
        self.masked.fetch_add(1, Ordering::Relaxed)
    }
    fn irq_restore(&self, irq: u32) {
        self.masked.store(irq, Ordering::Relaxed);
    }
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }
    fn remote_barrier(&self, _: BarrierTarget) {
        self.assert_no_lock();
    }
    fn wait(&self, why: Wait, spins: u32) {
        self.assert_no_lock();
        assert!(why == Wait::Memory && spins < 1000, "waits as_static: {why:?}");
    }
    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        self.clock.fetch_add(1000, Ordering::Relaxed)
    }
    fn relief(&self) -> &dyn Relief {
        self
    }
    fn trace(&self, _: CpuId, event: &Event) {
        if let Event::TlbFlush { .. } = event {
            // Traced in an interrupt handler, where interrupts are masked.
            return;
        }
        self.assert_no_lock();
        if let Event::PageFree { pfn, .. } = event {
            let pages = self.pages();
            assert!(!pages.cached.contains(pfn), "{pfn} is freed while a CPU has it cached (I5)");
            assert!(!pages.resident.contains_key(pfn), "{pfn} is freed while a page is in it");
        }
    }
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl Probe for Embedder {}

impl Embedder {
    /// The embedder with a static lifetime: its memory is leaked.
    pub(crate) fn as_static(&self) -> &'static Embedder {
        self.memory().platform()
    }
}

impl Relief for Embedder {
    fn reclaims_in_background(&self) -> bool {
        self.background
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        if self.memory.get().is_some() && self.as_static().reclaim().wake(node, order, highest) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.assert_no_lock();
        let freed = self.as_static().reclaim().direct(need, frames);
        assert!(!self.fails.swap(false, Ordering::Relaxed), "relief fails");
        freed
    }

    fn pause(&self, pause: &Pause<'_>) {
        self.assert_no_lock();
        self.note(pause.why().name());
        let others = self.others.lock().unwrap().take();
        if let Some(act) = others {
            act(self.as_static(), pause);
        }
    }

    fn resume(&self, _: NodeId, why: Throttle) {
        self.assert_no_lock();
        self.resumed.lock().unwrap().push(why);
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        Some(self.as_static().reclaim().reclaimable(zone))
    }
}

/// A page that is not mapped yet.
fn resident(id: PageId, kind: PageKind, version: u64, dirty: bool) -> Resident {
    Resident {
        id,
        kind,
        version,
        maps: 0,
        young: 0,
        pte_dirty: false,
        dirty,
        writeback: false,
        locked: false,
        unevictable: false,
        pinned: false,
        executable: false,
        references: 0,
    }
}

/// An embedder with `pages` resident pages, each used once.
pub(crate) fn filled(pages: u32, kind: PageKind) -> &'static Embedder {
    let embedder = memory(2048, |_| ()).platform();
    for id in 0..pages {
        embedder.touch(id, kind).unwrap();
    }
    embedder.lru().drain_all();
    embedder
}

/// The value of a counter, summed over all nodes.
pub(crate) fn stat(embedder: &Embedder, stat: NodeStat) -> u64 {
    embedder.lru().stats().get(stat)
}

/// Clears the uses of all pages.
pub(crate) fn clear_young(embedder: &Embedder) {
    embedder.pages().resident.values_mut().for_each(|page| page.young = 0);
}
