//! Schedules that look for bugs, and the decisions they make.

use super::*;
use std::collections::BTreeSet;

fn hunting(schedule: Schedule) -> Options {
    Options { schedule, store_buffers: true, late_interrupts: true, ..Options::default() }
}

/// Dekker's protocol: both CPUs store to their own word, then load the other's. Returns the loaded
/// values.
fn dekker(machine: &Machine, fence: bool) -> (u32, u32) {
    let words = [machine.engine().new_word(0), machine.engine().new_word(0)];
    let seen = [Cell::new(9), Cell::new(9)];
    let program = |me: usize| -> Program<'_> {
        let (words, seen) = (&words, &seen);
        Box::new(move |cpu| {
            cpu.store(words[me], 1);
            if fence {
                cpu.fence();
            }
            seen[me].set(cpu.load(words[1 - me]));
        })
    };
    machine.run(vec![program(0), program(1)]).unwrap();
    assert!(words.iter().all(|word| machine.engine().peek(*word) == 1));
    (seen[0].get(), seen[1].get())
}

/// All outcomes of all schedules within a bound, and the number of schedules.
fn outcomes(bound: u32, options: &Options, fence: bool) -> (BTreeSet<(u32, u32)>, u64) {
    let machine = Machine::new(2, options.clone());
    let mut search = Exhaustive::new(bound);
    let mut outcomes = BTreeSet::new();
    while let Some(schedule) = search.next() {
        machine.restart(schedule);
        outcomes.insert(dekker(&machine, fence));
    }
    (outcomes, search.tried())
}

#[test]
fn only_store_buffers_let_both_sides_of_dekker_pass() {
    let buffered = hunting(Schedule::Random(0));
    let plain = Options { store_buffers: false, ..buffered.clone() };
    let fair = BTreeSet::from([(0, 1), (1, 0), (1, 1)]);
    assert_eq!(outcomes(3, &plain, false).0, fair);
    assert_eq!(outcomes(3, &buffered, true).0, fair);
    let (relaxed, tried) = outcomes(3, &buffered, false);
    assert!(relaxed.contains(&(0, 0)) && relaxed.len() == 4, "{relaxed:?}");
    assert_eq!(outcomes(3, &buffered, false), (relaxed, tried));
    assert!(outcomes(1, &buffered, false).1 < tried);
}

#[test]
fn stores_reach_memory_in_their_order() {
    let machine = Machine::new(2, hunting(Schedule::Clock));
    let (mut search, mut seen) = (Exhaustive::new(3), BTreeSet::new());
    while let Some(schedule) = search.next() {
        machine.restart(schedule);
        let [data, flag] = [0, 0].map(|value| machine.engine().new_word(value));
        let outcome = Cell::new((9, 9));
        let writes = |cpu: Cpu<'_>| {
            cpu.store(data, 1);
            cpu.store(flag, 1);
        };
        let reads = |cpu: Cpu<'_>| outcome.set((cpu.load(flag), cpu.load(data)));
        machine.run(vec![Box::new(writes), Box::new(reads)]).unwrap();
        seen.insert(outcome.get());
    }
    assert_eq!(seen, BTreeSet::from([(0, 0), (0, 1), (1, 1)]));
}

#[test]
fn a_compare_exchange_comes_after_the_stores_before_it() {
    let machine = Machine::new(1, hunting(Schedule::Clock));
    let mut search = Exhaustive::new(3);
    while let Some(schedule) = search.next() {
        machine.restart(schedule);
        let word = machine.engine().new_word(0);
        let program = |cpu: Cpu<'_>| {
            cpu.store(word, 1);
            assert_eq!(cpu.compare_exchange(word, 1, 2), Ok(1));
            assert_eq!((cpu.load(word), cpu.compare_exchange(word, 1, 3)), (2, Err(2)));
        };
        machine.run(vec![Box::new(program)]).unwrap();
        assert_eq!(machine.engine().peek(word), 2);
    }
    assert!(search.tried() > 1);
}

#[test]
fn any_seed_can_be_repeated_from_its_choices() {
    let mut seen = BTreeSet::new();
    for seed in 0..64 {
        let schedules = [Schedule::Random(seed), Schedule::Pct { seed, depth: 3, steps: 10 }];
        for schedule in schedules {
            let machine = Machine::new(2, hunting(schedule));
            let outcome = dekker(&machine, false);
            let choices = machine.choices();
            let again = Schedule::Replay(choices.clone()).to_string().parse().unwrap();
            let again = Machine::new(2, hunting(again));
            assert_eq!(
                (dekker(&again, false), again.fingerprint()),
                (outcome, machine.fingerprint())
            );
            seen.insert(outcome);
        }
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn restarting_is_like_starting() {
    let machine = Machine::new(2, hunting(Schedule::Random(1)));
    for seed in 0..8 {
        machine.restart(Schedule::Random(seed));
        let outcome = (dekker(&machine, false), machine.fingerprint(), machine.steps());
        let fresh = Machine::new(2, hunting(Schedule::Random(seed)));
        assert_eq!((dekker(&fresh, false), fresh.fingerprint(), fresh.steps()), outcome);
    }
}

#[test]
fn a_change_between_check_and_wait_is_not_missed() {
    let machine = Machine::new(2, Options::default());
    let [word, other] = [0, 0].map(|value| machine.engine().new_word(value));
    let waiter = |cpu: Cpu<'_>| {
        while cpu.load(word) == 0 {
            // Long enough that the other CPU stores before this one waits.
            cpu.work(100);
            cpu.step();
            cpu.load(other);
            cpu.wait_for_change();
        }
    };
    let storer = |cpu: Cpu<'_>| {
        cpu.work(50);
        cpu.store(word, 1);
    };
    assert_eq!(machine.run(vec![Box::new(waiter), Box::new(storer)]), Ok(()));
}

/// Sends an interrupt to a CPU that makes ten steps. Returns the number of these steps at whose end
/// the interrupt was pending.
fn delayed(seed: u64, late_interrupts: bool) -> u32 {
    let options = Options { late_interrupts, ..hunting(Schedule::Random(seed)) };
    let machine = Machine::new(2, options);
    let (served, delayed) = (Rc::new(Cell::new(false)), Cell::new(0));
    let handler: Handler = {
        let served = Rc::clone(&served);
        Rc::new(move |_| served.set(true))
    };
    let sends = |cpu: Cpu<'_>| {
        cpu.interrupt([CpuId::new(1)], &handler);
        assert!(served.get(), "the sender did not wait for the handler");
    };
    let steps = |cpu: Cpu<'_>| {
        for _ in 0..10 {
            cpu.step();
            delayed.set(delayed.get() + u32::from(!cpu.state().mailbox.is_empty()));
        }
    };
    machine.run(vec![Box::new(sends), Box::new(steps)]).unwrap();
    delayed.get()
}

#[test]
fn interrupts_are_late_only_if_the_options_allow_it() {
    let most = |late| (0..200).map(|seed| delayed(seed, late)).max();
    assert!(most(true) > Some(2), "{:?}", most(true));
    assert_eq!(most(false), Some(0));
}

#[test]
fn a_cpu_that_relaxes_is_woken_by_progress_and_does_not_hang() {
    for schedule in
        [Schedule::Clock, Schedule::Random(3), Schedule::Pct { seed: 5, depth: 3, steps: 20 }]
    {
        let machine = Machine::new(2, hunting(schedule));
        let flag = Cell::new(false);
        let waiter = |cpu: Cpu<'_>| {
            while !flag.get() {
                cpu.relax();
            }
        };
        let setter = |cpu: Cpu<'_>| {
            cpu.step();
            flag.set(true);
        };
        machine.run(vec![Box::new(waiter), Box::new(setter)]).unwrap();
        flag.set(false);
        assert_eq!(machine.run(vec![Box::new(waiter)]), Err(Failure::Deadlock));
    }
}

#[test]
fn two_cpus_that_check_in_vain_let_a_third_one_run() {
    let mut search = Exhaustive::new(1);
    let machine = Machine::new(3, Options { most_steps: 10_000, ..hunting(Schedule::Clock) });
    while let Some(schedule) = search.next() {
        machine.restart(schedule);
        let (flag, lock) = (Cell::new(false), machine.new_lock(LockClass::Program));
        let checks = || -> Program<'_> {
            Box::new(|cpu| {
                while !flag.get() {
                    cpu.lock(lock);
                    cpu.unlock(lock);
                    cpu.relax();
                }
            })
        };
        let sets = |cpu: Cpu<'_>| {
            (0..5).for_each(|_| cpu.step());
            flag.set(true);
        };
        assert_eq!(machine.run(vec![checks(), checks(), Box::new(sets)]), Ok(()));
    }
    assert!(search.tried() > 20);
}

#[test]
fn an_endless_run_is_ended() {
    let machine = Machine::new(1, Options { most_steps: 50, ..hunting(Schedule::Random(1)) });
    let endless = |cpu: Cpu<'_>| loop {
        cpu.step();
    };
    assert_eq!(machine.run(vec![Box::new(endless)]), Err(Failure::Endless { steps: 51 }));
}

#[test]
fn rare_outcomes_are_forced_at_the_requested_rate() {
    let count = |schedule, seed| {
        let force = vec![(Site::Refill, 10)];
        let machine = Machine::new(1, Options { force, seed, ..hunting(schedule) });
        let forced = Cell::new(0);
        let program = |cpu: Cpu<'_>| {
            for _ in 0..1000 {
                forced.set(forced.get() + u32::from(cpu.forces(Site::Refill)));
                assert!(!cpu.forces(Site::Drain));
            }
        };
        machine.run(vec![Box::new(program)]).unwrap();
        forced.get()
    };
    for schedule in [Schedule::Clock, Schedule::Random(7)] {
        assert!((60..140).contains(&count(schedule, 1)));
    }
    assert_ne!(count(Schedule::Clock, 1), count(Schedule::Clock, 2));
}

#[test]
fn a_watch_runs_only_outside_of_sections() {
    let machine = Machine::new(2, hunting(Schedule::Random(2)));
    let (inside, calls) = (Cell::new(false), Cell::new(0));
    let section = SectionId { name: "zone", table: 0, index: 0 };
    let lock = machine.new_lock(LockClass::Program);
    let program = || -> Program<'_> {
        Box::new(|cpu| {
            for _ in 0..20 {
                cpu.lock(lock);
                cpu.enter(|| section);
                inside.set(true);
                cpu.step();
                inside.set(false);
                cpu.leave(|| section);
                cpu.unlock(lock);
            }
        })
    };
    let watch = || {
        calls.set(calls.get() + 1);
        if inside.get() { Err("a CPU is inside".to_owned()) } else { Ok(()) }
    };
    assert_eq!(machine.run_watched(vec![program(), program()], 1, &watch), Ok(()));
    assert!(calls.get() > 20);
    let never = || Err("nothing is right".to_owned());
    let failed = machine.run_watched(vec![program()], 1000, &never);
    assert_eq!(failed, Err(Failure::Invariant { what: "nothing is right".to_owned() }));
}

#[test]
fn two_cpus_in_one_section_are_reported() {
    let machine = Machine::new(2, hunting(Schedule::Random(4)));
    let section = SectionId { name: "zone", table: 1, index: 7 };
    let program = || -> Program<'_> {
        Box::new(|cpu| {
            for _ in 0..20 {
                cpu.enter(|| section);
                cpu.leave(|| section);
            }
        })
    };
    let failure = machine.run(vec![program(), program()]).unwrap_err();
    assert!(failure.to_string().contains("entered zone 7 while CPU"), "{failure}");
    // The next run starts with empty sections.
    assert_eq!(machine.run(vec![program()]), Ok(()));
}
