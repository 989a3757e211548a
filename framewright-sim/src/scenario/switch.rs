//! Context switches: CPUs leave an address space, keep their cached translations of it, and return
//! to it.

use super::{Bug, Verdict, world::World};
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{Load, Store},
        Process,
    },
};

const FRAMES: u32 = 6;

/// CPU 0 unmaps pages that CPUs 1 and 2 accessed before they switched to another process.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let world = &World::new(machine, FRAMES);
    let ours = &Process::with_memory(&world.mmu, 0..3);
    let other = &Process::with_memory(&world.mmu, 0..1);
    let switches = |cpu: Cpu<'_>, page| {
        for _ in 0..2 {
            load(cpu, ours, bug);
            world.touch(cpu, ours, page, Store);
            other.run_on(cpu);
        }
        load(cpu, ours, bug);
        for _ in 0..4 {
            world.touch(cpu, ours, page, Load);
        }
    };
    world.run(
        machine,
        vec![
            Box::new(|cpu| {
                ours.run_on(cpu);
                world.touch(cpu, ours, 0, Store);
                world.touch(cpu, ours, 1, Store);
                ours.unmap(cpu, 0..1, &mut &world.stack);
                ours.unmap(cpu, 1..2, &mut &world.stack);
                world.touch(cpu, ours, 2, Store);
            }),
            Box::new(move |cpu| switches(cpu, 0)),
            Box::new(move |cpu| switches(cpu, 1)),
        ],
        &[ours, other],
        &|_, _| None,
    )
}

fn load(cpu: Cpu<'_>, process: &Process, bug: Option<Bug>) {
    if bug == Some(Bug::EarlyLook) {
        process.space().load_early(cpu);
    } else {
        process.run_on(cpu);
    }
}
