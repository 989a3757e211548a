//! What can go wrong when a machine is built or a thread registers.

use framewright::CpuId;
use rustix::io::Errno;
use thiserror::Error;

/// Why a machine, a buffer or a registration could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostError {
    /// A machine without memory was asked for.
    #[error("a machine needs at least one frame; ask for some with frames()")]
    NoFrames,
    /// More memory than a process can address, or a base so high that frame numbers run out.
    #[error("{frames} frames from {base:#x} on are more than a process can address")]
    TooManyFrames {
        /// How many.
        frames: u64,
        /// The number of the first one.
        base: u64,
    },
    /// The machine has more frames than a page cache can number.
    #[error(
        "a page cache has room for {most} frames, and the machine has {frames}; make a smaller one"
    )]
    TooManyToCache {
        /// Frames of the machine.
        frames: u64,
        /// The most that a page cache can number.
        most: u64,
    },
    /// The first frame does not start a pageblock.
    #[error(
        "the first frame, {base:#x}, is not a multiple of 512: a machine starts at a pageblock"
    )]
    MisalignedBase {
        /// The number asked for.
        base: u64,
    },
    /// A machine without CPUs was asked for.
    #[error("a machine needs at least one CPU; ask for some with cpus()")]
    NoCpus,
    /// The kernel gave no memory.
    #[error(
        "the kernel gave no {} MiB of memory for {what} ({errno}); ask for less, or free some",
        bytes.div_ceil(1 << 20)
    )]
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// How much was asked for.
        bytes: usize,
        /// What the kernel said.
        errno: Errno,
    },
    /// Populating, or a table, needs more memory than the system has available.
    #[error(
        "{what} would need {} MiB and the system has {} MiB available; ask for less",
        bytes.div_ceil(1 << 20), available >> 20
    )]
    TooLittleAvailable {
        /// What it was for.
        what: &'static str,
        /// How much was asked for.
        bytes: usize,
        /// `MemAvailable` of `/proc/meminfo`.
        available: u64,
    },
    /// There are too few huge pages in the kernel's pool.
    #[error(
        "{what} needs {needed} huge pages of 2 MiB and {free} are free ({errno}); reserve them \
         with vm.nr_hugepages, or ask for transparent ones"
    )]
    NoHugePages {
        /// What it was for.
        what: &'static str,
        /// Huge pages needed.
        needed: usize,
        /// Huge pages free in the pool.
        free: u64,
        /// What the kernel said.
        errno: Errno,
    },
    /// The kernel has no transparent huge pages for this mapping.
    #[error("the kernel refuses transparent huge pages for {what} ({errno}); ask for small ones")]
    NoTransparentHugePages {
        /// What it was for.
        what: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// An anonymous file for the frames could not be made.
    #[error("memfd for {what} failed ({errno}); use anonymous memory")]
    Memfd {
        /// What it was for.
        what: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// The kernel takes no memory back.
    #[error(
        "the kernel takes back no memory of this process ({errno}); a page cache needs that: do not \
         lock all memory (mlockall)"
    )]
    NoGivingUp {
        /// What the kernel said.
        errno: Errno,
    },
    /// The machine has no such CPU.
    #[error("there is no CPU {}: the machine has {cpus}, numbered from 0", cpu.get())]
    NoSuchCpu {
        /// The one asked for.
        cpu: CpuId,
        /// How many there are.
        cpus: u16,
    },
    /// Another thread is that CPU already.
    #[error("CPU {} is taken: another thread registered as it", cpu.get())]
    CpuTaken {
        /// The one asked for.
        cpu: CpuId,
    },
    /// Every CPU has its thread already.
    #[error("all {cpus} CPUs are taken; build the machine with more of them")]
    NoFreeCpu {
        /// How many there are.
        cpus: u16,
    },
    /// The thread could not be pinned.
    #[error("CPU {} cannot be pinned to processor {processor} ({errno}); build without pin()",
        cpu.get())]
    Pin {
        /// The CPU of the machine.
        cpu: CpuId,
        /// The processor underneath.
        processor: usize,
        /// What the kernel said.
        errno: Errno,
    },
    /// The processors that this process may use cannot be told.
    #[error("the processors of this process cannot be told ({errno}); build without pin()")]
    Affinity {
        /// What the kernel said.
        errno: Errno,
    },
}
