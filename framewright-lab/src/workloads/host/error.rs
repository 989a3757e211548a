//! What keeps a run from happening.

use framewright::{CpuError, InitError};
use framewright_host::HostError;
use thiserror::Error;

/// Why a workload could not run on threads.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The machine could not be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The memory could not be set up.
    #[error("cannot set up a memory of {frames} frames for {cpus} CPUs: {reason}")]
    Init {
        /// Frames asked for.
        frames: u64,
        /// CPUs asked for.
        cpus: u16,
        /// What the library said.
        reason: InitError,
    },
    /// A CPU of the memory could not be claimed.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// What CPUs hold does not fit.
    #[error(
        "{cpus} CPUs hold up to {} MiB and {} MiB of {} MiB may be used; give it at least {} MiB, \
         or fewer CPUs",
        mib(*needed), mib(*usable), mib(*frames), mib(*ample)
    )]
    TooSmall {
        /// CPUs.
        cpus: u16,
        /// Frames they hold together.
        needed: u64,
        /// Frames above the high watermark.
        usable: u64,
        /// Frames of the memory.
        frames: u64,
        /// Frames that would be ample.
        ample: u64,
    },
    /// The work has no frames, no rounds or no batches.
    #[error("{workload} needs at least one {what}")]
    Nothing {
        /// The workload.
        workload: &'static str,
        /// What it has none of.
        what: &'static str,
    },
    /// An allocation failed although memory is ample.
    #[error("CPU {cpu} ran out of memory: {reason}")]
    OutOfMemory {
        /// The CPU.
        cpu: u16,
        /// What the allocator said.
        reason: String,
    },
}

fn mib(frames: u64) -> u64 {
    frames.div_ceil(256)
}
