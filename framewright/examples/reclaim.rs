//! A page cache for a file four times as large as memory, with reclaim: `cargo run -p framewright --example reclaim`.
//!
//! One CPU, a buffer as its memory, and a disk that is a `Vec`. Programs read and write the file by calls, and map
//! nothing; so no TLB has to be flushed. The guide (`docs/embedding.md`, part 3) explains this file step by step.

use std::{
    collections::HashMap,
    error::Error,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use framewright::{
    Config, CpuId, FrameRange, Global, MigrateType, NodeId, Order, Pfn, Platform, Request,
    SideTables, ZoneId, ZoneKind,
    frame::FRAME_SIZE,
    global::{GlobalError, Mapped, Pinning},
    observe::{Corruption, NodeStat},
    platform::{BarrierTarget, Need, OwnerLock, Probe, Relief, Wait},
    reclaim::{
        Kswapd, NextStep, PageKind, PageOwner, PageState, Reclaim, Reference, Released, Shadow,
        Unmapped, WriteOut,
    },
    sync::{PlainWord, SpinFlag},
    tlb::{NoShootdown, Unmapping},
};

static MEMORY: Global<Machine, 1> = Global::new();
static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

const CPU: CpuId = CpuId::new(0);
/// Frames of the machine: 16 MiB.
const FRAMES: usize = 4096;
/// Pages of the file.
const PAGES: usize = 4 * FRAMES;

type Bytes = [u8; FRAME_SIZE];

// --- step 1: the platform returns its `Relief` --------------------------------------------------

struct Machine;

fn contents(pfn: Pfn) -> *mut Bytes {
    std::ptr::with_exposed_provenance_mut(pfn.address() as usize)
}

// SAFETY: the lock is the library's own; there is one CPU, so no barrier has to reach another.
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, _: Wait, _: u32) {}

    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        // SAFETY: the caller owns the frames, which are mapped at their physical address.
        unsafe { contents(pfn).write_bytes(0, order.frames() as usize) }
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        // SAFETY: the caller owns both frames, which are different.
        unsafe { contents(to).copy_from_nonoverlapping(contents(from), 1) }
    }

    /// Reclaim limits its pauses by the clock.
    fn now(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    fn relief(&self) -> &dyn Relief {
        &Kernel
    }

    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl Probe for Machine {}

// SAFETY: one thread uses this machine.
unsafe impl Pinning for Machine {
    type Pin = ();

    fn pin(&self) -> (CpuId, ()) {
        (CPU, ())
    }

    fn unpin(&self, (): ()) {}
}

// SAFETY: every frame of the map is mapped at its physical address, and no other code uses it. This file makes one value,
// for one map; a public type would have a private field and an unsafe constructor.
unsafe impl Mapped for Machine {
    fn address(&self, pfn: Pfn) -> *mut u8 {
        contents(pfn).cast()
    }
}

// --- step 2: the `Relief` calls reclaim ---------------------------------------------------------

struct Kernel;

static KSWAPD_IS_WOKEN: AtomicBool = AtomicBool::new(false);

fn reclaim() -> Option<Reclaim<'static, 'static, Machine>> {
    // SAFETY: the cache releases only frames that it has allocated from this memory, and nothing is mapped.
    unsafe { Reclaim::new(MEMORY.memory().ok()?, &PageCache, &NoShootdown) }
}

impl Relief for Kernel {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    /// A kernel wakes a thread.
    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        if reclaim().is_some_and(|reclaim| reclaim.wake(node, order, highest)) {
            KSWAPD_IS_WOKEN.store(true, Ordering::Relaxed);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        reclaim().map_or(0, |reclaim| reclaim.direct(need, frames))
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        Some(reclaim()?.reclaimable(zone))
    }
}

// --- step 3: a cache that owns pages ------------------------------------------------------------

/// A page of the file that is in memory.
struct Resident {
    number: usize,
    dirty: bool,
    locked: bool,
}

struct Cache {
    disk: Vec<Bytes>,
    frames: HashMap<usize, Pfn>,
    resident: HashMap<Pfn, Resident>,
    /// The shadows of evicted pages, which are needed when the pages are read again.
    shadows: HashMap<usize, Shadow>,
}

struct PageCache;

fn cache() -> MutexGuard<'static, Option<Cache>> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks about pages that reclaim has locked. A page that is not in the cache keeps the default answer.
fn answer<A>(frames: &[Pfn], out: &mut [A], ask: impl Fn(&mut Resident) -> A) {
    let mut cache = cache();
    let Some(cache) = cache.as_mut() else { return };
    for (pfn, out) in frames.iter().zip(out) {
        if let Some(page) = cache.resident.get_mut(pfn) {
            *out = ask(page);
        }
    }
}

// SAFETY: the frames of the cache are blocks of order 0 that it has allocated from `MEMORY`, nothing maps them, and it
// removes a frame from its tables when it releases the frame.
unsafe impl PageOwner<Machine> for PageCache {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        out.fill(None);
        answer(frames, out, |page| {
            let was_locked = std::mem::replace(&mut page.locked, true);
            (!was_locked).then(|| PageState { dirty: page.dirty, ..PageState::default() })
        });
    }

    fn unlock(&self, frames: &[Pfn]) {
        answer(frames, &mut vec![(); frames.len()], |page| page.locked = false);
    }

    /// Reports uses through mappings. Uses by calls are reported at once, by `Lru::mark_accessed`.
    fn referenced(&self, _: &[Pfn], out: &mut [Reference]) {
        out.fill(Reference::default());
    }

    fn unmap(&self, frames: &[Pfn], _: &mut Unmapping<'_, '_, '_, Machine>, out: &mut [Unmapped]) {
        out.fill(Unmapped::StillMapped);
        answer(frames, out, |page| Unmapped::Removed { dirty: page.dirty });
    }

    /// A kernel starts the write here, answers `Started`, and calls `Reclaim::written` when it has ended.
    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        out.fill(WriteOut::Refused);
        let mut cache = cache();
        let Some(Cache { disk, resident, .. }) = cache.as_mut() else { return };
        for (pfn, out) in frames.iter().zip(out) {
            let Some(page) = resident.get_mut(pfn) else { continue };
            // SAFETY: the page is in the cache, whose lock is held.
            disk[page.number] = unsafe { contents(*pfn).read() };
            page.dirty = false;
            *out = WriteOut::Done;
        }
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        out.fill(Released::Busy);
        let mut cache = cache();
        let Some(cache) = cache.as_mut() else { return };
        for ((pfn, shadow), out) in frames.iter().zip(shadows).zip(out) {
            let Some(page) = cache.resident.get(pfn) else { continue };
            *out = if page.dirty { Released::Dirty } else { Released::Released };
            if !page.dirty {
                cache.frames.remove(&page.number);
                cache.shadows.insert(page.number, *shadow);
                cache.resident.remove(pfn);
            }
        }
    }
}

// --- step 4: calls that read and write the file -------------------------------------------------

/// Calls `access` with the contents of a page of the file, which is read from the disk if it is not in memory.
fn with_page<R>(
    number: usize,
    writes: bool,
    access: impl Fn(&mut Bytes) -> R,
) -> Result<R, GlobalError> {
    let lru = MEMORY.memory()?.lru().expect("the side tables have LRU lists");
    loop {
        if let Some(Cache { frames, resident, .. }) = cache().as_mut()
            && let Some(pfn) = frames.get(&number).copied()
        {
            lru.mark_accessed(CPU, pfn);
            if let Some(page) = resident.get_mut(&pfn) {
                page.dirty |= writes;
            }
            // SAFETY: the frame is in the cache, whose lock is held.
            return Ok(access(unsafe { &mut *contents(pfn) }));
        }
        // The cache is not locked here: a request that finds too little memory reclaims, and reclaim calls the owner.
        let block = MEMORY.alloc(Request::new(Order::ZERO, MigrateType::Movable))?;
        let (pfn, _) = block.into_raw();
        if let Some(cache) = cache().as_mut() {
            // SAFETY: this function owns the frame.
            unsafe { contents(pfn).write(cache.disk[number]) };
            cache.resident.insert(pfn, Resident { number, dirty: false, locked: false });
            cache.frames.insert(number, pfn);
            match cache.shadows.remove(&number) {
                Some(shadow) => lru.add_refaulted(CPU, pfn, PageKind::File, shadow),
                None => lru.add(CPU, pfn, PageKind::File),
            };
        }
    }
}

// --- step 5: reclaim in the background ----------------------------------------------------------

/// A kernel has a thread for each node, which then waits as the last `NextStep` says.
fn run_kswapd(kswapd: &mut Kswapd<'_, 'static, Machine>) {
    if KSWAPD_IS_WOKEN.swap(false, Ordering::Relaxed) {
        while kswapd.step_on(CPU) == NextStep::Now {}
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let ram = vec![0u8; (FRAMES + 1) * FRAME_SIZE].leak();
    let start = ram.as_mut_ptr().expose_provenance() as u64;
    let map = [FrameRange::inside(start, start + ram.len() as u64).ok_or("no memory")?.into()];
    let config = Config::new(&map, 1).with_side_tables(SideTables::default().with_lru());
    MEMORY.init_in_map(Machine, &config)?;
    let memory = MEMORY.memory()?;
    let free_at_start = memory.free();
    *cache() = Some(Cache {
        disk: vec![[0; FRAME_SIZE]; PAGES],
        frames: HashMap::new(),
        resident: HashMap::new(),
        shadows: HashMap::new(),
    });
    let mut kswapd = reclaim().and_then(|r| r.kswapd(NodeId::default())).ok_or("no LRU lists")?;

    let word = |number: usize| (number as u64 ^ 0xf11e).to_le_bytes();
    for number in 0..PAGES {
        with_page(number, true, |page| page[8..16].copy_from_slice(&word(number)))?;
        run_kswapd(&mut kswapd);
    }
    // Every page is read once, and the first 64 pages repeatedly.
    for number in 0..PAGES {
        for number in [number, number % 64] {
            let right = with_page(number, false, |page| page[8..16] == word(number))?;
            assert!(right, "page {number} is not what was written");
        }
        run_kswapd(&mut kswapd);
    }

    let stats = memory.lru().ok_or("no LRU lists")?.stats();
    let resident = cache().as_ref().map_or(0, |cache| cache.resident.len());
    println!("{PAGES} pages of a file, {resident} of them in {free_at_start} frames");
    println!("refaults: {}", stats.get(NodeStat::WorkingsetRefaultFile));

    // The file is closed: its pages leave the lists, then their frames are free.
    let closed = cache().take();
    for pfn in closed.iter().flat_map(|cache| cache.resident.keys()) {
        assert!(memory.lru().is_some_and(|lru| lru.remove(*pfn)));
        // SAFETY: the frame was a block of the cache, which has removed it.
        unsafe { MEMORY.free_raw(*pfn, Order::ZERO) }?;
    }
    memory.drain_all();
    memory.check()?;
    assert_eq!(memory.free(), free_at_start);
    println!("all {free_at_start} frames are free again");
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
