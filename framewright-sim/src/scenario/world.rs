//! The environment of scenarios, and the checks at the end.

use crate::{
    engine::{Cpu, Failure, Machine, Program},
    process::{Access, Mmu, Oracle, Process, Pte, Symptom, Token},
};

use super::stand_in::Stack;

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No symptom.
    Clean,
    /// A symptom was detected.
    Seen {
        /// The symptom.
        symptom: Symptom,
        /// A description of the symptom and its place.
        what: String,
    },
    /// The run failed without a symptom: a panic, a deadlock.
    Failed(Failure),
}

/// A machine with checked memory, and a stand-in for its allocator.
pub(super) struct World {
    pub(super) mmu: Mmu,
    pub(super) stack: Stack,
}

impl World {
    pub(super) fn new(machine: &Machine, frames: u32) -> Self {
        Self::with(machine, frames, Stack::new(frames))
    }

    pub(super) fn with(machine: &Machine, frames: u32, stack: Stack) -> Self {
        Self { mmu: Mmu::checking(machine.cpus(), Oracle::new(frames)), stack }
    }

    pub(super) fn oracle(&self) -> &Oracle {
        self.mmu.oracle().expect("scenarios are checked")
    }

    /// A program's access. It has no effect if the program has not mapped the page.
    pub(super) fn touch(&self, cpu: Cpu<'_>, process: &Process, page: u32, access: Access) {
        let _ = process.touch(cpu, page, access, &mut &self.stack);
    }

    /// Runs the programs and the checks at the end. `elsewhere` returns the contents of pages that
    /// are not in frames.
    pub(super) fn run(
        &self,
        machine: &Machine,
        programs: Vec<Program<'_>>,
        processes: &[&Process],
        elsewhere: &dyn Fn(u32, Pte) -> Option<Token>,
    ) -> Verdict {
        let frames = |process: &&Process| process.frames();
        let held = || processes.iter().map(frames).sum();
        self.run_holding(machine, programs, processes, elsewhere, &held)
    }

    /// As [`World::run`], with frames that are not mapped pages: `held` returns the number that
    /// must be in use at the end.
    pub(super) fn run_holding(
        &self,
        machine: &Machine,
        programs: Vec<Program<'_>>,
        processes: &[&Process],
        elsewhere: &dyn Fn(u32, Pte) -> Option<Token>,
        held: &dyn Fn() -> u64,
    ) -> Verdict {
        if let Err(failure) = machine.run(programs) {
            return failed(self.oracle(), failure);
        }
        for process in processes {
            if let Err((symptom, page)) = process.check_contents(elsewhere) {
                return seen(symptom, &format!("page {page}"));
            }
        }
        let (taken, held) = (self.oracle().frames_taken(), held());
        if taken != held {
            return seen(Symptom::Leaked, &format!("{taken} frames taken, {held} in use"));
        }
        Verdict::Clean
    }
}

/// The verdict on a run that failed.
pub(super) fn failed(oracle: &Oracle, failure: Failure) -> Verdict {
    match (oracle.seen(), failure) {
        (Some(symptom), Failure::Violation { what, .. }) => Verdict::Seen { symptom, what },
        (_, failure @ Failure::Shared { .. }) => {
            Verdict::Seen { symptom: Symptom::SharedSection, what: failure.to_string() }
        }
        (_, failure) => Verdict::Failed(failure),
    }
}

pub(super) fn seen(symptom: Symptom, detail: &str) -> Verdict {
    Verdict::Seen { symptom, what: format!("{symptom}: {detail}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::Options,
        process::{FrameSource, Purpose},
    };

    #[test]
    fn an_allocated_frame_without_a_mapping_is_reported_as_leaked() {
        let machine = Machine::new(1, Options::default());
        let world = World::new(&machine, 3);
        let program = |cpu: Cpu<'_>| {
            let frame = (&world.stack).take(cpu, Purpose::Page).unwrap();
            world.oracle().taken(cpu, frame);
        };
        let verdict = world.run(&machine, vec![Box::new(program)], &[], &|_, _| None);
        assert!(matches!(verdict, Verdict::Seen { symptom: Symptom::Leaked, .. }), "{verdict:?}");
    }
}
