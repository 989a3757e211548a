//! Errors of building a machine and registering a thread.

use framewright::CpuId;
use rustix::io::Errno;
use thiserror::Error;

/// The reason why a machine or a buffer could not be created, or a thread not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostError {
    /// A machine without memory was requested.
    #[error("a machine needs at least one frame; ask for some with frames()")]
    NoFrames,
    /// More memory than a process can address, or a base so high that frame numbers run out.
    #[error("{frames} frames from {base:#x} on exceed the address space of a process")]
    TooManyFrames {
        /// The number of frames.
        frames: u64,
        /// The number of the first one.
        base: u64,
    },
    /// The machine has more frames than a page cache can number.
    #[error(
        "a page cache numbers at most {most} frames, and the machine has {frames}; make a smaller one"
    )]
    TooManyToCache {
        /// Frames of the machine.
        frames: u64,
        /// The maximum number of a page cache.
        most: u64,
    },
    /// The first frame does not start a pageblock.
    #[error(
        "the first frame, {base:#x}, is not a multiple of 512: a machine starts at a pageblock"
    )]
    MisalignedBase {
        /// The requested number.
        base: u64,
    },
    /// A machine without CPUs was requested.
    #[error("a machine needs at least one CPU; ask for some with cpus()")]
    NoCpus,
    /// The kernel refused memory.
    #[error(
        "the kernel refused {} MiB of memory for {what} ({errno}); ask for less, or free some",
        bytes.div_ceil(1 << 20)
    )]
    OutOfMemory {
        /// The purpose.
        what: &'static str,
        /// The requested size in bytes.
        bytes: usize,
        /// The error of the kernel.
        errno: Errno,
    },
    /// The purpose needs more memory than the system has available.
    #[error(
        "{what} would need {} MiB and the system has {} MiB available; ask for less",
        bytes.div_ceil(1 << 20), available >> 20
    )]
    TooLittleAvailable {
        /// The purpose.
        what: &'static str,
        /// The requested size in bytes.
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
        /// The purpose.
        what: &'static str,
        /// Huge pages needed.
        needed: usize,
        /// Huge pages free in the pool.
        free: u64,
        /// The error of the kernel.
        errno: Errno,
    },
    /// The kernel has no transparent huge pages for this mapping.
    #[error("the kernel refuses transparent huge pages for {what} ({errno}); ask for small ones")]
    NoTransparentHugePages {
        /// The purpose.
        what: &'static str,
        /// The error of the kernel.
        errno: Errno,
    },
    /// An anonymous file for the frames could not be created.
    #[error("memfd for {what} failed ({errno}); use anonymous memory")]
    Memfd {
        /// The purpose.
        what: &'static str,
        /// The error of the kernel.
        errno: Errno,
    },
    /// The kernel does not free memory of this process on request.
    #[error(
        "the kernel frees no memory of this process on request ({errno}); a page cache needs that: do \
         not lock all memory (mlockall)"
    )]
    NoEviction {
        /// The error of the kernel.
        errno: Errno,
    },
    /// The machine has no such CPU.
    #[error("there is no CPU {}: the machine has {cpus}, numbered from 0", cpu.get())]
    NoSuchCpu {
        /// The requested CPU.
        cpu: CpuId,
        /// The number of CPUs.
        cpus: u16,
    },
    /// Another thread is that CPU already.
    #[error("CPU {} is taken: another thread registered as it", cpu.get())]
    CpuTaken {
        /// The requested CPU.
        cpu: CpuId,
    },
    /// Every CPU has its thread already.
    #[error("all {cpus} CPUs are taken; build the machine with more of them")]
    NoFreeCpu {
        /// The number of CPUs.
        cpus: u16,
    },
    /// The thread could not be pinned.
    #[error("CPU {} cannot be pinned to processor {processor} ({errno}); build without pin()",
        cpu.get())]
    Pin {
        /// The CPU of the machine.
        cpu: CpuId,
        /// The processor.
        processor: usize,
        /// The error of the kernel.
        errno: Errno,
    },
    /// The processors that this process may use are unknown.
    #[error("the processors of this process are unknown ({errno}); build without pin()")]
    Affinity {
        /// The error of the kernel.
        errno: Errno,
    },
}
