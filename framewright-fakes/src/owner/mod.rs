//! [`FakeOwner`]: an owner of pages.

mod calls;
mod faulty;
mod pages;

use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use framewright::{
    AllocError, Block, Config, CpuId, CpuToken, Memory, MigrateType, NodeId, Order, Pfn, Request,
    observe::Event,
    platform::{Need, Wait},
    reclaim::{Lru, PageKind, Pause, Reclaim, Throttle, WriteError},
    tlb::{BatchSlot, DeferredFlush, Flusher},
};

use crate::{FailNth, FakePlatform, FakeRelief, TracedPlatform, leaked};

pub use faulty::{FaultyOwner, OwnerFault};
pub use pages::{PageId, Pages, Resident, StoreBehavior};

/// The CPU of the owner.
const CPU: CpuId = CpuId::new(0);

/// The CPU that has TLB entries.
const OTHER: CpuId = CpuId::new(1);

/// The activity of others while reclaim pauses.
pub type Others = fn(&'static FakeOwner, &Pause<'_>);

/// An allocator with the owner of all its pages. For a single thread. The value is the page owner,
/// the [`Relief`](framewright::platform::Relief), and a model of the TLBs.
///
/// CPU 0 acts for programs and reclaim. CPU 1 maps all pages, so that its stale TLB entries have to be flushed. The
/// owner asserts the library's promises about locked, dirty and cached pages, and knows the expected contents of each
/// page: [`FakeOwner::check`] detects lost stores.
///
/// Frames are numbers without memory behind them. So a test that changes [`FakeOwner::pages`] wrongly can only make an
/// assertion fail.
pub struct FakeOwner {
    memory: &'static Memory<'static, TracedPlatform>,
    /// Pending flushes of the only address space.
    pub space_flush: DeferredFlush,
    pages: Mutex<Pages>,
    notes: Mutex<Vec<&'static str>>,
    /// The number of wake-ups of background reclaim.
    pub woken: AtomicU32,
    /// Whether `Relief` panics, once, after it has reclaimed.
    pub fails: AtomicBool,
    /// The answer of `Shootdown::has_local_flush`.
    pub has_local_flush: AtomicBool,
    /// The activity of the other CPU while it is interrupted, once.
    pub meanwhile: Mutex<Option<fn(&FakeOwner)>>,
    /// The activity of others while reclaim pauses, once.
    pub others: Mutex<Option<Others>>,
    /// The reasons for which waiters were woken.
    pub resumed: Mutex<Vec<Throttle>>,
    /// Selects the trace event of a free at which the platform panics.
    pub free_fault: FailNth,
}

impl FakeOwner {
    /// Creates an allocator and its owner, which live as long as the process. `background` is the answer of
    /// `Relief::reclaims_in_background`.
    ///
    /// # Panics
    ///
    /// If the configuration is refused. It needs side tables for LRU lists and two CPUs.
    pub fn new(config: &Config<'_>, background: bool) -> &'static Self {
        let memory = leaked(FakePlatform::default().traced(), config);
        let owner: &'static Self = Box::leak(Box::new(Self {
            memory,
            space_flush: DeferredFlush::new(),
            pages: Mutex::default(),
            notes: Mutex::default(),
            woken: AtomicU32::new(0),
            fails: AtomicBool::new(false),
            has_local_flush: AtomicBool::new(true),
            meanwhile: Mutex::default(),
            others: Mutex::default(),
            resumed: Mutex::default(),
            free_fault: FailNth::new(),
        }));
        let platform = memory.platform();
        platform.set_tick(1000);
        platform.set_relief(owner.relief(background));
        platform.on_wait(|why, _| {
            owner.assert_no_lock();
            assert_eq!(why, Wait::Memory, "a lock is held for ever");
        });
        platform.on_trace(|_, event| owner.check_event(event));
        owner
    }

    fn relief(&'static self, background: bool) -> FakeRelief {
        FakeRelief::new()
            .in_background(move || background)
            .on_wake(|node, order, highest| {
                if self.reclaim().wake(node, order, highest) {
                    self.woken.fetch_add(1, Ordering::Relaxed);
                }
            })
            .on_reclaim(|need, frames| {
                self.assert_no_lock();
                let freed = self.reclaim().direct(need, frames);
                assert!(!self.fails.swap(false, Ordering::Relaxed), "relief fails");
                freed
            })
            .on_pause(|pause| {
                self.assert_no_lock();
                self.note(pause.why().name());
                let others = self.others.lock().unwrap().take();
                if let Some(act) = others {
                    act(self, pause);
                }
            })
            .on_resume(|_, why| {
                self.assert_no_lock();
                self.resumed.lock().unwrap().push(why);
            })
            .on_reclaimable(|zone| Some(self.reclaim().reclaimable(zone)))
    }

    /// Checks that no frame in use is freed.
    fn check_event(&self, event: &Event) {
        if let Event::PageFree { pfn, .. } = event {
            let pages = self.pages();
            assert!(!pages.cached.contains(pfn), "{pfn} is freed while a CPU has it cached");
            assert!(!pages.resident.contains_key(pfn), "{pfn} is freed while a page is in it");
            drop(pages);
            self.free_fault.panic_at_nth();
        }
    }
}

impl FakeOwner {
    /// The memory.
    pub fn memory(&self) -> &'static Memory<'static, TracedPlatform> {
        self.memory
    }

    /// The flusher of a CPU.
    pub fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'static, TracedPlatform> {
        // SAFETY: this value flushes all translations that it has created.
        unsafe { self.memory.flusher(cpu, self) }
    }

    /// Reclaim of the memory, with this owner.
    pub fn reclaim(&self) -> Reclaim<'_, 'static, TracedPlatform> {
        // SAFETY: the pages are in frames of this allocator, and this value flushes all translations to
        // them.
        unsafe { Reclaim::new(self.memory, self, self) }.expect("the memory has lists")
    }

    /// The LRU lists.
    pub fn lru(&self) -> Lru<'static, 'static, TracedPlatform> {
        self.memory.lru().expect("the memory has lists")
    }

    /// The pages, under their lock. Reclaim must not run while the guard lives.
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }

    /// Adds an event for [`FakeOwner::take_notes`].
    pub fn note(&self, what: &'static str) {
        self.notes.lock().unwrap().push(what);
    }

    /// The events since the last call.
    pub fn take_notes(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }

    /// Asserts that no lock of the library is held.
    pub fn assert_no_lock(&self) {
        self.memory.platform().assert_no_lock();
    }

    /// The token of CPU 0.
    pub fn token(&self) -> CpuToken<'static, 'static, TracedPlatform> {
        self.memory.cpu(CPU).expect("the CPU is not claimed")
    }

    /// A program uses a page. The page is read if it is not resident. Fails if there is no memory.
    pub fn touch(&self, id: PageId, kind: PageKind) -> Result<Pfn, AllocError> {
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
        // An anonymous page without a copy in the store must be written before its frame is freed.
        let dirty = kind == PageKind::Anon && !pages.store.contains_key(&id);
        let page = resident(id, kind, version, dirty);
        assert!(pages.resident.insert(pfn, page).is_none(), "the frame is in use");
        assert!(!pages.cached.contains(&pfn), "stale TLB access to an unmapped page");
        pages.place.insert(id, pfn);
        let shadow = pages.shadows.remove(&id);
        drop(pages);
        let lru = self.lru();
        let refault = shadow.map_or_else(Default::default, |shadow| lru.refault(shadow, kind));
        assert!(lru.add_as(CPU, pfn, kind, refault), "the page is known already");
        Ok(pfn)
    }

    /// Creates a mapped, clean page in a block of order 0. Returns its frame.
    ///
    /// # Panics
    ///
    /// If the block is of another order or memory.
    pub fn take(&self, block: Block<'static>) -> Pfn {
        assert!(self.memory.owns(&block), "a block of another allocator");
        let (pfn, order) = block.into_raw();
        assert_eq!(order, Order::ZERO);
        let id = PageId::MAX - self.pages().resident.len() as PageId;
        let mut pages = self.pages();
        assert!(pages.resident.insert(pfn, resident(id, PageKind::File, 0, false)).is_none());
        pages.place.insert(id, pfn);
        pages.page(pfn).maps = 1;
        drop(pages);
        assert!(self.lru().add(CPU, pfn, PageKind::File), "the page is known already");
        pfn
    }

    /// A program stores to a page.
    pub fn store(&self, id: PageId, kind: PageKind) -> Result<(), AllocError> {
        let pfn = self.touch(id, kind)?;
        // The pending flush is performed before a page becomes writable.
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
    pub fn truncate(&self, id: PageId) {
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
    pub fn complete(&self, count: usize) {
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
    pub fn direct(&self, frames: u64) -> u64 {
        self.direct_on(CPU, frames)
    }

    /// Direct reclaim on this CPU.
    pub fn direct_on(&self, cpu: CpuId, frames: u64) -> u64 {
        let request = Request::new(Order::ZERO, MigrateType::Movable);
        self.reclaim()
            .direct(&Need { request, cpu, node: NodeId::default(), unmixed: false }, frames)
    }

    /// Sets the behavior of the store.
    pub fn set_behavior(&self, behavior: StoreBehavior) {
        self.pages().behavior = behavior;
    }

    /// Checks all invariants while no operation is in progress.
    pub fn check(&self) {
        let memory = self.memory;
        self.pages().check();
        memory.check().unwrap();
        self.lru().check().unwrap();
        let resident = self.pages().resident.len() as u64;
        let used = memory.managed() - memory.free() - memory.held_by_cpus();
        assert_eq!(
            used,
            resident + memory.tlb().deferred(),
            "frames are counted twice or not at all"
        );
    }

    /// Frees all deferred frames.
    pub fn drain_deferred(&self) {
        let mut token = self.token();
        self.flusher(CPU).drain_deferred(&mut |blocks| {
            blocks.for_each(|block| token.free(block).unwrap());
        });
        let mut slots = [BatchSlot::default(); 1];
        self.flusher(CPU).batch(&mut slots).finish(&mut |_| ());
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
