//! Reclaim: pages are unmapped, written out and freed while programs store to them.

use framewright::tuning::TlbTuning;

use super::{
    Bug, Verdict, environment,
    stand_in::{Disk, Reclaimer},
};
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{Load, Store},
        Process,
    },
};

const PAGES: u32 = 2;
const FRAMES: u32 = 8;

/// CPUs 0 and 1 run threads, CPU 2 reclaims their pages.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    environment::with(machine, FRAMES, TlbTuning::default(), &|env| {
        let process = &Process::with_memory(&env.world.mmu, 0..PAGES);
        let disk = &Disk::new(PAGES);
        let reclaimer = &Reclaimer { env, process, disk, bug };
        let touch = |cpu: Cpu<'_>, page, access| {
            let _ = disk.touch(cpu, env, process, page, access);
        };
        let thread = |cpu: Cpu<'_>, page| {
            env.run_on(cpu, process);
            touch(cpu, page, Store);
            touch(cpu, page, Store);
            touch(cpu, PAGES - 1 - page, Load);
            touch(cpu, page, Store);
        };
        env.world.run_holding(
            machine,
            vec![
                Box::new(move |cpu| thread(cpu, 0)),
                Box::new(move |cpu| thread(cpu, 1)),
                Box::new(|cpu| {
                    reclaimer.reclaim(cpu, &[0, 1]);
                    reclaimer.reclaim(cpu, &[0]);
                }),
            ],
            &[process],
            &|page, pte| disk.find(page, pte),
            &|| process.frames() + env.deferred(),
        )
    })
}
