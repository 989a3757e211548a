//! Processes with frames of the library: mapping, accesses, threads, unmapping, exit.

use super::world;
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{self, Load, Store},
        Process, TokenFrames,
    },
    scenario::{Bug, Verdict},
};

/// CPUs 0 and 1 run threads of one process; CPU 2 runs another process, which exits.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run(machine, bug, &|library| {
        let memory = &library.memory;
        let shared = Process::with_memory(&library.mmu, 0..2);
        let own = Process::with_memory(&library.mmu, 0..2);
        let frames = |cpu: Cpu<'_>| {
            let token = memory.cpu(cpu.id()).expect("a CPU that is online");
            TokenFrames::new(token, &library.held)
        };
        let threads = move |cpu: Cpu<'_>, accesses: &[(u32, Access)], process: &Process| {
            let mut frames = frames(cpu);
            process.run_on(cpu);
            for &(page, access) in accesses {
                let _ = process.touch(cpu, page, access, &mut frames);
            }
        };
        let process = shared.clone();
        vec![
            Box::new(move |cpu| {
                threads(cpu, &[(0, Store), (1, Load)], &process);
                let mut frames = frames(cpu);
                if bug == Some(Bug::FreeBeforeFlush) {
                    process.disown(cpu, 0..2);
                    let gathered = process.clear(cpu, &mut (0..2));
                    process.release(cpu, &gathered, &mut frames);
                    process.space().flush(cpu, 2);
                    process.unreachable(0..2);
                } else {
                    process.unmap(cpu, 0..2, &mut frames);
                }
            }),
            Box::new(move |cpu| {
                threads(cpu, &[(0, Load), (0, Store), (1, Store), (0, Load), (1, Load)], &shared);
            }),
            Box::new(move |cpu| {
                threads(cpu, &[(0, Store), (1, Store), (0, Load)], &own);
                let mut frames = frames(cpu);
                own.exit(cpu, &mut frames);
                memory.drain_all();
            }),
        ]
    })
}
