//! A deferred flush of one allocator, used with another.

use super::*;

fn with_two(test: impl FnOnce(&Machine<'_, '_>, &Machine<'_, '_>)) {
    let lazily = || tuning(FlushBatching::Lazy, 32, 16);
    with_machine(lazily(), |one| with_machine(lazily(), |other| test(one, other)));
}

/// Unmaps page 1 of space 0, which all CPUs have read, and leaves its flush pending in `one.file`.
fn defer_flush(one: &Machine<'_, '_>) {
    (0..CPUS).for_each(|cpu| one.read(cpu, 1));
    let mut slots = slots();
    let mut batch = one.on(0).batch(&mut slots);
    one.unmap(&mut batch, 0, 1, false);
    batch.retire_frame(Pfn::new(1)).unwrap();
    batch.finish_frames(&mut |_| panic!("the frame was freed before the flush"));
}

#[test]
fn a_deferred_flush_of_one_memory_is_not_made_through_another() {
    with_two(|one, other| {
        // The epochs of the other allocator are ahead.
        (0..CPUS).for_each(|cpu| (0..9).for_each(|_| other.on(cpu).flush_local()));
        (0..9).for_each(|_| other.on(0).flush_tables(&CpuMask::EMPTY));
        (0..CPUS).for_each(|cpu| other.on(cpu).flush_local());
        defer_flush(one);
        // The other allocator cannot compare epochs, so it flushes all CPUs.
        assert!(other.on(0).flush_deferred(&one.file));
        assert_eq!(other.interrupts.get(), 3);
        assert!(one.on(0).flush_deferred(&one.file));
        assert!(!one.any_cpu_has_cached(0, 1));
        assert!(!other.on(0).flush_deferred(&one.file), "a flush is still pending");
    });
}

#[test]
fn a_second_memory_records_nothing_in_a_deferred_flush() {
    with_two(|one, other| {
        defer_flush(one);
        (0..CPUS).for_each(|cpu| other.read(cpu, 1));
        let mut slots = slots();
        let mut batch = other.on(0).batch(&mut slots);
        let translation = Translation {
            cpus: &other.cpus(0),
            writable: false,
            dirty: false,
            space: 0,
            page: 1,
            space_flush: &other.space_flushes[0],
            file_flush: Some(&one.file),
        };
        batch.add(Pfn::new(1), &translation);
        assert!(!other.any_cpu_has_cached(0, 1), "the entry was not flushed at once");
        assert!(!batch.is_pending());
    });
}
