//! Why a replay did not happen.

use crate::trace::TraceError;

/// Why a replay could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The machine is larger than a replay can hold.
    #[error("{file}: a machine of {frames} frames of 4 KiB; a replay holds at most {limit}")]
    TooLarge {
        /// The recording or snapshot that asks for it.
        file: String,
        /// Frames asked for.
        frames: u64,
        /// The most there can be.
        limit: u64,
    },
    /// The recording contains frames of more pageblocks than a replay supports.
    #[error(
        "{file}:{line}: up to this line, the recording names frames of more than {limit} \
         pageblocks of 2 MiB, which is the most that a replay holds; replay a part of it"
    )]
    Scattered {
        /// The recording.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// The most that a replay supports.
        limit: usize,
    },
    /// The snapshot has a zone that a memory cannot have.
    #[error(
        "node {node}, zone {zone}: a memory has nodes below 64, and on each the zones DMA, DMA32, \
         Normal and Movable"
    )]
    Zone {
        /// Its node.
        node: u16,
        /// Its name.
        zone: String,
    },
    /// The allocator cannot be set up with these settings.
    #[error("cannot set up a memory of {frames} frames and {cpus} CPUs: {reason}")]
    Setup {
        /// Frames of the machine.
        frames: u64,
        /// CPUs of the machine.
        cpus: u16,
        /// What the allocator said.
        reason: String,
    },
    /// The recording changed between its two readings.
    #[error("{file}:{line}: CPU {cpu} was not there when the file was surveyed: it has changed")]
    Changed {
        /// The recording.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// The CPU that is new.
        cpu: u16,
    },
    /// The allocator violated one of its own invariants: a bug in it.
    #[error("the allocator violated an invariant, please report this: {violation}")]
    Violation {
        /// What is wrong.
        violation: String,
    },
}
