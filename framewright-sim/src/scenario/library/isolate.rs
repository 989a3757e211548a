//! A pageblock is isolated while other CPUs allocate and free its frames.

use framewright::Pfn;

use super::world::{self, PAGEBLOCK};
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

/// CPUs 0 and 1 allocate and free, CPU 2 isolates the two pageblocks in turn.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run(machine, bug, |library| {
        let works = |cpu: Cpu<'_>| {
            let mut token = library.memory.cpu(cpu.id()).expect("a CPU that is online");
            library.work(cpu, &mut token, &[0, 4]);
            library.work(cpu, &mut token, &[0]);
        };
        vec![
            Box::new(works),
            Box::new(works),
            Box::new(|cpu| {
                for pageblock in [0, 1] {
                    let first = Pfn::new(pageblock * PAGEBLOCK);
                    let isolated = library.memory.isolate(first).expect("it is movable");
                    library.isolated.set(Some(isolated.range()));
                    cpu.step();
                    library.isolated.set(None);
                    library.memory.undo_isolate(isolated).expect("of this memory");
                }
            }),
        ]
    })
}
