//! The loop over all executions, and the report of a failure.

use core::fmt;
use std::{string::String, vec::Vec};

use super::{machine::Machine, path::Path, thread::Shared};

/// The extent of an exploration that found no failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explored {
    /// Executions, including repetitions that were cut short.
    pub executions: u64,
    /// Whether all executions were explored; `false` if the limit [`Explorer::executions`] was
    /// reached.
    pub complete: bool,
}

/// An execution that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The panic message, or the explorer's finding.
    pub message: String,
    /// The number of the execution, from 1.
    pub execution: u64,
    /// The choices that lead to the failure, for [`Explorer::replay`].
    pub choices: Vec<u16>,
    /// The log of the execution, a line per step.
    pub steps: Vec<String>,
}

/// The number of steps of a failed execution that are printed: its last ones.
const SHOWN: usize = 100;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "execution {} failed: {}", self.execution, self.message)?;
        let hidden = self.steps.len().saturating_sub(SHOWN);
        if hidden > 0 {
            writeln!(f, "      ... {hidden} steps before these ...")?;
        }
        for (number, step) in self.steps.iter().enumerate().skip(hidden) {
            writeln!(f, "{:4}  {step}", number + 1)?;
        }
        write!(f, "to replay it: {:?}", self.choices)
    }
}

/// The limits of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Explorer {
    preemptions: Option<u32>,
    executions: u64,
    seed: Option<u64>,
}

impl Default for Explorer {
    fn default() -> Self {
        Self { preemptions: None, executions: u64::MAX, seed: None }
    }
}

impl Explorer {
    /// Explores everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows at most `bound` preemptions of running threads per execution. The bound does not
    /// limit the times at which buffered stores reach memory.
    #[must_use]
    pub fn preemptions(self, bound: u32) -> Self {
        Self { preemptions: Some(bound), ..self }
    }

    /// Stops after `limit` executions.
    #[must_use]
    pub fn executions(self, limit: u64) -> Self {
        Self { executions: limit, ..self }
    }

    /// Draws executions at random instead of enumerating them, for code with too many executions to
    /// try all. Ends only with a limit ([`Explorer::executions`]) or at a failure.
    #[must_use]
    pub fn random(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Runs `body` in every possible order of steps.
    ///
    /// # Errors
    ///
    /// The first failure found, with the sequence that leads to it.
    pub fn run(self, body: impl Fn() + Sync) -> Result<Explored, Failure> {
        let mut path = self.seed.map_or_else(|| Path::new(self.preemptions), Path::random);
        for execution in 1..=self.executions {
            let mut machine = execute(path, false, &body);
            if let Some(message) = machine.failure.take() {
                let choices = machine.path.choices();
                let steps = self.replay(&choices, &body).map_or_else(|f| f.steps, |()| Vec::new());
                return Err(Failure { message, execution, choices, steps });
            }
            path = machine.path;
            if !path.advance() {
                return Ok(Explored { executions: execution, complete: true });
            }
        }
        Ok(Explored { executions: self.executions, complete: false })
    }

    /// Runs `body` once, with the given choices.
    ///
    /// # Errors
    ///
    /// The failure, if the execution fails again.
    pub fn replay(self, choices: &[u16], body: impl Fn() + Sync) -> Result<(), Failure> {
        let path = Path::repeat(self.preemptions, self.seed.is_some(), choices);
        let mut machine = execute(path, true, &body);
        machine.failure.take().map_or(Ok(()), |message| {
            Err(Failure {
                message,
                execution: 1,
                choices: choices.to_vec(),
                steps: machine.log().to_vec(),
            })
        })
    }
}

fn execute(path: Path, keep_log: bool, body: &(dyn Fn() + Sync)) -> Machine {
    let shared = Shared::new(Machine::new(path, keep_log));
    shared.run(body);
    shared.into_machine().expect("all threads of the execution have ended")
}

/// Explores `body` completely.
///
/// # Panics
///
/// If any execution fails. The message contains the number and the steps of the execution.
pub fn explore(body: impl Fn() + Sync) -> Explored {
    match Explorer::new().run(body) {
        Ok(explored) => explored,
        Err(failure) => panic!("{failure}"),
    }
}
