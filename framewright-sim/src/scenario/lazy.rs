//! Lazy TLB mode: a CPU that runs the kernel keeps the user address space loaded, and gets no IPIs
//! for TLB shootdowns. It must flush before it continues its program.

use super::{Bug, Verdict, world::World};
use crate::{
    engine::{Cpu, Machine},
    process::{
        Access::{Load, Store},
        Process,
    },
};

const FRAMES: u32 = 6;

/// CPU 0 unmaps pages that CPUs 1 and 2 accessed before they became lazy.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let world = &World::new(machine, FRAMES);
    let process = &Process::with_memory(&world.mmu, 0..3);
    let idles = |cpu: Cpu<'_>, page| {
        process.run_on(cpu);
        world.touch(cpu, process, page, Store);
        process.space().enter_lazy_mode(cpu);
        wake(cpu, process, bug);
        world.touch(cpu, process, page, Load);
        world.touch(cpu, process, 2, Store);
        process.space().enter_lazy_mode(cpu);
        wake(cpu, process, bug);
        world.touch(cpu, process, page, Store);
    };
    world.run(
        machine,
        vec![
            Box::new(|cpu| {
                process.run_on(cpu);
                world.touch(cpu, process, 0, Store);
                world.touch(cpu, process, 1, Load);
                process.unmap(cpu, 0..1, &mut &world.stack);
                process.unmap(cpu, 1..2, &mut &world.stack);
                world.touch(cpu, process, 2, Load);
            }),
            Box::new(move |cpu| idles(cpu, 0)),
            Box::new(move |cpu| idles(cpu, 1)),
        ],
        &[process],
        &|_, _| None,
    )
}

fn wake(cpu: Cpu<'_>, process: &Process, bug: Option<Bug>) {
    if bug == Some(Bug::LazySkipsFlush) {
        process.space().load_without_flush(cpu);
    } else {
        process.run_on(cpu);
    }
}
