use super::*;

#[test]
fn locks_exclude_and_are_handed_over_in_order() {
    let machine = Machine::new(4, Options::default());
    let order = RefCell::new(Vec::new());
    let lock = Cell::new(None);
    let programs = (0..4u64).map(|_| -> Program<'_> {
        Box::new(|cpu: Cpu<'_>| {
            if lock.get().is_none() {
                lock.set(Some(cpu.new_lock()));
            }
            let lock = lock.get().unwrap();
            cpu.work(10 * u64::from(cpu.id().get()));
            cpu.lock(lock);
            order.borrow_mut().push((cpu.id().get(), cpu.now()));
            cpu.work(100);
            cpu.unlock(lock);
        })
    });
    machine.run(programs.collect()).unwrap();
    assert_eq!(*order.borrow(), [(0, 0), (1, 100), (2, 200), (3, 300)]);
    let stats = machine.lock_stats();
    assert_eq!((stats.acquisitions, stats.contended), (4, 3));
    assert_eq!((stats.hold_cycles, stats.wait_cycles), (400, 90 + 180 + 270));
}

#[test]
fn interrupts_reach_cpus_that_have_ended() {
    let machine = Machine::new(3, Options::default());
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    let handler: Handler = Rc::new(move |cpu| log.borrow_mut().push(cpu.id().get()));
    machine
        .run(vec![
            Box::new(|cpu: Cpu<'_>| {
                cpu.work(50);
                cpu.interrupt([CpuId::new(1), CpuId::new(2)], &handler);
            }),
            Box::new(|_| {}),
            Box::new(|cpu: Cpu<'_>| cpu.work(1000)),
        ])
        .unwrap();
    assert_eq!(*seen.borrow(), [1, 2]);
}

#[test]
fn a_deadlock_is_reported() {
    let machine = Machine::new(1, Options::default());
    let waits = |cpu: Cpu<'_>| {
        let word = cpu.new_word(0);
        while cpu.load(word) == 0 {
            cpu.wait_for_change();
        }
    };
    assert_eq!(machine.run(vec![Box::new(waits)]), Err(Failure::Deadlock));
    assert_eq!(machine.run(vec![Box::new(|cpu: Cpu<'_>| cpu.work(1))]), Ok(()));
}

#[test]
fn a_cpu_is_used_by_its_own_program_only() {
    let machine = Machine::new(2, Options::default());
    let kept = Cell::new(None);
    let keeps = |_: Cpu<'_>| kept.set(machine.current());
    let takes = |cpu: Cpu<'_>| {
        cpu.work(10);
        cpu.step();
        let other: Cpu<'_> = kept.get().unwrap();
        other.work(1_000_000);
        other.sleep_until(2_000_000);
    };
    let failure = machine.run(vec![Box::new(keeps), Box::new(takes)]).unwrap_err();
    assert!(failure.to_string().contains("used by a program that does not run on it"), "{failure}");
}

#[test]
fn only_the_holder_of_a_lock_releases_it() {
    let machine = Machine::new(1, Options::default());
    let lock = machine.new_lock(LockClass::Program);
    let failure = machine.run(vec![Box::new(|cpu: Cpu<'_>| cpu.unlock(lock))]).unwrap_err();
    assert!(matches!(failure, Failure::Panicked { .. }), "{failure}");
}

#[test]
fn an_observer_that_panics_or_runs_the_machine_fails_the_run() {
    let machine = Machine::new(1, Options::default());
    let observers: [&dyn Fn(); 2] = [&|| panic!("seen"), &|| drop(machine.run(Vec::new()))];
    for look in observers {
        let caught = std::cell::Cell::new(false);
        let program = |cpu: Cpu<'_>| {
            let look = || machine.observe(look);
            caught.set(std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err());
            cpu.work(1);
        };
        assert_eq!(machine.run(vec![Box::new(program)]), Ok(()));
        assert!(caught.get());
    }
}

mod hunting;
mod observing;
mod timing;
