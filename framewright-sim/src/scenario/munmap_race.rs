//! Unmapping what reclaim has unmapped already: the entries are clear, the translations are not.
//!
//! Reclaim puts flushes off, to do one for many pages. Whoever else unmaps such a page finds
//! nothing to flush; if it believes that, it returns while the page can still be reached.

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

const PAGES: u32 = 3;
const FRAMES: u32 = 6;

/// CPU 0 unmaps a page that CPU 1 uses and CPU 2 reclaims among others.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let world = &World::new(machine, FRAMES);
    let process = &Process::with_memory(&world.mmu, 0..PAGES);
    let disk = &Disk::new(PAGES);
    let reclaimer = &Reclaimer::new(process, disk, bug);
    let touch = |cpu: Cpu<'_>, page, access| {
        let _ = disk.touch(cpu, process, page, access, &mut &world.stack);
    };
    world.run(
        machine,
        vec![
            Box::new(|cpu| {
                process.run_on(cpu);
                touch(cpu, 1, Store);
                unmap(cpu, world, reclaimer);
                touch(cpu, 1, Load);
            }),
            Box::new(|cpu| {
                process.run_on(cpu);
                for access in [Store, Load, Load, Load, Load, Load, Store] {
                    touch(cpu, 0, access);
                }
            }),
            Box::new(|cpu| {
                process.run_on(cpu);
                touch(cpu, 2, Store);
                reclaimer.reclaim(cpu, &[0, 1, 2], &mut &world.stack);
            }),
        ],
        &[process],
        |page, pte| disk.find(page, pte),
    )
}

/// Unmaps page 0.
fn unmap(cpu: Cpu<'_>, world: &World, reclaimer: &Reclaimer<'_>) {
    let process = reclaimer.process;
    process.disown(cpu, 0..1);
    let gathered = process.clear(cpu, &mut (0..1));
    if reclaimer.bug != Some(Bug::SkippedFlush) {
        reclaimer.flush_deferred(cpu);
    }
    if !gathered.is_empty() {
        process.space().flush(cpu, gathered.len() as u64);
    }
    process.unreachable(0..1);
    process.release(cpu, &gathered, &mut &world.stack);
}
