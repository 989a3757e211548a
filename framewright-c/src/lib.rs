//! Framewright for C.
//!
//! The functions here are declared in `framewright.h`, which is made from this source. README.md says how to build and
//! link; `examples/allocate.c` is a complete program.
//!
//! A memory is created in a buffer of the caller ([`fw_memory_init`]) and used through an opaque pointer. Blocks and
//! ranges are frame numbers. The machine is a struct of functions ([`FwPlatform`]).

#![no_std]

#[cfg(feature = "std")]
extern crate std;

mod calls;
mod config;
mod error;
mod memory;
#[cfg(not(feature = "std"))]
mod panic;
mod platform;
mod text;

pub use calls::*;
pub use config::{FW_MAX_CPUS, FW_MAX_RANGES, FwConfig, FwPresence, FwRange, FwSetting, FwZone};
pub use error::{FwError, fw_error_text};
pub use memory::FwMemory;
pub use platform::{FW_ALL_CPUS, FwCorruption, FwPlatform, FwWait};
