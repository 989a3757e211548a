//! Unmapping: one thread of a process unmaps pages, others access them, and another process
//! allocates frames.

use std::ops::Range;

use super::{Bug, Verdict, world::World};
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{Load, Store},
        Process,
    },
};

/// Few frames, so that freed frames are reused at once.
const FRAMES: u32 = 6;

/// CPU 0 unmaps, CPU 1 loads and leaves the process, CPU 2 runs a thread and then another process.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let world = &World::new(machine, FRAMES);
    let ours = &Process::with_memory(&world.mmu, 0..3);
    let other = &Process::with_memory(&world.mmu, 0..2);
    world.run(
        machine,
        vec![
            Box::new(|cpu| {
                ours.run_on(cpu);
                world.touch(cpu, ours, 0, Store);
                world.touch(cpu, ours, 1, Load);
                unmap(cpu, world, ours, 0..2, bug);
                world.touch(cpu, ours, 2, Store);
                world.touch(cpu, ours, 2, Load);
            }),
            Box::new(|cpu| {
                other.run_on(cpu);
                world.touch(cpu, other, 1, Store);
                ours.run_on(cpu);
                for access in [Load, Store, Load, Load, Load, Load, Load, Load] {
                    world.touch(cpu, ours, 0, access);
                }
            }),
            Box::new(|cpu| {
                ours.run_on(cpu);
                world.touch(cpu, ours, 1, Store);
                world.touch(cpu, ours, 0, Load);
                other.run_on(cpu);
                world.touch(cpu, other, 0, Store);
                world.touch(cpu, other, 0, Load);
            }),
        ],
        &[ours, other],
        &|_, _| None,
    )
}

/// Unmaps pages, with or without a bug.
fn unmap(cpu: Cpu<'_>, world: &World, process: &Process, pages: Range<u32>, bug: Option<Bug>) {
    let space = process.space();
    let mut frames = &world.stack;
    if bug.is_none() {
        return process.unmap(cpu, pages, &mut frames);
    }
    process.disown(cpu, pages.clone());
    let early = (bug == Some(Bug::EarlyMask)).then(|| space.cpus(cpu));
    let gathered = process.clear(cpu, &mut pages.clone());
    if bug == Some(Bug::FreeBeforeFlush) {
        process.release(cpu, &gathered, &mut frames);
    }
    space.advance_generation(cpu);
    let mut targets = early.unwrap_or_else(|| space.cpus(cpu));
    if bug == Some(Bug::ForgottenTarget) {
        let skipped = targets.iter().filter(|target| *target != cpu.id()).last();
        skipped.into_iter().for_each(|last| targets.remove(last));
    }
    space.flush_on(cpu, targets, u64::MAX);
    process.unreachable(pages);
    if bug != Some(Bug::FreeBeforeFlush) {
        process.release(cpu, &gathered, &mut frames);
    }
}
