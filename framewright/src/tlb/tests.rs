//! Batches on a machine of a few CPUs whose caches are known, against what must never be.

use std::{
    boxed::Box,
    cell::{Cell, RefCell},
    collections::BTreeSet,
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    vec,
    vec::Vec,
};

use super::*;
use crate::{
    CpuId, Layout, Memory, MemoryRange, Order, Pfn,
    frame::FrameRange,
    memory::Config,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Platform, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::{Auto, FlushBatching, TlbTuning},
};

const CPUS: u16 = 4;
const PAGES: u64 = 100;

/// A platform that nothing is asked of but locks, and that hears of leaks.
#[derive(Default)]
struct Toy(std::sync::Mutex<Vec<Corruption>>);

// SAFETY: locks and words are the library's own; owners use try-locks.
#[allow(unsafe_code)]
unsafe impl Platform for Toy {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Trylock
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, why: Wait, _: u32) {
        panic!("nobody waits here: {why:?}");
    }
    fn clear(&self, _: Pfn, _: Order) {}
    fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        0
    }
    fn corruption(&self, report: &Corruption) {
        self.0.lock().unwrap().push(*report);
    }
}

/// CPUs that run one address space each, and what they have cached: page N of space S, as
/// S x [`PAGES`] + N.
struct Machine<'l, 'm> {
    memory: &'l Memory<'m, Toy>,
    cached: [RefCell<BTreeSet<u64>>; CPUS as usize],
    loaded: [Cell<u64>; CPUS as usize],
    lazy: [Cell<bool>; CPUS as usize],
    stores_fault: Cell<bool>,
    may_wait: Cell<bool>,
    /// It panics when it is to interrupt others.
    fails: Cell<bool>,
    forgets_alone: Cell<bool>,
    interrupts: Cell<u64>,
    owed: [DeferredFlush; 2],
    file: DeferredFlush,
}

impl Shootdown for Machine<'_, '_> {
    fn clean_stores_fault(&self) -> bool {
        self.stores_fault.get()
    }

    fn forget(&self, cpu: CpuId, scope: Scope) {
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

    fn forgets_alone(&self) -> bool {
        self.forgets_alone.get()
    }
}

impl<'m> Machine<'_, 'm> {
    fn on(&self, cpu: u16) -> Flusher<'_, 'm, Toy> {
        self.memory.flusher(CpuId::new(cpu), self)
    }

    /// A CPU reads a page of what it runs.
    fn read(&self, cpu: u16, page: u64) {
        let space = self.loaded[usize::from(cpu)].get();
        self.cached[usize::from(cpu)].borrow_mut().insert(space * PAGES + page);
    }

    /// Whether a CPU reaches a page without asking page tables first.
    fn reaches(&self, cpu: u16, space: u64, page: u64) -> bool {
        let at = usize::from(cpu);
        !self.lazy[at].get()
            && self.loaded[at].get() == space
            && self.cached[at].borrow().contains(&(space * PAGES + page))
    }

    fn anyone_reaches(&self, space: u64, page: u64) -> bool {
        (0..CPUS).any(|cpu| self.reaches(cpu, space, page))
    }

    /// A CPU runs a space: it forgets what it has of it, which is what comparing generations comes
    /// to at worst.
    fn load(&self, cpu: u16, space: u64) {
        let at = usize::from(cpu);
        self.on(cpu).caught_up(|| {
            self.cached[at].borrow_mut().retain(|entry| entry / PAGES != space);
            self.loaded[at].set(space);
            self.lazy[at].set(false);
        });
    }

    fn cpus(&self, space: u64) -> CpuMask {
        let runs = |cpu: &u16| self.loaded[usize::from(*cpu)].get() == space;
        (0..CPUS).filter(runs).map(CpuId::new).collect()
    }

    /// Takes page N of a space, which is in frame N, out of its page table.
    fn unmap(&self, batch: &mut FlushBatch<'_, '_, Toy>, space: u64, page: u64, dirty: bool) {
        let translation = Translation {
            cpus: &self.cpus(space),
            writable: dirty,
            dirty,
            space,
            page,
            owed_space: &self.owed[space as usize],
            owed_file: Some(&self.file),
        };
        batch.add(Pfn::new(page), &translation);
    }
}

fn with_machine(tlb: TlbTuning, test: impl FnOnce(&Machine<'_, '_>)) {
    let frames = FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap();
    let map = [MemoryRange::from(frames)];
    let mut config = Config::new(&map, CPUS);
    config.tuning.tlb = tlb;
    let layout = Layout::new::<Toy>(&config).unwrap();
    let mut buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
    let offset = buffer.as_ptr().align_offset(layout.align());
    let memory = Memory::new(Toy::default(), &config, &mut buffer[offset..]).unwrap();
    test(&Machine {
        memory: &memory,
        cached: core::array::from_fn(|_| RefCell::default()),
        loaded: core::array::from_fn(|_| Cell::new(0)),
        lazy: core::array::from_fn(|_| Cell::new(false)),
        stores_fault: Cell::new(true),
        may_wait: Cell::new(true),
        fails: Cell::new(false),
        forgets_alone: Cell::new(true),
        interrupts: Cell::new(0),
        owed: [DeferredFlush::new(), DeferredFlush::new()],
        file: DeferredFlush::new(),
    });
}

fn tuning(batching: FlushBatching, batch: u32, parked_max: u32) -> TlbTuning {
    TlbTuning {
        batching,
        batch: Auto::Fixed(batch),
        parked_max: Auto::Fixed(parked_max),
        ranged_max: 33,
    }
}

fn slots() -> Box<[BatchSlot]> {
    vec![BatchSlot::default(); 32].into()
}

/// CPU 0 reclaims `pages`, which all CPUs have read; the frames that it got.
fn reclaim(machine: &Machine<'_, '_>, pages: core::ops::Range<u64>, dirty: bool) -> Vec<u64> {
    for page in pages.clone() {
        (0..CPUS).for_each(|cpu| machine.read(cpu, page));
    }
    let (mut slots, mut got) = (slots(), Vec::new());
    let mut batch = machine.on(0).batch(&mut slots);
    for page in pages {
        machine.unmap(&mut batch, 0, page, dirty);
        batch.retire(Pfn::new(page)).unwrap();
    }
    batch.finish(&mut |frames| {
        for frame in frames.iter().map(|frame| frame.get()) {
            assert!(!machine.anyone_reaches(0, frame), "frame {frame} is handed out and reached");
            got.push(frame);
        }
    });
    got
}

#[test]
fn a_page_at_a_time_takes_an_interrupt_per_cpu_and_page() {
    with_machine(tuning(FlushBatching::Off, 32, 0), |machine| {
        assert_eq!(reclaim(machine, 0..8, false), (0..8).collect::<Vec<_>>());
        assert_eq!(machine.interrupts.get(), 8 * 3);
        assert_eq!(machine.memory.tlb().stats().nr_tlb_local_flush_one, 8);
    });
}

#[test]
fn clean_only_flushes_what_is_dirty_at_once() {
    with_machine(tuning(FlushBatching::CleanOnly, 32, 0), |machine| {
        reclaim(machine, 0..8, true);
        assert_eq!(machine.interrupts.get(), 8 * 3);
        reclaim(machine, 8..16, false);
        assert_eq!(machine.interrupts.get(), 9 * 3);
    });
}

#[test]
fn a_batch_takes_an_interrupt_per_cpu() {
    with_machine(tuning(FlushBatching::All, 8, 0), |machine| {
        assert_eq!(reclaim(machine, 0..8, true).len(), 8);
        assert_eq!(machine.interrupts.get(), 3);
        let stats = machine.memory.tlb().stats();
        assert_eq!((stats.batches, stats.unmapped, stats.unflushed_frames_max), (1, 8, 8));
        assert_eq!((stats.nr_tlb_remote_flush, stats.nr_tlb_remote_flush_received), (1, 3));
    });
}

#[test]
fn small_batches_wait_for_each_other() {
    with_machine(tuning(FlushBatching::All, 16, 0), |machine| {
        assert_eq!(reclaim(machine, 0..6, false), []);
        assert_eq!(reclaim(machine, 6..12, false), []);
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().parked()), (0, 12));
        assert_eq!(reclaim(machine, 12..18, false).len(), 18);
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().parked()), (3, 0));
    });
}

#[test]
fn lazy_batches_are_flushed_together_when_they_are_needed() {
    with_machine(tuning(FlushBatching::Lazy, 32, 128), |machine| {
        assert_eq!(reclaim(machine, 0..8, false), []);
        assert_eq!(reclaim(machine, 8..16, false), []);
        assert_eq!(machine.memory.tlb().parked(), 16);
        assert!(machine.reaches(2, 0, 5), "nothing was flushed");
        let mut got = 0;
        assert_eq!(machine.on(1).unpark(&mut |_| panic!("too early")), 0);
        assert_eq!(machine.on(1).unpark_all(&mut |frames| got += frames.len()), 16);
        assert_eq!((got, machine.interrupts.get()), (16, 3));
        assert!(!machine.anyone_reaches(0, 5));
    });
}

#[test]
fn batches_of_a_page_are_parked_like_large_ones() {
    with_machine(tuning(FlushBatching::Lazy, 32, 128), |machine| {
        for page in 0..96 {
            assert_eq!(reclaim(machine, page..page + 1, false), [], "page {page}");
        }
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().parked()), (0, 96));
        assert_eq!(reclaim(machine, 96..97, false).len(), 97, "one flush has served all");
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().parked()), (3, 0));
    });
}

#[test]
fn batches_for_other_cpus_each_time_are_parked_as_well() {
    with_machine(tuning(FlushBatching::Lazy, 32, 128), |machine| {
        for page in 0..96 {
            machine.load(2, page % 2);
            // By then there is no room for another group.
            machine.load(3, u64::from(page < 48));
            assert_eq!(reclaim(machine, page..page + 1, false), [], "page {page}");
        }
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().parked()), (0, 96));
        assert_eq!(reclaim(machine, 96..97, false).len(), 97);
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().parked()), (3, 0));
    });
}

#[test]
fn a_lazy_batch_that_finds_no_room_is_flushed_with_all_that_wait() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..10, false), []);
        assert_eq!(reclaim(machine, 10..20, false).len(), 20);
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().parked()), (3, 0));
    });
}

#[test]
fn what_finds_no_room_within_the_bound_is_flushed_at_once() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        let tlb = machine.memory.tlb();
        // Batches of other CPUs.
        assert_eq!([tlb.take_in_hand(382), tlb.take_in_hand(9), tlb.take_in_hand(1)], [382, 2, 0]);
        assert_eq!(reclaim(machine, 0..4, false).len(), 4);
        assert_eq!(machine.interrupts.get(), 4 * 3);
        tlb.give_back_in_hand(2);
        assert_eq!(reclaim(machine, 4..8, false).len(), 2);
        assert_eq!((machine.interrupts.get(), tlb.parked()), (6 * 3, 2));
        assert_eq!(tlb.take_in_hand(9), 0, "what is parked counts as well");
        tlb.give_back_in_hand(382);
        assert_eq!(reclaim(machine, 8..12, false), []);
        assert_eq!((machine.interrupts.get(), tlb.parked()), (6 * 3, 6));
        assert_eq!(tlb.take_in_hand(400), 378, "batches that have ended have no room any more");
        assert_eq!(tlb.stats().unflushed_frames_max, 384);
    });
}

#[test]
fn who_fails_to_flush_for_what_is_parked_leaves_that_to_the_next() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..10, false), []);
        machine.fails.set(true);
        let settle = || machine.on(0).settle_down_to(0, &mut |_| ());
        assert!(catch_unwind(AssertUnwindSafe(settle)).is_err());
        machine.fails.set(false);
        // What they were asked for, the others do when they look.
        (1..CPUS).for_each(|cpu| machine.on(cpu).serve());
        let mut freed = 0;
        machine.on(0).settle_down_to(0, &mut |frames| freed += frames.len());
        assert_eq!((freed, machine.memory.tlb().parked()), (10, 0));
    });
}

#[test]
fn nobody_is_interrupted_who_has_flushed_since() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..8, false), []);
        machine.load(1, 1);
        machine.on(2).forget_all();
        assert!(machine.reaches(3, 0, 3), "CPU 3 reaches what CPU 0 has forgotten in passing");
        assert!(!machine.on(0).tick() && machine.on(3).tick() && !machine.on(3).tick());
        assert_eq!(machine.on(0).unpark(&mut |_| {}), 8);
        assert_eq!(machine.interrupts.get(), 0);
    });
}

#[test]
fn nobody_forgets_in_passing_where_that_costs_others() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        machine.forgets_alone.set(false);
        assert_eq!(reclaim(machine, 0..8, false), []);
        assert!((0..CPUS).all(|cpu| machine.reaches(cpu, 0, 3) && !machine.on(cpu).tick()));
    });
}

#[test]
fn flushing_some_pages_is_not_forgetting_everything() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..4, false), []);
        machine.on(0).flush(&machine.cpus(0), Scope::page(0, 9));
        assert_eq!(machine.interrupts.get(), 3);
        assert_eq!(machine.on(0).unpark(&mut |_| panic!("everybody reaches them")), 0);
        machine.on(0).flush(&machine.cpus(0), Scope::Everything);
        assert_eq!(machine.on(0).unpark(&mut |_| {}), 4);
    });
}

#[test]
fn catching_up_covers_what_was_unmapped_before_it_began() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        machine.on(1).caught_up(|| assert_eq!(reclaim(machine, 0..4, false), []));
        [0, 2, 3].into_iter().for_each(|cpu| machine.on(cpu).forget_all());
        assert_eq!(machine.on(0).unpark(&mut |_| panic!("CPU 1 reaches them")), 0);
        machine.load(1, 0);
        assert_eq!(machine.on(0).unpark(&mut |_| {}), 4);
    });
}

#[test]
fn lazy_cpus_are_spared() {
    with_machine(tuning(FlushBatching::Lazy, 32, 64), |machine| {
        (1..CPUS).for_each(|cpu| machine.lazy[usize::from(cpu)].set(true));
        assert_eq!(reclaim(machine, 0..7, false), []);
        machine.on(0).forget_all();
        assert_eq!(machine.on(0).unpark(&mut |_| {}), 7);
        assert_eq!(reclaim(machine, 8..16, true).len(), 8);
        assert_eq!(machine.interrupts.get(), 0);
        assert!(machine.memory.tlb().stats().lazy_spared >= 3);
        machine.on(0).flush_tables(&machine.cpus(0));
        assert_eq!(machine.interrupts.get(), 3);
    });
}

#[test]
fn what_may_have_been_stored_to_is_never_parked() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..2, true).len(), 2);
        let writable = |machine: &Machine<'_, '_>| {
            let mut slots = slots();
            let mut batch = machine.on(0).batch(&mut slots);
            let translation = Translation {
                cpus: &machine.cpus(0),
                writable: true,
                dirty: false,
                space: 0,
                page: 9,
                owed_space: &machine.owed[0],
                owed_file: None,
            };
            batch.add(Pfn::new(9), &translation);
            batch.retire(Pfn::new(9)).unwrap();
            let dirty = batch.is_dirty();
            batch.finish(&mut |_| {});
            dirty
        };
        assert!(!writable(machine));
        assert_eq!(machine.memory.tlb().parked(), 1);
        machine.stores_fault.set(false);
        assert!(writable(machine));
        assert_eq!(machine.memory.tlb().parked(), 0, "the flush has served both");
    });
}

#[test]
fn what_was_not_given_up_is_flushed_before_it_is_let_go() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        (0..CPUS).for_each(|cpu| (0..2).for_each(|page| machine.read(cpu, page)));
        let (mut slots, mut got) = (slots(), 0);
        let mut batch = machine.on(0).batch(&mut slots);
        (0..2).for_each(|page| machine.unmap(&mut batch, 0, page, false));
        batch.retire(Pfn::new(0)).unwrap();
        batch.finish(&mut |frames| got += frames.len());
        assert_eq!((got, machine.interrupts.get()), (1, 3));
        assert!(!machine.anyone_reaches(0, 1));
    });
}

#[test]
fn dirty_batches_are_flushed_before_pages_are_written_out() {
    with_machine(tuning(FlushBatching::All, 32, 0), |machine| {
        (0..CPUS).for_each(|cpu| (0..3).for_each(|page| machine.read(cpu, page)));
        let mut slots = slots();
        let mut batch = machine.on(0).batch(&mut slots);
        machine.unmap(&mut batch, 0, 0, false);
        batch.flush_if_dirty();
        assert!(machine.reaches(1, 0, 0) && batch.is_pending());
        machine.unmap(&mut batch, 0, 1, true);
        batch.flush_if_dirty();
        assert!(!machine.anyone_reaches(0, 0) && !machine.anyone_reaches(0, 1));
        assert!(!batch.is_pending() && !batch.is_dirty());
        machine.unmap(&mut batch, 0, 2, false);
        batch.flush();
        assert!(!machine.anyone_reaches(0, 2));
        batch.finish(&mut |_| panic!("nothing was given up"));
    });
}

#[test]
fn whoever_else_changes_the_same_settles() {
    for batching in [FlushBatching::All, FlushBatching::Lazy] {
        with_machine(tuning(batching, 32, 64), |machine| {
            assert!(!machine.on(1).settle(&machine.file));
            reclaim(machine, 0..4, false);
            assert!(machine.anyone_reaches(0, 1) && machine.file.is_owed());
            assert!(machine.on(1).settle(&machine.owed[0]));
            assert!((0..4).all(|page| !machine.anyone_reaches(0, page)));
            let sent = machine.interrupts.get();
            assert!(!machine.on(2).settle(&machine.file), "everybody has flushed");
            assert_eq!((sent, machine.interrupts.get()), (3, 3));
            assert!(!machine.file.is_owed());
        });
    }
}

#[test]
fn a_full_batch_flushes_at_once_what_it_cannot_note() {
    with_machine(tuning(FlushBatching::All, 2, 0), |machine| {
        (0..CPUS).for_each(|cpu| (0..3).for_each(|page| machine.read(cpu, page)));
        let mut slots = slots();
        let mut batch = machine.on(0).batch(&mut slots);
        (0..3).for_each(|page| machine.unmap(&mut batch, 0, page, false));
        assert!(batch.is_full() && machine.reaches(1, 0, 1) && !machine.anyone_reaches(0, 2));
        assert_eq!(batch.retire(Pfn::new(2)), Err(Pfn::new(2)));
        assert_eq!(batch.retire(Pfn::new(1)), Ok(()));
    });
}

#[test]
fn a_dropped_batch_loses_nothing_where_it_may_wait() {
    for may_wait in [true, false] {
        with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
            machine.may_wait.set(may_wait);
            (0..CPUS).for_each(|cpu| machine.read(cpu, 0));
            let mut slots = slots();
            let mut batch = machine.on(0).batch(&mut slots);
            machine.unmap(&mut batch, 0, 0, true);
            machine.unmap(&mut batch, 0, 1, true);
            batch.retire(Pfn::new(0)).unwrap();
            drop(batch);
            assert_eq!(machine.anyone_reaches(0, 0), !may_wait);
            let reports = machine.memory.platform().0.lock().unwrap().clone();
            assert_eq!(reports.len(), usize::from(!may_wait), "{reports:?}");
            assert!(reports.iter().all(|report| report.pfn == Pfn::new(1) && report.count == 1));
            let mut got = Vec::new();
            machine.on(0).unpark_all(&mut |frames| got.extend_from_slice(frames));
            assert_eq!(got, [Pfn::new(0)]);
            assert!(!machine.anyone_reaches(0, 0));
        });
    }
}

#[test]
fn cpus_that_look_in_now_and_then_are_never_interrupted() {
    let interrupts = |batching, batch, ticks: bool| {
        let mut sent = 0;
        with_machine(tuning(batching, batch, 16), |machine| {
            for round in 0..64 {
                reclaim(machine, (round % 8) * 4..(round % 8) * 4 + 4, false);
                if ticks {
                    (1..CPUS).for_each(|cpu| _ = machine.on(cpu).tick());
                }
            }
            sent = machine.interrupts.get();
        });
        sent
    };
    assert_eq!(interrupts(FlushBatching::All, 16, true), 64 / 4 * 3);
    assert_eq!(interrupts(FlushBatching::Lazy, 32, true), 0);
    let without = interrupts(FlushBatching::Lazy, 32, false);
    // A flush is due when three quarters of what may be parked are.
    assert!((1..=64 / 3 * 3).contains(&without), "{without}");
}

/// Whatever happens in whatever order: nobody reaches a frame that was handed out, everything given
/// up is handed out once, and no more is parked than may be.
#[test]
fn nobody_reaches_what_was_handed_out() {
    for seed in 0..if cfg!(miri) { 2 } else { 300 } {
        let batching = [FlushBatching::All, FlushBatching::Lazy, FlushBatching::CleanOnly];
        let batching = batching[seed as usize % 3];
        with_machine(tuning(batching, 5, 12), |machine| random_life(machine, seed));
    }
}

fn random_life(machine: &Machine<'_, '_>, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    // Page N of both spaces is in frame N while it is in one.
    let resident = RefCell::new(BTreeSet::new());
    let free = RefCell::new((0..PAGES).collect::<BTreeSet<_>>());
    let receive = |frames: &[Pfn]| {
        for frame in frames.iter().map(|frame| frame.get()) {
            assert!(!machine.anyone_reaches(0, frame) && !machine.anyone_reaches(1, frame));
            assert!(free.borrow_mut().insert(frame), "frame {frame} is handed out twice");
        }
    };
    for _ in 0..400 {
        let (cpu, page) = (random(u64::from(CPUS)) as u16, random(PAGES));
        let at = usize::from(cpu);
        match random(8) {
            0 => machine.load(cpu, random(2)),
            1 => machine.lazy[at].set(true),
            2 => machine.on(cpu).forget_all(),
            3 => {
                let which = [&machine.owed[0], &machine.owed[1], &machine.file];
                machine.on(cpu).settle(which[random(3) as usize]);
            }
            4 => {
                let all = random(2) == 0;
                let flusher = machine.on(cpu);
                let _ = if all {
                    flusher.unpark_all(&mut { receive })
                } else {
                    flusher.unpark(&mut { receive })
                };
            }
            5 => {
                let (mut slots, mut count) = (slots(), 0);
                let mut batch = machine.on(cpu).batch(&mut slots);
                for page in page..PAGES.min(page + random(5)) {
                    if resident.borrow().contains(&page) {
                        (0..2).for_each(|space| {
                            machine.unmap(&mut batch, space, page, random(6) == 0);
                        });
                        if random(8) > 0 && batch.retire(Pfn::new(page)).is_ok() {
                            resident.borrow_mut().remove(&page);
                            count += 1;
                        }
                    }
                }
                batch.finish(&mut { receive });
                assert!(machine.memory.tlb().parked() <= 12 + count);
            }
            _ if machine.lazy[at].get() => {}
            _ => {
                if free.borrow_mut().remove(&page) {
                    resident.borrow_mut().insert(page);
                }
                if resident.borrow().contains(&page) {
                    machine.read(cpu, page);
                }
            }
        }
    }
    machine.on(0).unpark_all(&mut { receive });
    assert_eq!(free.borrow().len() + resident.borrow().len(), PAGES as usize);
    assert!(machine.memory.platform().0.lock().unwrap().is_empty());
}
