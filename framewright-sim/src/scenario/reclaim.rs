//! Reclaim: pages are unmapped, written out and freed while programs store to them.

use super::{
    Bug, Verdict,
    stand_in::{Disk, Reclaimer},
    world::World,
};
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{Load, Store},
        Process,
    },
};

const PAGES: u32 = 2;
const FRAMES: u32 = 6;

/// CPUs 0 and 1 run threads, CPU 2 reclaims what they use.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let world = &World::new(machine, FRAMES);
    let process = &Process::with_memory(&world.mmu, 0..PAGES);
    let disk = &Disk::new(PAGES);
    let reclaimer = &Reclaimer::new(process, disk, bug);
    let touch = |cpu: Cpu<'_>, page, access| {
        let _ = disk.touch(cpu, process, page, access, &mut &world.stack);
    };
    let thread = |cpu: Cpu<'_>, page| {
        process.run_on(cpu);
        touch(cpu, page, Store);
        touch(cpu, page, Store);
        touch(cpu, PAGES - 1 - page, Load);
        touch(cpu, page, Store);
    };
    world.run(
        machine,
        vec![
            Box::new(move |cpu| thread(cpu, 0)),
            Box::new(move |cpu| thread(cpu, 1)),
            Box::new(|cpu| {
                reclaimer.reclaim(cpu, &[0, 1], &mut &world.stack);
                reclaimer.reclaim(cpu, &[0], &mut &world.stack);
            }),
        ],
        &[process],
        |page, pte| disk.find(page, pte),
    )
}
