//! Hooks of the machine that panic: a flush that was not made does not count as made, and no CPU
//! waits for ever.

use super::*;

/// CPU 0 has CPU 1 flush page 1, and CPU 1 panics instead.
fn fail_to_serve(machine: &Machine<'_, '_>) {
    (1..3).for_each(|page| machine.read(1, page));
    machine.invalidate_fails.set(Some(CpuId::new(1)));
    let one = [CpuId::new(1)].into_iter().collect();
    let flush = || machine.on(0).flush(&one, Scope::page(0, 1));
    assert!(catch_unwind(AssertUnwindSafe(flush)).is_err());
    assert!(machine.has_cached(1, 0, 1));
    assert_eq!(machine.memory.platform().1.load(Relaxed), 0, "interrupts stay masked");
}

#[test]
fn a_request_that_was_not_served_is_served_with_the_next() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        fail_to_serve(machine);
        let one = [CpuId::new(1)].into_iter().collect();
        // The machine panics if a CPU waits.
        machine.on(2).flush(&one, Scope::page(0, 2));
        assert!(!machine.has_cached(1, 0, 1), "the earlier request was not served");
        assert!(!machine.has_cached(1, 0, 2));
        assert_eq!(machine.interrupts.get(), 2);
    });
}

#[test]
fn a_cpu_that_failed_to_serve_can_serve_again_by_itself() {
    with_machine(tuning(FlushBatching::Lazy, 32, 16), |machine| {
        fail_to_serve(machine);
        machine.on(1).serve();
        assert!(!machine.has_cached(1, 0, 1) && !machine.has_cached(1, 0, 2));
        machine.read(1, 3);
        machine.on(1).serve();
        assert!(
            machine.has_cached(1, 0, 3),
            "a request that was served already caused another flush"
        );
    });
}
