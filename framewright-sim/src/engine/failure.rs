//! Why a run ended early.

use framewright::CpuId;
use thiserror::Error;

/// What went wrong on a simulated machine.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// A CPU found something that must not be.
    #[error("CPU {}: {what}", cpu.get())]
    Violation {
        /// Who found it.
        cpu: CpuId,
        /// What it found.
        what: String,
    },
    /// Two CPUs are inside of what one uses exclusively.
    #[error("CPU {}: entered {section} while CPU {} was inside", cpu.get(), inside.get())]
    Shared {
        /// Who came.
        cpu: CpuId,
        /// What into.
        section: String,
        /// Who was there.
        inside: CpuId,
    },
    /// A program panicked.
    #[error("CPU {}: panicked: {message}", cpu.get())]
    Panicked {
        /// Whose program.
        cpu: CpuId,
        /// What it said.
        message: String,
    },
    /// Something that always holds does not.
    #[error("{what}")]
    Invariant {
        /// What does not hold.
        what: String,
    },
    /// It takes more steps than it was given.
    #[error("no end after {steps} steps")]
    Endless {
        /// How many it took.
        steps: u64,
    },
    /// Every CPU waits for another one.
    #[error("deadlock: every CPU waits")]
    Deadlock,
}

/// What a program is unwound with after it reported a [`Failure`] itself.
pub(super) struct Reported;
