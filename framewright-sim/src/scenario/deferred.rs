//! Deferred flushes: pages are unmapped without a flush, and read through stale translations, until
//! an operation needs the flush.

use framewright::tuning::{Auto, FlushBatching, TlbTuning};

use super::{
    Bug, Verdict,
    environment::{self, Environment},
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
struct Fixture<'s, 'm> {
    env: &'s Environment<'s, 'm>,
    readers: &'s Process,
    others: &'s Process,
    file: &'s File<'s, 'm>,
}

impl Fixture<'_, '_> {
    fn touch(&self, cpu: Cpu<'_>, process: &Process, accesses: &[(u32, Access)]) {
        for &(page, access) in accesses {
            let _ = self.file.touch(cpu, process, page, access);
        }
    }

    /// Reads the pages repeatedly.
    fn read(&self, cpu: Cpu<'_>) {
        self.env.run_on(cpu, self.readers);
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
    programs: &dyn for<'s, 'm> Fn(&'s Fixture<'s, 'm>) -> Vec<Program<'s>>,
) -> Verdict {
    environment::with(machine, FRAMES, lazy(), &|env| {
        let readers = &Process::with_memory(&env.world.mmu, 0..PAGES);
        let others = &readers.sharing(0..PAGES);
        let file = &File::new(env, PAGES, &[readers, others], bug);
        let held = || {
            let frames = readers.frames() + others.frames() + env.deferred();
            frames.strict_add_signed(file.held_besides_mappings())
        };
        let fixture = Fixture { env, readers, others, file };
        env.world.run_holding(
            machine,
            programs(&fixture),
            &[readers, others],
            &|page, _| file.find(page),
            &held,
        )
    })
}

/// CPU 1 stores to pages of the file that CPU 0 reads and CPU 2 reclaims.
pub(super) fn write(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, &|fixture| {
        vec![
            Box::new(|cpu| fixture.read(cpu)),
            Box::new(|cpu| {
                fixture.env.run_on(cpu, fixture.others);
                fixture.touch(
                    cpu,
                    fixture.others,
                    &[(0, Load), (0, Store), (1, Store), (0, Store)],
                );
            }),
            Box::new(|cpu| fixture.reclaim(cpu)),
        ]
    })
}

/// CPUs 1 and 2 reclaim the pages of CPU 0, and ask the same CPU to flush.
pub(super) fn meet(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, &|fixture| {
        vec![
            Box::new(|cpu| {
                fixture.env.run_on(cpu, fixture.readers);
                for page in [0, 1, 0, 1] {
                    fixture.touch(cpu, fixture.readers, &[(page, Store), (1 - page, Load)]);
                    fixture.env.flusher(cpu).tick();
                }
            }),
            Box::new(|cpu| [0, 1].into_iter().for_each(|page| fixture.file.reclaim(cpu, &[page]))),
            Box::new(|cpu| [1, 0].into_iter().for_each(|page| fixture.file.reclaim(cpu, &[page]))),
        ]
    })
}

/// CPU 1 truncates the file that CPU 0 reads and CPU 2 reclaims.
pub(super) fn truncate(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, &|fixture| {
        vec![
            Box::new(|cpu| fixture.read(cpu)),
            Box::new(|cpu| {
                fixture.env.run_on(cpu, fixture.others);
                fixture.touch(cpu, fixture.others, &[(1, Load), (0, Load)]);
                fixture.file.truncate(cpu, 0);
                fixture.file.truncate(cpu, 1);
            }),
            Box::new(|cpu| fixture.reclaim(cpu)),
        ]
    })
}

/// CPU 1 reuses addresses at which CPU 0 reads the file and CPU 2 reclaims it.
pub(super) fn reuse(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, &|fixture| {
        vec![
            Box::new(|cpu| fixture.read(cpu)),
            Box::new(|cpu| {
                fixture.env.run_on(cpu, fixture.readers);
                fixture.touch(cpu, fixture.readers, &[(1, Load)]);
                fixture.file.replace(cpu, fixture.readers, 0);
                fixture.touch(cpu, fixture.readers, &[(0, Store), (0, Load)]);
            }),
            Box::new(|cpu| fixture.reclaim(cpu)),
        ]
    })
}

/// CPU 0 switches between processes, so that it is not interrupted; CPU 1 makes its translations
/// outdated.
pub(super) fn switch(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run(machine, bug, &|fixture| {
        let runs = move |cpu: Cpu<'_>, process: &Process| {
            let accesses = [(0, Load), (1, Load)];
            if bug == Some(Bug::LateEpoch) {
                process.run_on(cpu);
                fixture.touch(cpu, process, &accesses);
                // SAFETY: violated on purpose: this is the bug. Frames have no contents here.
                #[allow(unsafe_code)]
                unsafe {
                    fixture.env.flusher(cpu).record_full_flush(|| {});
                }
            } else {
                fixture.env.run_on(cpu, process);
                fixture.touch(cpu, process, &accesses);
            }
            fixture.touch(cpu, process, &accesses);
        };
        vec![
            Box::new(move |cpu| {
                for _ in 0..2 {
                    runs(cpu, fixture.readers);
                    runs(cpu, fixture.others);
                }
            }),
            Box::new(|cpu| {
                fixture.env.run_on(cpu, fixture.others);
                fixture.touch(cpu, fixture.others, &[(0, Load), (1, Load), (0, Load), (1, Store)]);
            }),
            Box::new(|cpu| fixture.reclaim(cpu)),
        ]
    })
}
