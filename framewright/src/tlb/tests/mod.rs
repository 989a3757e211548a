//! Batches on a machine of a few CPUs with known TLB contents: no stale access, no lost frame.

use std::{
    boxed::Box,
    cell::{Cell, RefCell},
    collections::BTreeSet,
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    vec,
    vec::Vec,
};

use super::*;
use crate::{
    CpuId, Layout, Memory, MemoryRange, Order, Pfn,
    memory::Config,
    platform::{BarrierTarget, OwnerLock, Platform, Probe, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::{Auto, FlushBatching, TlbTuning},
    types::{Corruption, FrameRange},
};

mod batches;
mod blocks;
mod foreign;
mod panics;
mod random;
mod stores;

const CPUS: u16 = 4;
const PAGES: u64 = 100;

/// A platform with locks. It records reports of corruption, and counts nested masking of
/// interrupts.
#[derive(Default)]
struct TestPlatform(std::sync::Mutex<Vec<Corruption>>, AtomicU32);

// SAFETY: locks and words are the library's own; owners use try-locks.
#[allow(unsafe_code)]
unsafe impl Platform for TestPlatform {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {
        self.1.fetch_add(1, Relaxed);
    }
    fn irq_restore(&self, (): ()) {
        self.1.fetch_sub(1, Relaxed);
    }
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Trylock
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, why: Wait, _: u32) {
        panic!("no CPU waits here: {why:?}");
    }
    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        0
    }
    fn corruption(&self, report: &Corruption) {
        self.0.lock().unwrap().push(*report);
    }
}

impl Probe for TestPlatform {}

/// CPUs with one address space each, and the entries that they have cached: page N of space S is
/// the number S x [`PAGES`] + N.
struct Machine<'l, 'm> {
    memory: &'l Memory<'m, TestPlatform>,
    cached: [RefCell<BTreeSet<u64>>; CPUS as usize],
    loaded: [Cell<u64>; CPUS as usize],
    lazy: [Cell<bool>; CPUS as usize],
    stores_fault: Cell<bool>,
    may_wait: Cell<bool>,
    /// Whether the machine panics when it is to interrupt other CPUs.
    fails: Cell<bool>,
    /// The CPU that panics at its next flush of itself.
    invalidate_fails: Cell<Option<CpuId>>,
    has_local_flush: Cell<bool>,
    interrupts: Cell<u64>,
    space_flushes: [DeferredFlush; 2],
    file: DeferredFlush,
}

impl Shootdown for Machine<'_, '_> {
    fn clean_stores_fault(&self) -> bool {
        self.stores_fault.get()
    }

    fn invalidate(&self, cpu: CpuId, scope: Scope) {
        if self.invalidate_fails.get() == Some(cpu) {
            self.invalidate_fails.set(None);
            panic!("the CPU does not flush itself");
        }
        let loaded = self.loaded[cpu.index()].get();
        let mut cached = self.cached[cpu.index()].borrow_mut();
        match scope {
            Scope::Everything => cached.retain(|entry| entry / PAGES != loaded),
            Scope::Pages { space, first, pages } => {
                let start = space * PAGES + first;
                cached.retain(|entry| !(start..start + u64::from(pages)).contains(entry));
            }
        }
    }

    fn interrupt(&self, from: CpuId, targets: &CpuMask) {
        assert!(!targets.is_empty() && !targets.contains(from));
        assert!(!self.fails.get(), "no interrupt arrives");
        self.interrupts.set(self.interrupts.get() + u64::from(targets.count()));
        targets.iter().for_each(|cpu| self.on(cpu.get()).serve());
    }

    fn is_lazy(&self, cpu: CpuId) -> bool {
        self.lazy[cpu.index()].get()
    }

    fn may_wait(&self) -> bool {
        self.may_wait.get()
    }

    fn has_local_flush(&self) -> bool {
        self.has_local_flush.get()
    }
}

impl<'m> Machine<'_, 'm> {
    fn on(&self, cpu: u16) -> Flusher<'_, 'm, TestPlatform> {
        Flusher::new(&self.memory.core, self.memory.tlb(), self, CpuId::new(cpu))
    }

    /// A CPU reads a page of its address space.
    fn read(&self, cpu: u16, page: u64) {
        let space = self.loaded[usize::from(cpu)].get();
        self.cached[usize::from(cpu)].borrow_mut().insert(space * PAGES + page);
    }

    /// Whether a CPU accesses a page without a page-table walk.
    fn has_cached(&self, cpu: u16, space: u64, page: u64) -> bool {
        let at = usize::from(cpu);
        !self.lazy[at].get()
            && self.loaded[at].get() == space
            && self.cached[at].borrow().contains(&(space * PAGES + page))
    }

    fn any_cpu_has_cached(&self, space: u64, page: u64) -> bool {
        (0..CPUS).any(|cpu| self.has_cached(cpu, space, page))
    }

    /// A CPU loads an address space and flushes its old entries of it, as if the address space had
    /// a newer generation.
    fn load(&self, cpu: u16, space: u64) {
        let at = usize::from(cpu);
        let load = || {
            self.cached[at].borrow_mut().retain(|entry| entry / PAGES != space);
            self.loaded[at].set(space);
            self.lazy[at].set(false);
        };
        // SAFETY: the CPU flushes its entries of the address space that it loads.
        #[allow(unsafe_code)]
        unsafe {
            self.on(cpu).record_full_flush(load);
        }
    }

    fn cpus(&self, space: u64) -> CpuMask {
        let runs = |cpu: &u16| self.loaded[usize::from(*cpu)].get() == space;
        (0..CPUS).filter(runs).map(CpuId::new).collect()
    }

    /// Removes page N of a space, which is in frame N, from the page table.
    fn unmap(
        &self,
        batch: &mut FlushBatch<'_, '_, TestPlatform>,
        space: u64,
        page: u64,
        dirty: bool,
    ) {
        let translation = Translation {
            cpus: &self.cpus(space),
            writable: dirty,
            dirty,
            space,
            page,
            space_flush: &self.space_flushes[space as usize],
            file_flush: Some(&self.file),
        };
        batch.add(Pfn::new(page), &translation);
    }
}

fn with_machine(tlb: TlbTuning, test: impl FnOnce(&Machine<'_, '_>)) {
    let frames = FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap();
    let map = [MemoryRange::from(frames)];
    let mut config = Config::new(&map, CPUS);
    config.tuning.tlb = tlb;
    let layout = Layout::new::<TestPlatform>(&config).unwrap();
    let mut buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
    let offset = buffer.as_ptr().align_offset(layout.align());
    let memory = Memory::new(TestPlatform::default(), &config, &mut buffer[offset..]).unwrap();
    test(&Machine {
        memory: &memory,
        cached: core::array::from_fn(|_| RefCell::default()),
        loaded: core::array::from_fn(|_| Cell::new(0)),
        lazy: core::array::from_fn(|_| Cell::new(false)),
        stores_fault: Cell::new(true),
        may_wait: Cell::new(true),
        fails: Cell::new(false),
        invalidate_fails: Cell::new(None),
        has_local_flush: Cell::new(true),
        interrupts: Cell::new(0),
        space_flushes: [DeferredFlush::new(), DeferredFlush::new()],
        file: DeferredFlush::new(),
    });
}

fn tuning(batching: FlushBatching, batch: u32, deferred_max: u32) -> TlbTuning {
    TlbTuning {
        batching,
        batch: Auto::Fixed(batch),
        deferred_max: Auto::Fixed(deferred_max),
        single_page_flush_ceiling: 33,
    }
}

fn slots() -> Box<[BatchSlot]> {
    vec![BatchSlot::default(); 32].into()
}

/// CPU 0 reclaims `pages`, which all CPUs have read. Returns the frames that it got.
fn reclaim(machine: &Machine<'_, '_>, pages: core::ops::Range<u64>, dirty: bool) -> Vec<u64> {
    for page in pages.clone() {
        (0..CPUS).for_each(|cpu| machine.read(cpu, page));
    }
    let (mut slots, mut got) = (slots(), Vec::new());
    let mut batch = machine.on(0).batch(&mut slots);
    for page in pages {
        machine.unmap(&mut batch, 0, page, dirty);
        batch.retire_frame(Pfn::new(page)).unwrap();
    }
    batch.finish_frames(&mut |frames| {
        for frame in frames.iter().map(|frame| frame.get()) {
            assert!(
                !machine.any_cpu_has_cached(0, frame),
                "frame {frame} is passed on while a CPU has it cached"
            );
            got.push(frame);
        }
    });
    got
}
