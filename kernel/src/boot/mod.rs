//! The data of the boot loader: memory map, command line, firmware tables.
//!
//! The loader (QEMU's `-kernel`, or another that supports PVH; GRUB, by Multiboot2) enters `boot.s`
//! with the address of a start info. Its parts are in memory that is free according to the memory
//! map, so the kernel copies all parts before it uses any memory.

#![allow(unsafe_code)]

pub(crate) mod command_line;
pub(crate) mod early;
mod memory_map;
mod multiboot;
mod start_info;

pub(crate) use command_line::{CommandLine, pair};
pub(crate) use memory_map::{MemoryMap, Region};
pub(crate) use start_info::StartInfo;

core::arch::global_asm!(include_str!("boot.s"), options(att_syntax, raw));
