//! Contiguous ranges are allocated from pageblocks that other CPUs use.

use framewright::{Contiguous, Extent, FrameRange, MigrateType, Pfn};

use super::world::{self, Library};
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

/// CPUs 0 and 1 allocate and free, CPU 2 allocates contiguous ranges.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run(machine, bug, &|library| {
        let works = |cpu: Cpu<'_>| {
            let mut token = library.token(cpu);
            library.work(cpu, &mut token, &[0, 2]);
        };
        vec![
            Box::new(works),
            Box::new(works),
            Box::new(|cpu| {
                let memory = &library.memory;
                // A request with bounds always searches for a run.
                let anywhere = FrameRange::new(Pfn::new(0), Pfn::MAX).expect("in order");
                let wanted = Contiguous::new(20, MigrateType::Movable).within(anywhere);
                if let Ok(extent) = memory.alloc_contiguous(&wanted) {
                    hold(cpu, library, extent);
                }
                let range = FrameRange::new(Pfn::new(500), Pfn::new(530)).expect("in order");
                if let Ok(extent) = memory.alloc_range(range, MigrateType::Movable, &mut |_| {}) {
                    hold(cpu, library, extent);
                }
            }),
        ]
    })
}

/// Holds an extent for a short time.
fn hold<'m>(cpu: Cpu<'_>, library: &Library<'m>, extent: Extent<'m>) {
    let range = extent.range();
    let frames = range.start().get() as u32..range.end().get() as u32;
    frames.clone().for_each(|frame| library.oracle().taken(cpu, frame));
    cpu.step();
    frames.for_each(|frame| library.oracle().freed(cpu, frame));
    library.memory.free_extent(extent).expect("of this memory");
}
