//! Reclaim: pages are unmapped, written out and freed while programs store to them.

use framewright::tuning::TlbTuning;

use super::{
    Bug, Verdict, stage,
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
    stage::with(machine, FRAMES, TlbTuning::default(), |stage| {
        let process = &Process::with_memory(&stage.world.mmu, 0..PAGES);
        let disk = &Disk::new(PAGES);
        let reclaimer = &Reclaimer { stage, process, disk, bug };
        let touch = |cpu: Cpu<'_>, page, access| {
            let _ = disk.touch(cpu, stage, process, page, access);
        };
        let thread = |cpu: Cpu<'_>, page| {
            stage.run_on(cpu, process);
            touch(cpu, page, Store);
            touch(cpu, page, Store);
            touch(cpu, PAGES - 1 - page, Load);
            touch(cpu, page, Store);
        };
        stage.world.run_holding(
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
            |page, pte| disk.find(page, pte),
            || process.frames() + stage.deferred(),
        )
    })
}
