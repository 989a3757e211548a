//! What the boot loader leaves: memory map, command line, firmware tables.
//!
//! The loader (QEMU's `-kernel`, or another that speaks PVH; GRUB, by Multiboot2) enters `boot.s` with the
//! address of a start info, and its pieces lie about in memory that is free as far as the memory map says. So all
//! of it is copied before anything is taken.

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
