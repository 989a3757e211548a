//! Deferred flushes: pages are unmapped without a flush, and read through stale translations, until
//! an operation needs the flush.

use framewright::tuning::{Auto, FlushBatching, TlbTuning};

use super::{
    Bug, Verdict,
    stage::{self, Stage},
    stand_in::File,
};
use crate::{
    engine::{Cpu, Machine, Program},
    process::{
        Access::{self, Load, Store},
        Process,
    },
};

const PAGES: u32 = 2;
const FRAMES: u32 = 10;

/// The limit is low, so that one flush sometimes serves all deferred frames.
fn lazy() -> TlbTuning {
    let mut tuning = TlbTuning::default();
    tuning.batching = FlushBatching::Lazy;
    tuning.batch = Auto::Fixed(32);
    tuning.deferred_max = Auto::Fixed(2);
    tuning
}

/// Two processes that map a file, and a program that changes it.
struct Scene<'s, 'm> {
    stage: &'s Stage<'s, 'm>,
    readers: &'s Process,
    others: &'s Process,
    file: &'s File<'s, 'm>,
}

impl Scene<'_, '_> {
    fn touch(&self, cpu: Cpu<'_>, process: &Process, accesses: &[(u32, Access)]) {
        for &(page, access) in accesses {
            let _ = self.file.touch(cpu, process, page, access);
        }
    }

    /// Reads the pages repeatedly.
    fn read(&self, cpu: Cpu<'_>) {
        self.stage.run_on(cpu, self.readers);
        let accesses = [(0, Load), (1, Load), (0, Load), (0, Load), (1, Load), (0, Load)];
        self.touch(cpu, self.readers, &accesses);
    }

    /// Reclaims twice.
    fn reclaim(&self, cpu: Cpu<'_>) {
        self.file.reclaim(cpu, &[0, 1]);
        self.file.reclaim(cpu, &[1, 0]);
        self.file.free_deferred(cpu);
    }
}

fn run(
    machine: &Machine,
    bug: Option<Bug>,
    programs: impl for<'s, 'm> FnOnce(&'s Scene<'s, 'm>) -> Vec<Program<'s>>,
) -> Verdict {
    stage::with(machine, FRAMES, lazy(), |stage| {
        let readers = &Process::with_memory(&stage.world.mmu, 0..PAGES);
        let others = &readers.sharing(0..PAGES);
        let file = &File::new(stage, PAGES, &[readers, others], bug);
        let held = || {
            let frames = readers.frames() + others.frames() + stage.deferred();
            frames.strict_add_signed(file.held_besides_mappings())
        };
        let scene = Scene { stage, readers, others, file };
        stage.world.run_holding(
            machine,
            programs(&scene),
            &[readers, others],
            |page, _| file.find(page),
            held,
        )
    })
}

/// CPU 1 stores to pages of the file that CPU 0 reads and CPU 2 reclaims.
pub(super) fn write(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, |scene| {
        vec![
            Box::new(|cpu| scene.read(cpu)),
            Box::new(|cpu| {
                scene.stage.run_on(cpu, scene.others);
                scene.touch(cpu, scene.others, &[(0, Load), (0, Store), (1, Store), (0, Store)]);
            }),
            Box::new(|cpu| scene.reclaim(cpu)),
        ]
    })
}

/// CPUs 1 and 2 reclaim the pages of CPU 0, and ask the same CPU to flush.
pub(super) fn meet(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, |scene| {
        vec![
            Box::new(|cpu| {
                scene.stage.run_on(cpu, scene.readers);
                for page in [0, 1, 0, 1] {
                    scene.touch(cpu, scene.readers, &[(page, Store), (1 - page, Load)]);
                    scene.stage.flusher(cpu).tick();
                }
            }),
            Box::new(|cpu| [0, 1].into_iter().for_each(|page| scene.file.reclaim(cpu, &[page]))),
            Box::new(|cpu| [1, 0].into_iter().for_each(|page| scene.file.reclaim(cpu, &[page]))),
        ]
    })
}

/// CPU 1 truncates the file that CPU 0 reads and CPU 2 reclaims.
pub(super) fn truncate(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, |scene| {
        vec![
            Box::new(|cpu| scene.read(cpu)),
            Box::new(|cpu| {
                scene.stage.run_on(cpu, scene.others);
                scene.touch(cpu, scene.others, &[(1, Load), (0, Load)]);
                scene.file.truncate(cpu, 0);
                scene.file.truncate(cpu, 1);
            }),
            Box::new(|cpu| scene.reclaim(cpu)),
        ]
    })
}

/// CPU 1 reuses addresses at which CPU 0 reads the file and CPU 2 reclaims it.
pub(super) fn reuse(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, |scene| {
        vec![
            Box::new(|cpu| scene.read(cpu)),
            Box::new(|cpu| {
                scene.stage.run_on(cpu, scene.readers);
                scene.touch(cpu, scene.readers, &[(1, Load)]);
                scene.file.replace(cpu, scene.readers, 0);
                scene.touch(cpu, scene.readers, &[(0, Store), (0, Load)]);
            }),
            Box::new(|cpu| scene.reclaim(cpu)),
        ]
    })
}

/// CPU 0 switches between processes, so that it is not interrupted; CPU 1 makes its translations
/// outdated.
pub(super) fn switch(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, |scene| {
        let runs = move |cpu: Cpu<'_>, process: &Process| {
            let accesses = [(0, Load), (1, Load)];
            if bug == Some(Bug::LateEpoch) {
                process.run_on(cpu);
                scene.touch(cpu, process, &accesses);
                // SAFETY: violated on purpose: this is the bug. Frames have no contents here.
                #[allow(unsafe_code)]
                unsafe {
                    scene.stage.flusher(cpu).record_full_flush(|| {});
                }
            } else {
                scene.stage.run_on(cpu, process);
                scene.touch(cpu, process, &accesses);
            }
            scene.touch(cpu, process, &accesses);
        };
        vec![
            Box::new(move |cpu| {
                for _ in 0..2 {
                    runs(cpu, scene.readers);
                    runs(cpu, scene.others);
                }
            }),
            Box::new(|cpu| {
                scene.stage.run_on(cpu, scene.others);
                scene.touch(cpu, scene.others, &[(0, Load), (1, Load), (0, Load), (1, Store)]);
            }),
            Box::new(|cpu| scene.reclaim(cpu)),
        ]
    })
}
