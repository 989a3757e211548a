//! Durations of operations, by the clock.

use super::*;

/// A line of the programs.
fn line(index: u32) -> Line {
    Line { family: Family::PROGRAM, member: 0, index }
}

/// Two sockets of two CPUs, with a node each. Every place of a line has a different cost.
fn model() -> Model {
    Model {
        sockets: vec![0, 0, 1, 1],
        nodes: vec![0, 0, 1, 1],
        lines: LineCosts {
            l2: 10,
            llc: 60,
            same_socket: 120,
            remote: 300,
            memory_local: 200,
            memory_remote: 360,
            parallel: 4,
            l1_lines: 4,
            l2_lines: 16,
            llc_lines: 16,
        },
        ..Model::free(4)
    }
}

/// A CPU, and its operation when it is its turn.
type Turn<'a> = (usize, Box<dyn Fn(Cpu<'_>) + 'a>);

/// Runs operations of several CPUs one after the other.
fn in_turn(machine: &Machine, turns: &[Turn<'_>]) {
    let turn = Cell::new(0);
    let program = |me: usize| -> Program<'_> {
        let turn = &turn;
        Box::new(move |cpu| {
            while turn.get() < turns.len() {
                if turns[turn.get()].0 == me {
                    turns[turn.get()].1(cpu);
                    turn.set(turn.get() + 1);
                }
                cpu.work(1000);
                cpu.step();
            }
        })
    };
    machine.run((0..4).map(program).collect()).unwrap();
}

/// The cycles of an access.
fn cost(cpu: Cpu<'_>, line: Line, access: Access, miss: Miss) -> u64 {
    let before = cpu.now();
    cpu.touch(line, access, miss);
    cpu.now() - before
}

fn expect<'a>(cpu: usize, index: u32, access: Access, cycles: u64) -> Turn<'a> {
    let check = move |cpu: Cpu<'_>| {
        assert_eq!(cost(cpu, line(index), access, Miss::Dependent), cycles, "line {index}");
    };
    (cpu, Box::new(check))
}

#[test]
fn a_line_costs_what_its_place_says() {
    use Access::{Read, Write};
    let machine = Machine::modelled(model(), Options::default());
    in_turn(
        &machine,
        &[
            expect(0, 1, Read, 200),
            expect(0, 1, Read, 0),
            // Modified in the same socket, then in the other one, and back.
            expect(0, 2, Write, 200),
            expect(1, 2, Write, 120),
            expect(2, 2, Write, 300),
            expect(0, 2, Read, 300),
            // Shared: CPU 2 has a copy, which has to be invalidated before CPU 0 writes.
            expect(0, 2, Write, 300),
            expect(0, 2, Write, 0),
            expect(2, 3, Read, 360),
        ],
    );
}

#[test]
fn lines_are_evicted_as_others_are_fetched() {
    let machine = Machine::modelled(model(), Options::default());
    let visit = |others: u32, cycles: u64| -> Turn<'static> {
        let check = move |cpu: Cpu<'_>| {
            cpu.touch(line(0), Access::Write, Miss::Dependent);
            cpu.pollute(others);
            assert_eq!(cost(cpu, line(0), Access::Read, Miss::Dependent), cycles, "{others}");
        };
        (0, Box::new(check))
    };
    in_turn(&machine, &[visit(1, 0), visit(4, 10), visit(15, 60), visit(31, 200)]);
    assert_eq!(machine.missed(CpuId::new(0)), 200 + 10 + 60 + 200);
}

#[test]
fn independent_misses_overlap_and_a_prefetched_line_costs_the_rest_of_its_latency() {
    let machine = Machine::modelled(model(), Options::default());
    let program = |cpu: Cpu<'_>| {
        assert_eq!(cost(cpu, line(1), Access::Read, Miss::Independent), 50);
        assert_eq!(cost(cpu, line(2), Access::Prefetch, Miss::Independent), 0);
        cpu.work(150);
        assert_eq!(cost(cpu, line(2), Access::Write, Miss::Dependent), 50);
        assert_eq!(cost(cpu, line(2), Access::Write, Miss::Dependent), 0);
        cpu.touch(line(3), Access::Prefetch, Miss::Independent);
        cpu.work(500);
        assert_eq!(cost(cpu, line(3), Access::Write, Miss::Dependent), 0);
        // Ten can be in flight; the eleventh waits for the first.
        let waits: Vec<u64> =
            (10..21).map(|i| cost(cpu, line(i), Access::Prefetch, Miss::Independent)).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200]);
    };
    machine.run(vec![Box::new(program)]).unwrap();
}

#[test]
fn a_prefetch_of_a_modified_line_shares_it() {
    let machine = Machine::modelled(model(), Options::default());
    let prefetches = |cpu: Cpu<'_>| {
        assert_eq!(cost(cpu, line(1), Access::Prefetch, Miss::Independent), 0);
        cpu.work(1000);
        // The line is shared: a store waits for the invalidation in the other socket.
        assert_eq!(cost(cpu, line(1), Access::Write, Miss::Dependent), 75);
        assert_eq!(cost(cpu, line(1), Access::Write, Miss::Dependent), 0);
    };
    in_turn(&machine, &[expect(0, 1, Access::Write, 200), (2, Box::new(prefetches))]);
}

#[test]
fn a_hand_over_moves_the_line_of_the_lock() {
    let (atomic, handoff_percent, handoff_fixed) = (16, 150, 20);
    let machine = Machine::modelled(
        Model { atomic, handoff_percent, handoff_fixed, ..model() },
        Options::default(),
    );
    let lock = machine.new_lock(LockClass::Zone);
    let entered = [(); 3].map(|()| Cell::new(0));
    let program = |me: usize, begin: u64| -> Program<'_> {
        let entered = &entered;
        Box::new(move |cpu| {
            cpu.work(begin);
            cpu.lock(lock);
            entered[me].set(cpu.now());
            cpu.touch(line(5), Access::Write, Miss::Dependent);
            cpu.work(1000);
            cpu.unlock(lock);
        })
    };
    machine.run(vec![program(0, 0), program(1, 10), program(2, 20)]).unwrap();
    let first = 16 + 200;
    let second = first + 200 + 1000 + 120 * 3 / 2 + 20;
    let third = second + 120 + 1000 + 300 * 3 / 2 + 20;
    assert_eq!(entered.map(|time| time.get()), [first, second, third]);
    let stats = machine.lock_stats_of(LockClass::Zone);
    assert_eq!((stats.acquisitions, stats.contended), (3, 2));
    assert_eq!(stats.wait_cycles, second - 10 + third - 20);
    assert_eq!((stats.hold_cycles, stats.hold_miss_cycles), (3000 + 620, 200 + 120 + 300));
    assert_eq!(machine.lock_stats_of(LockClass::Cpu), LockStats::default());
    assert_eq!(machine.lock_stats() - stats, LockStats::default());
}

#[test]
fn interrupts_cost_time() {
    let model = Model {
        send: 700,
        arrive_local: 900,
        arrive_remote: 1400,
        entry: 1000,
        acknowledge: 20,
        ..model()
    };
    let machine = Machine::modelled(model, Options::default());
    let (near, far, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Cell::new(0));
    let handler: Handler = {
        let (near, far) = (Rc::clone(&near), Rc::clone(&far));
        Rc::new(move |cpu| if cpu.id().get() == 1 { &near } else { &far }.set(cpu.now()))
    };
    let sender = |cpu: Cpu<'_>| {
        cpu.interrupt([1, 2].map(CpuId::new), &handler);
        done.set(cpu.now());
    };
    let busy = |cpu: Cpu<'_>| {
        for _ in 0..1000 {
            cpu.work(10);
            cpu.step();
        }
    };
    machine.run(vec![Box::new(sender), Box::new(busy), Box::new(busy)]).unwrap();
    assert_eq!((near.get(), far.get()), (700 + 900 + 1000, 1400 + 1400 + 1000));
    assert_eq!(done.get(), far.get() + 20 + 300);
    // The interrupted CPU loses that time.
    assert_eq!(machine.clock(CpuId::new(1)), 10_000 + 1020);
}

#[test]
fn a_cpu_that_is_ahead_serves_an_interrupt_at_the_time_of_its_arrival() {
    let model = Model { slack: 10_000, arrive_local: 100, entry: 10, ..Model::free(2) };
    let machine = Machine::modelled(model, Options::default());
    let word = machine.engine().new_word(0);
    let (handler, done): (Handler, _) = (Rc::new(|_| {}), Cell::new(0));
    let ahead = |cpu: Cpu<'_>| {
        for _ in 0..50 {
            cpu.work(100);
            cpu.load(word);
        }
    };
    let asks = |cpu: Cpu<'_>| {
        cpu.interrupt([CpuId::new(0)], &handler);
        done.set(cpu.now());
    };
    machine.run(vec![Box::new(ahead), Box::new(asks)]).unwrap();
    assert_eq!((done.get(), machine.clock(CpuId::new(0))), (110, 5010));
}

#[test]
fn masked_interrupts_are_served_when_they_are_unmasked() {
    let machine = Machine::new(2, Options::default());
    let served = Rc::new(Cell::new(0));
    let handler: Handler = {
        let served = Rc::clone(&served);
        Rc::new(move |cpu| served.set(cpu.now()))
    };
    let masks = |cpu: Cpu<'_>| {
        let were_masked = cpu.mask_interrupts();
        for _ in 0..100 {
            cpu.work(10);
            cpu.step();
        }
        assert_eq!(served.get(), 0);
        cpu.restore_interrupts(were_masked);
    };
    let sends = |cpu: Cpu<'_>| cpu.interrupt([CpuId::new(0)], &handler);
    machine.run(vec![Box::new(masks), Box::new(sends)]).unwrap();
    assert_eq!((served.get(), machine.clock(CpuId::new(1))), (1000, 1000));
}

/// A CPU masks interrupts in the given intervals. Each other CPU sends it an interrupt, which
/// arrives at the given time. Returns the time at which each interrupt was acknowledged, and the
/// clock of the first CPU at the end.
fn served(masked: &[std::ops::Range<u64>], arrivals: &[u64]) -> (Vec<u64>, u64) {
    const LATENCY: u64 = 100;
    let cpus = 1 + arrivals.len() as u16;
    let model = Model { arrive_local: LATENCY, entry: 10, ..Model::free(cpus) };
    let machine = Machine::modelled(model, Options::default());
    let done: Vec<Cell<u64>> = arrivals.iter().map(|_| Cell::new(0)).collect();
    let handler: Handler = Rc::new(|_| {});
    let works = |cpu: Cpu<'_>| {
        for section in masked {
            cpu.work(section.start - cpu.now());
            let were_masked = cpu.mask_interrupts();
            if section.end == masked[masked.len() - 1].end {
                // The other CPUs, whose clocks are earlier, run now.
                cpu.step();
            }
            cpu.work(section.end - section.start);
            cpu.restore_interrupts(were_masked);
        }
    };
    let asks = arrivals.iter().zip(&done).map(|(&arrival, done)| -> Program<'_> {
        let handler = &handler;
        Box::new(move |cpu: Cpu<'_>| {
            cpu.work(arrival - LATENCY);
            cpu.interrupt([CpuId::new(0)], handler);
            done.set(cpu.now());
        })
    });
    let programs = std::iter::once(Box::new(works) as Program<'_>).chain(asks).collect();
    machine.run(programs).unwrap();
    (done.iter().map(Cell::get).collect(), machine.clock(CpuId::new(0)))
}

#[test]
fn an_interrupt_that_arrived_before_the_masking_is_served_when_it_arrived() {
    let masked = std::slice::from_ref(&(5000..9000));
    assert_eq!(served(masked, &[2000]), (vec![2010], 9010));
    // The other interrupt arrived while interrupts were masked.
    assert_eq!(served(masked, &[2000, 6000]), (vec![2010, 9020], 9020));
}

#[test]
fn an_interrupt_that_arrived_in_an_earlier_masked_section_is_served_at_its_end() {
    let masked = [1000..3000, 5000..9000];
    assert_eq!(served(&masked, &[2000, 4000]), (vec![3010, 4010], 9020));
    // The handlers run one after the other; each shifts the work after it by its length.
    assert_eq!(served(&masked, &[2000, 2500, 3005, 4000]), (vec![3010, 3020, 3030, 4010], 9040));
}

#[test]
fn a_handler_wakes_the_cpus_that_wait_for_it_in_time() {
    let machine = Machine::modelled(Model { entry: 10, ..Model::free(3) }, Options::default());
    let word = machine.engine().new_word(0);
    let (handler, woken): (Handler, _) = (Rc::new(move |cpu| cpu.store(word, 1)), Cell::new(0));
    let masks = |cpu: Cpu<'_>| {
        cpu.work(5000);
        let were_masked = cpu.mask_interrupts();
        cpu.step();
        cpu.work(4000);
        cpu.restore_interrupts(were_masked);
    };
    let waits = |cpu: Cpu<'_>| {
        while cpu.load(word) == 0 {
            cpu.wait_for_change();
        }
        woken.set(cpu.now());
    };
    let asks = |cpu: Cpu<'_>| {
        cpu.work(2000);
        cpu.interrupt([CpuId::new(0)], &handler);
    };
    machine.run(vec![Box::new(masks), Box::new(waits), Box::new(asks)]).unwrap();
    assert_eq!((woken.get(), machine.clock(CpuId::new(0))), (2010, 9010));
}

#[test]
fn a_due_interrupt_is_served_before_interrupts_are_masked() {
    let model = Model { arrive_local: 1100, entry: 10, ..Model::free(2) };
    let machine = Machine::modelled(model, Options::default());
    let (served, done) = (Rc::new(Cell::new(0)), Cell::new(0));
    let handler: Handler = {
        let served = Rc::clone(&served);
        Rc::new(move |cpu| served.set(cpu.now()))
    };
    let masks = |cpu: Cpu<'_>| {
        cpu.work(10);
        cpu.step();
        cpu.work(4990);
        let were_masked = cpu.mask_interrupts();
        assert_eq!(
            served.get(),
            1110,
            "the interrupt, due before interrupts were masked, was served at another time"
        );
        cpu.work(5000);
        cpu.restore_interrupts(were_masked);
    };
    let sends = |cpu: Cpu<'_>| {
        cpu.interrupt([CpuId::new(0)], &handler);
        done.set(cpu.now());
    };
    machine.run(vec![Box::new(masks), Box::new(sends)]).unwrap();
    assert_eq!((done.get(), machine.clock(CpuId::new(0))), (1110, 10_010));
}

#[test]
fn the_periodic_interrupt_takes_its_share() {
    let model = Model { tick_period: 1000, tick: 50, ..Model::free(1) };
    let machine = Machine::modelled(model, Options::default());
    let program = |cpu: Cpu<'_>| {
        for _ in 0..100 {
            cpu.work(100);
            cpu.step();
        }
    };
    machine.run(vec![Box::new(program)]).unwrap();
    assert_eq!(machine.clock(CpuId::new(0)), 10_000 + 10 * 50);
}

#[test]
fn sleepers_wake_in_time_and_waiters_when_they_are_woken() {
    let machine = Machine::new(3, Options::default());
    let (queue, has_space) = (WaitQueue::default(), Cell::new(false));
    let waiter = |cpu: Cpu<'_>| {
        while !has_space.get() {
            cpu.wait_on(&queue);
        }
        assert_eq!(cpu.now(), 5000);
    };
    let sleeper = |cpu: Cpu<'_>| {
        cpu.sleep_until(5000);
        assert_eq!(cpu.now(), 5000);
        has_space.set(true);
        queue.wake_all(cpu);
    };
    machine.run(vec![Box::new(waiter), Box::new(sleeper), Box::new(waiter)]).unwrap();
    assert_eq!([0, 1, 2].map(|cpu| machine.waited(CpuId::new(cpu))), [5000; 3]);
}

#[test]
fn an_unfinished_wait_is_counted_separately() {
    let machine = Machine::modelled(model(), Options::default());
    let lock = Cell::new(None);
    let holder = |cpu: Cpu<'_>| {
        let new = cpu.new_lock();
        cpu.lock(new);
        lock.set(Some(new));
        cpu.work(10_000);
        cpu.unlock(new);
    };
    let waiter = |cpu: Cpu<'_>| {
        cpu.work(1000);
        cpu.lock(lock.get().expect("made before"));
        cpu.unlock(lock.get().expect("made before"));
    };
    let observer = |cpu: Cpu<'_>| {
        cpu.work(3000);
        cpu.step();
        assert_eq!(machine.lock_stats().wait_cycles, 0, "a wait that is not over was counted");
        let waited = machine.waiting(Some(LockClass::Program), cpu.now());
        assert!((1900..=2000).contains(&waited), "{waited}");
        assert_eq!(machine.waiting(None, cpu.now()), waited);
        assert_eq!(machine.waiting(Some(LockClass::Zone), cpu.now()), 0);
    };
    let idle = |_: Cpu<'_>| {};
    let programs: Vec<Program<'_>> =
        vec![Box::new(holder), Box::new(waiter), Box::new(observer), Box::new(idle)];
    machine.run(programs).unwrap();
    assert!(machine.lock_stats().wait_cycles > 8000);
    assert_eq!(machine.waiting(None, u64::MAX), 0);
}
