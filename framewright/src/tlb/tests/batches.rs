//! The number of interrupts that batches cause, and CPUs that are not interrupted.

use super::*;

#[test]
fn a_page_at_a_time_takes_an_interrupt_per_cpu_and_page() {
    with_machine(tuning(FlushBatching::Off, 32, 0), |machine| {
        assert_eq!(reclaim(machine, 0..8, false), (0..8).collect::<Vec<_>>());
        assert_eq!(machine.interrupts.get(), 8 * 3);
        assert_eq!(machine.memory.tlb().stats().nr_tlb_local_flush_one, 8);
    });
}

#[test]
fn clean_only_flushes_dirty_pages_at_once() {
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
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().deferred()), (0, 12));
        assert_eq!(reclaim(machine, 12..18, false).len(), 18);
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().deferred()), (3, 0));
    });
}

#[test]
fn lazy_batches_are_flushed_together_when_they_are_needed() {
    with_machine(tuning(FlushBatching::Lazy, 32, 128), |machine| {
        assert_eq!(reclaim(machine, 0..8, false), []);
        assert_eq!(reclaim(machine, 8..16, false), []);
        assert_eq!(machine.memory.tlb().deferred(), 16);
        assert!(machine.has_cached(2, 0, 5), "the entry was flushed too early");
        let mut got = 0;
        assert_eq!(machine.on(1).drain_flushed_frames(&mut |_| panic!("too early")), 0);
        assert_eq!(machine.on(1).drain_deferred_frames(&mut |frames| got += frames.len()), 16);
        assert_eq!((got, machine.interrupts.get()), (16, 3));
        assert!(!machine.any_cpu_has_cached(0, 5));
    });
}

#[test]
fn batches_of_one_page_are_deferred_like_large_ones() {
    with_machine(tuning(FlushBatching::Lazy, 32, 128), |machine| {
        for page in 0..96 {
            assert_eq!(reclaim(machine, page..page + 1, false), [], "page {page}");
        }
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().deferred()), (0, 96));
        assert_eq!(reclaim(machine, 96..97, false).len(), 97, "one flush has not served all");
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().deferred()), (3, 0));
    });
}

#[test]
fn batches_for_changing_cpus_are_deferred_as_well() {
    with_machine(tuning(FlushBatching::Lazy, 32, 128), |machine| {
        for page in 0..96 {
            machine.load(2, page % 2);
            // CPU 3 uses space 0 only when the ring of groups is full already.
            machine.load(3, u64::from(page < 48));
            assert_eq!(reclaim(machine, page..page + 1, false), [], "page {page}");
        }
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().deferred()), (0, 96));
        assert_eq!(reclaim(machine, 96..97, false).len(), 97);
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().deferred()), (3, 0));
    });
}

#[test]
fn a_lazy_batch_that_finds_no_room_is_flushed_with_all_deferred() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..10, false), []);
        assert_eq!(reclaim(machine, 10..20, false).len(), 20);
        assert_eq!((machine.interrupts.get(), machine.memory.tlb().deferred()), (3, 0));
    });
}

#[test]
fn a_flush_at_the_limit_is_for_the_older_half() {
    with_machine(tuning(FlushBatching::Lazy, 32, 128), |machine| {
        machine.load(1, 1);
        assert_eq!(reclaim(machine, 0..8, false), []);
        machine.load(1, 0);
        assert_eq!(reclaim(machine, 8..16, false), []);
        let mut freed = 0;
        machine.on(0).limit_deferred(8, &mut |frames| freed += frames.len());
        // Only CPU 1 has cached the younger half alone, so only CPU 1 is not interrupted.
        assert_eq!((freed, machine.interrupts.get(), machine.memory.tlb().deferred()), (8, 2, 8));
    });
}

#[test]
fn pages_beyond_the_bound_are_flushed_at_once() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        let tlb = machine.memory.tlb();
        // Reservations of batches on other CPUs.
        assert_eq!(
            [tlb.reserve_unflushed(382), tlb.reserve_unflushed(9), tlb.reserve_unflushed(1)],
            [382, 2, 0]
        );
        assert_eq!(reclaim(machine, 0..4, false).len(), 4);
        assert_eq!(machine.interrupts.get(), 4 * 3);
        tlb.release_reserved(2);
        assert_eq!(reclaim(machine, 4..8, false).len(), 2);
        assert_eq!((machine.interrupts.get(), tlb.deferred()), (6 * 3, 2));
        assert_eq!(tlb.reserve_unflushed(9), 0, "deferred frames count as well");
        tlb.release_reserved(382);
        assert_eq!(reclaim(machine, 8..12, false), []);
        assert_eq!((machine.interrupts.get(), tlb.deferred()), (6 * 3, 6));
        assert_eq!(tlb.reserve_unflushed(400), 378, "a batch that has ended holds a reservation");
        assert_eq!(tlb.stats().unflushed_frames_max, 384);
    });
}

#[test]
fn a_failed_flush_leaves_deferred_frames_to_the_next_cpu() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..10, false), []);
        machine.fails.set(true);
        let flush_deferred = || machine.on(0).limit_deferred(0, &mut |_| ());
        assert!(catch_unwind(AssertUnwindSafe(flush_deferred)).is_err());
        machine.fails.set(false);
        // The other CPUs serve the requests that were posted to them.
        (1..CPUS).for_each(|cpu| machine.on(cpu).serve());
        let mut freed = 0;
        machine.on(0).limit_deferred(0, &mut |frames| freed += frames.len());
        assert_eq!((freed, machine.memory.tlb().deferred()), (10, 0));
    });
}

#[test]
fn a_cpu_that_has_flushed_since_is_not_interrupted() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..8, false), []);
        machine.load(1, 1);
        machine.on(2).flush_local();
        assert!(machine.has_cached(3, 0, 3), "CPU 3 has cached the page, CPU 0 has flushed");
        assert!(!machine.on(0).tick() && machine.on(3).tick() && !machine.on(3).tick());
        assert_eq!(machine.on(0).drain_flushed_frames(&mut |_| {}), 8);
        assert_eq!(machine.interrupts.get(), 0);
    });
}

#[test]
fn a_tick_does_nothing_where_a_flush_interrupts_other_cpus() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        machine.has_local_flush.set(false);
        assert_eq!(reclaim(machine, 0..8, false), []);
        assert!((0..CPUS).all(|cpu| machine.has_cached(cpu, 0, 3) && !machine.on(cpu).tick()));
    });
}

#[test]
fn a_flush_of_some_pages_does_not_count_as_a_full_flush() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        assert_eq!(reclaim(machine, 0..4, false), []);
        machine.on(0).flush(&machine.cpus(0), Scope::page(0, 9));
        assert_eq!(machine.interrupts.get(), 3);
        assert_eq!(
            machine.on(0).drain_flushed_frames(&mut |_| panic!("all CPUs have cached them")),
            0
        );
        machine.on(0).flush(&machine.cpus(0), Scope::Everything);
        assert_eq!(machine.on(0).drain_flushed_frames(&mut |_| {}), 4);
    });
}

#[test]
fn a_full_flush_covers_pages_unmapped_before_it_began() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        // SAFETY: no frame that this CPU had a translation to is freed here.
        #[allow(unsafe_code)]
        unsafe {
            machine.on(1).record_full_flush(|| assert_eq!(reclaim(machine, 0..4, false), []));
        }
        [0, 2, 3].into_iter().for_each(|cpu| machine.on(cpu).flush_local());
        assert_eq!(machine.on(0).drain_flushed_frames(&mut |_| panic!("CPU 1 has cached them")), 0);
        machine.load(1, 0);
        assert_eq!(machine.on(0).drain_flushed_frames(&mut |_| {}), 4);
    });
}

#[test]
fn lazy_cpus_are_skipped() {
    with_machine(tuning(FlushBatching::Lazy, 32, 64), |machine| {
        (1..CPUS).for_each(|cpu| machine.lazy[usize::from(cpu)].set(true));
        assert_eq!(reclaim(machine, 0..7, false), []);
        machine.on(0).flush_local();
        assert_eq!(machine.on(0).drain_flushed_frames(&mut |_| {}), 7);
        assert_eq!(reclaim(machine, 8..16, true).len(), 8);
        assert_eq!(machine.interrupts.get(), 0);
        assert!(machine.memory.tlb().stats().lazy_skipped >= 3);
        machine.on(0).flush_tables(&machine.cpus(0));
        assert_eq!(machine.interrupts.get(), 3);
    });
}

#[test]
fn cpus_with_regular_ticks_are_never_interrupted() {
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
    // A flush is due when three quarters of the maximum number of frames are deferred.
    assert!((1..=64 / 3 * 3).contains(&without), "{without}");
}

/// More frames than are freed under one hold of the zone lock.
#[test]
fn any_number_of_frames_goes_to_their_zone() {
    with_machine(tuning(FlushBatching::Off, 32, 0), |machine| {
        let memory = machine.memory;
        for count in [1, 64, 65, 200] {
            let before = memory.free();
            let single = crate::Request::new(Order::ZERO, crate::MigrateType::Movable);
            let alloc = |_| memory.alloc_bypassing_lists(single).unwrap().into_raw().0;
            let frames: Vec<Pfn> = (0..count).map(alloc).collect();
            memory.core.free_frames_to_zones(CpuId::new(0), &frames);
            assert_eq!(memory.free(), before, "{count} frames");
            memory.check().unwrap();
        }
    });
}
