//! Several threads reclaim pages while others read, write and truncate them. No store is lost, and
//! no page stays locked or isolated.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use framewright::{
    Config, CpuId, CpuToken, FrameRange, Memory, MigrateType, NodeId, Order, Pfn, Request,
    SideTables,
    reclaim::{
        FreedBy, Lru, NextStep, PageKind, PageOwner, PageState, Reclaim, Reference, Released,
        Shadow, Throttle, Unmapped, WriteOut,
    },
    tlb::{NoShootdown, Unmapping},
    tuning::Auto,
};
use framewright_fakes::{FakePlatform, FakeRelief, leaked};

const FRAMES: u64 = if cfg!(miri) { 256 } else { 2048 };
const IDS: u32 = if cfg!(miri) { 500 } else { 6000 };
/// The minimum number of reclaimed pages.
const ENOUGH: u64 = if cfg!(miri) { 50 } else { 1000 };
const READERS: u16 = 2;
/// The CPUs: readers, one thread with direct reclaim, and one with background reclaim.
const CPUS: u16 = READERS + 2;

/// The state of a frame.
#[derive(Clone, Copy, Default)]
struct Frame {
    id: Option<u32>,
    locked: bool,
    mapped: bool,
    young: bool,
    dirty: bool,
    version: u64,
}

struct Embedder {
    memory: &'static Mem,
    /// The frame of each page. Lock order: the lock of a place, then the lock of its frame. Code
    /// that needs the other order only tries to lock.
    places: Vec<Mutex<Option<Pfn>>>,
    frames: Vec<Mutex<Frame>>,
    store: Vec<AtomicU64>,
    /// The last contents of each page. Changed under the lock of its place.
    truth: Vec<AtomicU64>,
    done: AtomicBool,
    /// The wait queue of pauses.
    pauses: Mutex<()>,
    resumed: Condvar,
}

type Mem = Memory<'static, FakePlatform>;

impl Embedder {
    fn memory(&self) -> &'static Mem {
        self.memory
    }

    fn lru(&self) -> Lru<'static, 'static, FakePlatform> {
        self.memory().lru().expect("the memory has lists")
    }

    fn reclaim(&self) -> Reclaim<'_, 'static, FakePlatform> {
        // SAFETY: the pages of the embedder are in frames of this allocator, and nothing is mapped.
        let reclaim = unsafe { Reclaim::new(self.memory(), self, &NoShootdown) };
        reclaim.expect("the memory has lists")
    }

    fn frame(&self, pfn: Pfn) -> MutexGuard<'_, Frame> {
        self.frames[pfn.get() as usize].lock().unwrap()
    }

    fn place(&self, id: u32) -> MutexGuard<'_, Option<Pfn>> {
        self.places[id as usize].lock().unwrap()
    }

    /// Uses a page. Returns `false` if the caller must retry.
    fn touch(&self, token: &mut CpuToken<'_, 'static, FakePlatform>, id: u32, write: bool) -> bool {
        let mut place = self.place(id);
        if place.is_none() {
            let request = Request::new(Order::ZERO, MigrateType::Movable);
            let Ok(block) = token.alloc(request) else { return false };
            let (pfn, _) = block.into_raw();
            let version = self.store[id as usize].load(Ordering::Relaxed);
            *self.frame(pfn) = Frame { id: Some(id), version, ..Frame::default() };
            *place = Some(pfn);
            assert!(self.lru().add(token.cpu(), pfn, PageKind::File), "the frame is known already");
        }
        let mut frame = self.frame(place.expect("read in just now"));
        assert_eq!(frame.id, Some(id), "the frame has another page");
        if frame.locked {
            return false;
        }
        (frame.mapped, frame.young) = (true, true);
        if write {
            frame.dirty = true;
            frame.version += 1;
            self.truth[id as usize].store(frame.version, Ordering::Relaxed);
        }
        true
    }

    /// Removes a page and its stored contents.
    fn truncate(&self, token: &mut CpuToken<'_, 'static, FakePlatform>, id: u32) {
        let mut place = self.place(id);
        let Some(pfn) = *place else { return };
        let mut frame = self.frame(pfn);
        if frame.locked {
            return;
        }
        *frame = Frame::default();
        drop(frame);
        *place = None;
        self.store[id as usize].store(0, Ordering::Relaxed);
        self.truth[id as usize].store(0, Ordering::Relaxed);
        // SAFETY: the page was added as a block of order 0, and its owner has removed it.
        if unsafe { self.lru().abandon(pfn) } == FreedBy::Caller {
            // SAFETY: as above.
            unsafe { token.free_raw(pfn, Order::ZERO).unwrap() };
        }
    }

    fn read(&self, number: u16) {
        let mut token = self.memory().cpu(CpuId::new(number)).unwrap();
        let mut random = u64::from(number) + 1;
        for _ in 0..if cfg!(miri) { 200 } else { 60_000 } {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let id = (random >> 33) as u32 % IDS;
            match random >> 20 & 31 {
                0 => self.truncate(&mut token, id),
                1..8 => _ = self.touch(&mut token, id, true),
                8 => {
                    let place = *self.place(id);
                    place.into_iter().for_each(|pfn| self.lru().mark_accessed(token.cpu(), pfn));
                }
                _ => _ = self.touch(&mut token, id, false),
            }
        }
    }
}

// SAFETY: pages are added as blocks of order 0, and removed when they are released.
unsafe impl PageOwner<FakePlatform> for Embedder {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        for (&pfn, slot) in frames.iter().zip(out) {
            let mut frame = self.frame(pfn);
            *slot = (frame.id.is_some() && !frame.locked).then(|| {
                frame.locked = true;
                PageState { mapped: frame.mapped, dirty: frame.dirty, ..PageState::default() }
            });
        }
    }

    fn unlock(&self, frames: &[Pfn]) {
        frames.iter().for_each(|&pfn| self.frame(pfn).locked = false);
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        for (&pfn, slot) in frames.iter().zip(out) {
            let young = std::mem::take(&mut self.frame(pfn).young);
            *slot = Reference { young: young.into(), ..Reference::default() };
        }
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        _: &mut Unmapping<'_, '_, '_, FakePlatform>,
        out: &mut [Unmapped],
    ) {
        for (&pfn, slot) in frames.iter().zip(out) {
            let mut frame = self.frame(pfn);
            frame.mapped = false;
            *slot = Unmapped::Removed { dirty: frame.dirty };
        }
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        for (&pfn, slot) in frames.iter().zip(out) {
            let mut frame = self.frame(pfn);
            assert!(frame.locked && frame.dirty && !frame.mapped);
            let id = frame.id.expect("a locked page stays in its frame");
            self.store[id as usize].store(frame.version, Ordering::Relaxed);
            frame.dirty = false;
            *slot = WriteOut::Done;
        }
    }

    fn release(&self, frames: &[Pfn], _: &[Shadow], out: &mut [Released]) {
        for (&pfn, slot) in frames.iter().zip(out) {
            let id = self.frame(pfn).id.expect("a locked page stays in its frame");
            let mut place = match self.places[id as usize].try_lock() {
                Ok(place) => place,
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Poisoned(error)) => panic!("{error}"),
            };
            let mut frame = self.frame(pfn);
            assert!(frame.locked && !frame.mapped);
            if frame.dirty {
                *slot = Released::Dirty;
                continue;
            }
            *frame = Frame::default();
            *place = None;
            *slot = Released::Released;
        }
    }
}

/// The relief of the embedder.
fn relief(embedder: &'static Embedder) -> FakeRelief {
    const LONG: Duration = Duration::from_secs(6);
    FakeRelief::new()
        .in_background(|| true)
        .on_wake(|node, order, highest| {
            // Background reclaim does not sleep in this test, so it is not woken.
            let _ = embedder.reclaim().wake(node, order, highest);
        })
        .on_reclaim(|need, frames| embedder.reclaim().direct(need, frames))
        // A pause that needs a wake-up must not reach its time limit, so that a lost wake-up fails
        // the test.
        .on_pause(|pause| {
            if !matches!(pause.why(), Throttle::Isolated | Throttle::Reserve) {
                return;
            }
            let mut held = embedder.pauses.lock().unwrap();
            // At the end of the test, background reclaim may have ended already.
            while !pause.is_over() && !embedder.done.load(Ordering::Relaxed) {
                let (again, limit) = embedder.resumed.wait_timeout(held, LONG).unwrap();
                held = again;
                let is_done = embedder.done.load(Ordering::Relaxed);
                assert!(!limit.timed_out() || is_done, "no waker ends {pause:?}");
            }
        })
        .on_resume(|_, _| {
            drop(embedder.pauses.lock().unwrap());
            embedder.resumed.notify_all();
        })
        .on_reclaimable(|zone| Some(embedder.reclaim().reclaimable(zone)))
}

fn embedder() -> &'static Embedder {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let side_tables = SideTables::default().with_lru();
    let mut config = Config::new(&map, CPUS).with_side_tables(side_tables);
    config.tuning.zone.min_free = Auto::Fixed(FRAMES as u32 / 32);
    let memory = leaked(FakePlatform::threaded(), &config);
    let embedder: &'static Embedder = Box::leak(Box::new(Embedder {
        memory,
        places: (0..IDS).map(|_| Mutex::default()).collect(),
        frames: (0..FRAMES).map(|_| Mutex::default()).collect(),
        store: (0..IDS).map(|_| AtomicU64::new(0)).collect(),
        truth: (0..IDS).map(|_| AtomicU64::new(0)).collect(),
        done: AtomicBool::new(false),
        pauses: Mutex::default(),
        resumed: Condvar::new(),
    }));
    memory.platform().set_relief(relief(embedder));
    embedder
}

#[test]
fn readers_writers_and_reclaimers_run_concurrently() {
    let embedder = embedder();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|n| scope.spawn(move || embedder.read(n))).collect();
        scope.spawn(|| {
            while !embedder.done.load(Ordering::Relaxed) {
                let _ = embedder.reclaim().shrink_node(CpuId::new(READERS), NodeId::default(), 16);
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            let mut token = embedder.memory().cpu(CpuId::new(READERS + 1)).unwrap();
            let mut kswapd = embedder.reclaim().kswapd(NodeId::default()).unwrap();
            while !embedder.done.load(Ordering::Relaxed) {
                if kswapd.step(&mut token) != NextStep::Now {
                    thread::yield_now();
                }
            }
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        embedder.done.store(true, Ordering::Relaxed);
    });
    let mut resident = 0;
    for id in 0..IDS {
        let stored = embedder.store[id as usize].load(Ordering::Relaxed);
        let version = embedder.place(id).map_or(stored, |pfn| {
            resident += 1;
            embedder.frame(pfn).version
        });
        assert_eq!(version, embedder.truth[id as usize].load(Ordering::Relaxed), "page {id}");
    }
    embedder.lru().check().unwrap();
    let memory = embedder.memory();
    memory.check().unwrap();
    assert_eq!(memory.in_use(), resident + memory.tlb().deferred());
    let stats = embedder.lru().stats();
    assert!(stats.get(framewright::observe::NodeStat::PgstealFile) > ENOUGH, "\n{stats}");
}
