//! Allocation: three CPUs allocate frames from one LIFO allocator ([`Stack`]), and free them.

use super::{Bug, Verdict, stand_in::Stack, world::World};
use crate::{
    engine::{Cpu, Machine},
    process::{Process, Purpose},
};

const FRAMES: u32 = 6;

/// CPUs 0 to 2 run the same program.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let stack = match bug {
        Some(Bug::UnlockedTake) => Stack::unlocked(FRAMES),
        _ => Stack::new(FRAMES),
    };
    let world = &World::with(machine, FRAMES, stack);
    let process = &Process::new(&world.mmu);
    let program = |cpu: Cpu<'_>| {
        let mut stack = &world.stack;
        for _ in 0..2 {
            let taken: Vec<_> =
                (0..2).map_while(|_| process.obtain(cpu, Purpose::Page, &mut stack).ok()).collect();
            process.release(cpu, &taken, &mut stack);
        }
    };
    let programs = (0..3).map(|_| -> crate::engine::Program<'_> { Box::new(program) });
    world.run(machine, programs.collect(), &[process], &|_, _| None)
}
