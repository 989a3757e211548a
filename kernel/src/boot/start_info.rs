//! The loader's start info, of PVH (`hvm_start_info`) or of Multiboot2.

use core::{ffi::CStr, slice};

use super::{CommandLine, MemoryMap, Region, multiboot};

/// `hvm_start_info`, version 1.
#[repr(C)]
struct Raw {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

/// `hvm_memmap_table_entry`.
#[repr(C)]
struct RawRegion {
    address: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

const MAGIC: u32 = 0x336e_c578;
/// The type of free memory.
const RAM: u32 = 1;

/// The loader's data, copied.
pub(crate) struct StartInfo {
    /// Free memory, including that of the kernel image.
    pub(crate) memory: MemoryMap,
    /// The command line.
    pub(crate) command_line: CommandLine,
    /// Address of the RSDP, or 0.
    pub(crate) rsdp: u64,
}

impl StartInfo {
    /// Reads the start info at `address`; `loader` is the magic word of Multiboot2 loaders.
    ///
    /// # Safety
    ///
    /// A loader of one of the two kinds left its start info there, and memory that is free by its
    /// map was not written to.
    pub(crate) unsafe fn read(loader: u32, address: u64) -> Option<Self> {
        if loader == multiboot::MAGIC {
            // SAFETY: by the contract of this function.
            return unsafe { multiboot::read(address) };
        }
        // SAFETY: by the contract of this function; the start info is below 4 GiB, and mapped.
        let raw = unsafe { &*(address as *const Raw) };
        if raw.magic != MAGIC || raw.version < 1 {
            return None;
        }
        // SAFETY: the start info contains the address and the length of its memory map.
        let regions = unsafe {
            let entries = raw.memory_map_entries as usize;
            slice::from_raw_parts(raw.memory_map as *const RawRegion, entries)
        };
        let mut memory = MemoryMap::new();
        for region in regions.iter().filter(|region| region.kind == RAM) {
            memory.add(Region { start: region.address, end: region.address + region.bytes });
        }
        let text = match raw.command_line {
            0 => c"",
            // SAFETY: the address of a string that ends with a zero.
            at => unsafe { CStr::from_ptr(at as *const _) },
        };
        let command_line = CommandLine::new(text.to_str().unwrap_or_default());
        Some(Self { memory, command_line, rsdp: raw.rsdp })
    }
}
