//! Measures the number of schedules per second, for a small program with three CPUs and 34 steps.
//!
//! ```sh
//! cargo run --release -p framewright-sim --example schedules -- 1000000
//! ```

use framewright_sim::engine::{Cpu, LockClass, Machine, Options, Program, Schedule};
use std::time::Instant;

fn main() {
    let runs = std::env::args().nth(1).map_or(200_000, |runs| runs.parse().expect("a number"));
    type Choose = fn(u64) -> Schedule;
    let kinds: [(&str, Choose); 2] =
        [("random", Schedule::Random), ("pct", |seed| Schedule::Pct { seed, depth: 4, steps: 34 })];
    for (name, choose) in kinds {
        let machine = Machine::new(3, Options::default());
        let started = Instant::now();
        let mut steps = 0;
        for seed in 0..runs {
            machine.restart(choose(seed));
            run(&machine);
            steps += machine.steps();
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{name}: {:.3} M schedules/s, {:.1} M steps/s",
            runs as f64 / seconds / 1e6,
            steps as f64 / seconds / 1e6
        );
    }
}

fn run(machine: &Machine) {
    let lock = machine.new_lock(LockClass::Program);
    let program = || -> Program<'_> {
        Box::new(|cpu: Cpu<'_>| {
            cpu.lock(lock);
            cpu.step();
            cpu.unlock(lock);
            (0..6).for_each(|_| cpu.step());
        })
    };
    machine.run(vec![program(), program(), program()]).expect("nothing to find");
}
