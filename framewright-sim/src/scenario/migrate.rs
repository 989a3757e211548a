//! Migration: pages change their frames while programs store to them.

use super::{Bug, Verdict, stand_in::Migrator, world::World};
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{Load, Store},
        Process,
    },
};

const PAGES: u32 = 2;
const FRAMES: u32 = 6;

/// CPUs 0 and 1 run threads, CPU 2 migrates what they use.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let world = &World::new(machine, FRAMES);
    let process = &Process::with_memory(&world.mmu, 0..PAGES);
    let migrator = &Migrator::new(process, bug);
    let thread = |cpu: Cpu<'_>, page| {
        process.run_on(cpu);
        for (page, access) in
            [(page, Store), (page, Store), (PAGES - 1 - page, Load), (page, Store)]
        {
            let _ = migrator.touch(cpu, page, access, &mut &world.stack);
        }
    };
    world.run(
        machine,
        vec![
            Box::new(move |cpu| thread(cpu, 0)),
            Box::new(move |cpu| thread(cpu, 1)),
            Box::new(|cpu| {
                for page in [0, 1, 0] {
                    migrator.migrate(cpu, page, &mut &world.stack);
                }
            }),
        ],
        &[process],
        |_, _| None,
    )
}
