//! Dirty pages and pending flushes: no store is lost, and no flush is deferred for too long.

use super::*;

#[test]
fn dirty_pages_are_never_deferred() {
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
                space_flush: &machine.space_flushes[0],
                file_flush: None,
            };
            batch.add(Pfn::new(9), &translation);
            batch.retire_frame(Pfn::new(9)).unwrap();
            let dirty = batch.is_dirty();
            batch.finish_frames(&mut |_| {});
            dirty
        };
        assert!(!writable(machine));
        assert_eq!(machine.memory.tlb().deferred(), 1);
        machine.stores_fault.set(false);
        assert!(writable(machine));
        assert_eq!(machine.memory.tlb().deferred(), 0, "the flush has not served both");
    });
}

#[test]
fn pages_that_are_kept_are_flushed_when_the_batch_ends() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        (0..CPUS).for_each(|cpu| (0..2).for_each(|page| machine.read(cpu, page)));
        let (mut slots, mut got) = (slots(), 0);
        let mut batch = machine.on(0).batch(&mut slots);
        (0..2).for_each(|page| machine.unmap(&mut batch, 0, page, false));
        batch.retire_frame(Pfn::new(0)).unwrap();
        batch.finish_frames(&mut |frames| got += frames.len());
        assert_eq!((got, machine.interrupts.get()), (1, 3));
        assert!(!machine.any_cpu_has_cached(0, 1));
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
        assert!(machine.has_cached(1, 0, 0) && batch.is_pending());
        machine.unmap(&mut batch, 0, 1, true);
        batch.flush_if_dirty();
        assert!(!machine.any_cpu_has_cached(0, 0) && !machine.any_cpu_has_cached(0, 1));
        assert!(!batch.is_pending() && !batch.is_dirty());
        machine.unmap(&mut batch, 0, 2, false);
        batch.flush();
        assert!(!machine.any_cpu_has_cached(0, 2));
        batch.finish_frames(&mut |_| panic!("nothing was retired"));
    });
}

#[test]
fn a_pending_flush_is_made_before_page_tables_or_contents_change() {
    for batching in [FlushBatching::All, FlushBatching::Lazy] {
        with_machine(tuning(batching, 32, 64), |machine| {
            assert!(!machine.on(1).flush_deferred(&machine.file));
            reclaim(machine, 0..4, false);
            assert!(machine.any_cpu_has_cached(0, 1) && machine.file.is_pending());
            assert!(machine.on(1).flush_deferred(&machine.space_flushes[0]));
            assert!((0..4).all(|page| !machine.any_cpu_has_cached(0, page)));
            let sent = machine.interrupts.get();
            assert!(
                !machine.on(2).flush_deferred(&machine.file),
                "a second call flushed although all CPUs have flushed"
            );
            assert_eq!((sent, machine.interrupts.get()), (3, 3));
            assert!(!machine.file.is_pending());
        });
    }
}

#[test]
fn a_full_batch_flushes_further_pages_at_once() {
    with_machine(tuning(FlushBatching::All, 2, 0), |machine| {
        (0..CPUS).for_each(|cpu| (0..3).for_each(|page| machine.read(cpu, page)));
        let mut slots = slots();
        let mut batch = machine.on(0).batch(&mut slots);
        (0..3).for_each(|page| machine.unmap(&mut batch, 0, page, false));
        assert!(
            batch.is_full() && machine.has_cached(1, 0, 1) && !machine.any_cpu_has_cached(0, 2)
        );
        assert_eq!(batch.retire_frame(Pfn::new(2)), Err(Pfn::new(2)));
        assert_eq!(batch.retire_frame(Pfn::new(1)), Ok(()));
    });
}

#[test]
fn a_dropped_batch_loses_no_frame_where_it_may_wait() {
    for may_wait in [true, false] {
        with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
            machine.may_wait.set(may_wait);
            (0..CPUS).for_each(|cpu| machine.read(cpu, 0));
            let mut slots = slots();
            let mut batch = machine.on(0).batch(&mut slots);
            machine.unmap(&mut batch, 0, 0, true);
            machine.unmap(&mut batch, 0, 1, true);
            batch.retire_frame(Pfn::new(0)).unwrap();
            drop(batch);
            assert_eq!(machine.any_cpu_has_cached(0, 0), !may_wait);
            let reports = machine.memory.platform().0.lock().unwrap().clone();
            assert_eq!(reports.len(), usize::from(!may_wait), "{reports:?}");
            assert!(reports.iter().all(|report| report.pfn == Pfn::new(1) && report.count == 1));
            let mut got = Vec::new();
            machine.on(0).drain_deferred_frames(&mut |frames| got.extend_from_slice(frames));
            assert_eq!(got, [Pfn::new(0)]);
            assert!(!machine.any_cpu_has_cached(0, 0));
        });
    }
}
