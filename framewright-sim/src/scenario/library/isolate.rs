//! A pageblock is isolated while other CPUs allocate and free its frames.

use super::world;
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

/// CPUs 0 and 1 allocate and free, CPU 2 isolates the two pageblocks in turn.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run(machine, bug, &|library| {
        let works = |cpu: Cpu<'_>| {
            let mut token = library.token(cpu);
            library.work(cpu, &mut token, &[0, 4]);
            library.work(cpu, &mut token, &[0]);
        };
        vec![Box::new(works), Box::new(works), Box::new(|cpu| library.isolate_in_turn(cpu))]
    })
}
