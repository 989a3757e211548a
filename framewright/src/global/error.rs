//! Errors of the allocator for a whole kernel.

use core::fmt;

use crate::{core::CpuError, memory::InitError, types::AllocError};

/// The reason why a [`Global`](super::Global) was not initialised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GlobalInitError {
    /// The allocator was initialised before, or is being initialised.
    AlreadyInitialised,
    /// The configuration has more CPUs than the type allows.
    TooManyCpus {
        /// The number of CPUs that the type allows.
        declared: usize,
        /// The number of CPUs in the configuration.
        given: u16,
    },
    /// No range of the memory map has space for the metadata.
    NoSpace {
        /// Bytes needed.
        bytes: usize,
    },
    /// The memory cannot be created.
    Memory(InitError),
}

impl From<InitError> for GlobalInitError {
    fn from(error: InitError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for GlobalInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyInitialised => {
                f.write_str("the allocator was initialised before, or is being initialised")
            }
            Self::TooManyCpus { declared, given } => {
                write!(f, "the memory has {given} CPUs; the allocator was declared for {declared}")
            }
            Self::NoSpace { bytes } => {
                write!(f, "no range of the memory map has {bytes} bytes for the metadata")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GlobalInitError {}

/// The reason why a [`Global`](super::Global) did not allocate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GlobalError {
    /// The allocator is not initialised.
    NotInitialised,
    /// The CPU of the caller has no token: the memory was made for fewer CPUs, the CPU is offline, or another
    /// caller has claimed its token.
    Cpu(CpuError),
    /// The request was refused.
    Alloc(AllocError),
}

// As for `AllocError`: a result of block or error must fit into two registers.
const _: () = assert!(size_of::<GlobalError>() <= 8);

impl From<AllocError> for GlobalError {
    #[inline(always)]
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

impl fmt::Display for GlobalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInitialised => {
                f.write_str("the allocator is not initialised: call Global::init first")
            }
            Self::Cpu(error) => error.fmt(f),
            Self::Alloc(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GlobalError {}
