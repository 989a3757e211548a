//! Reasons for the early end of a run.

use framewright::CpuId;
use thiserror::Error;

/// The reason why a run failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// A CPU found a violated rule.
    #[error("CPU {}: {what}", cpu.get())]
    Violation {
        /// The CPU that found it.
        cpu: CpuId,
        /// A description of the violation.
        what: String,
    },
    /// Two CPUs are inside one exclusive section.
    #[error("CPU {}: entered {section} while CPU {} was inside", cpu.get(), inside.get())]
    Shared {
        /// The CPU that entered second.
        cpu: CpuId,
        /// The name of the section.
        section: String,
        /// The CPU that was inside.
        inside: CpuId,
    },
    /// A program panicked.
    #[error("CPU {}: panicked: {message}", cpu.get())]
    Panicked {
        /// The CPU of the program.
        cpu: CpuId,
        /// The message of the panic.
        message: String,
    },
    /// An invariant does not hold.
    #[error("{what}")]
    Invariant {
        /// A description of the invariant.
        what: String,
    },
    /// The run exceeded its limit of steps.
    #[error("no end after {steps} steps")]
    Endless {
        /// The number of steps of the run.
        steps: u64,
    },
    /// Every CPU waits for another one.
    #[error("deadlock: every CPU waits")]
    Deadlock,
}

/// The payload that unwinds a program after it reported a [`Failure`] itself.
pub(super) struct Reported;
