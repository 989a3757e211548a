//! Draining: a CPU's lists are emptied from outside while it uses them.

use super::world;
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

/// CPUs 0 and 1 work, CPU 2 drains them.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run(machine, bug, |library| {
        let works = |cpu: Cpu<'_>| {
            let mut token = library.memory.cpu(cpu.id()).expect("a CPU that is online");
            library.work(cpu, &mut token, &[0, 0, 0]);
            library.work(cpu, &mut token, &[0, 1, 0]);
        };
        vec![
            Box::new(works),
            Box::new(works),
            Box::new(|cpu| {
                library.memory.drain_all();
                let _ = library.memory.drain_cpu(framewright::CpuId::new(0));
                let mut token = library.memory.cpu(cpu.id()).expect("a CPU that is online");
                library.work(cpu, &mut token, &[0]);
                library.memory.drain_all();
            }),
        ]
    })
}
