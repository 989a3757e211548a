//! A CPU's lists are drained by other CPUs while it uses them.

use framewright::CpuId;

use super::world;
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

const ZERO: CpuId = CpuId::new(0);

/// CPU 0 allocates and frees, CPUs 1 and 2 drain its lists.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run(machine, bug, &|library| {
        let memory = &library.memory;
        vec![
            Box::new(|cpu: Cpu<'_>| {
                let mut token = library.token(cpu);
                for orders in [[0, 0], [0, 0], [0, 1]] {
                    library.work(cpu, &mut token, &orders);
                }
            }),
            Box::new(|cpu| {
                memory.drain_cpu(ZERO).expect("it exists");
                let mut token = library.token(cpu);
                library.work(cpu, &mut token, &[0]);
                memory.drain_cpu(ZERO).expect("it exists");
            }),
            Box::new(|_| {
                memory.drain_cpu(ZERO).expect("it exists");
                memory.drain_all();
                memory.drain_cpu(ZERO).expect("it exists");
            }),
        ]
    })
}
