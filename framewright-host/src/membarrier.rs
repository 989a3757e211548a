//! Barriers on other CPUs.
//!
//! `membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)` makes every thread of this process that is
//! running execute a full memory barrier before the call returns; one that is not running has
//! executed one when it was switched out. The process registers once. There is no cheaper call
//! for one thread that may migrate, so the target of a barrier is ignored: all are reached.

use rustix::{
    io::Errno,
    thread::{MembarrierCommand, membarrier, membarrier_query},
};
use thiserror::Error;

/// Why a machine cannot run barriers on other CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoBarrier {
    /// The builder forbade it.
    #[error("membarrier was switched off")]
    SwitchedOff,
    /// The kernel has no private expedited membarrier (before Linux 4.14, or filtered out).
    #[error("this kernel has no private expedited membarrier")]
    Missing,
    /// The kernel has it, but refused to register this process.
    #[error("the kernel refused to register for membarrier ({0})")]
    Refused(Errno),
}

/// Whether and how barriers run on other CPUs.
pub(crate) struct RemoteBarrier(Result<(), NoBarrier>);

impl RemoteBarrier {
    /// Asks the kernel, unless not allowed to.
    pub(crate) fn detect(allowed: bool) -> Self {
        Self(if allowed { register() } else { Err(NoBarrier::SwitchedOff) })
    }

    /// Why there are none; `None` if there are.
    pub(crate) fn missing(&self) -> Option<NoBarrier> {
        self.0.err()
    }

    /// Runs a barrier on every thread of this process.
    ///
    /// # Panics
    ///
    /// If there are no remote barriers, or the kernel, having registered the process, refuses
    /// one: to return without it would let two threads use the same lists.
    pub(crate) fn run(&self) {
        let result = match self.0 {
            Ok(()) => membarrier(MembarrierCommand::PrivateExpedited),
            Err(_) => Err(Errno::NOSYS),
        };
        assert!(result.is_ok(), "no remote barrier on this machine: {result:?}");
    }
}

fn register() -> Result<(), NoBarrier> {
    if !membarrier_query().contains_command(MembarrierCommand::PrivateExpedited) {
        return Err(NoBarrier::Missing);
    }
    membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(NoBarrier::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_runs_wherever_it_is_said_to_exist() {
        let barrier = RemoteBarrier::detect(true);
        if barrier.missing().is_none() {
            barrier.run();
        }
    }

    #[test]
    #[should_panic(expected = "no remote barrier")]
    fn a_missing_barrier_never_returns() {
        let barrier = RemoteBarrier::detect(false);
        assert_eq!(barrier.missing(), Some(NoBarrier::SwitchedOff));
        barrier.run();
    }
}
