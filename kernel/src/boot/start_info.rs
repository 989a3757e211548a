//! What the loader says: by the start info of PVH (`hvm_start_info`), or by that of Multiboot2.

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
/// The kind of memory that is free to use.
const RAM: u32 = 1;

/// What the loader says, copied.
pub(crate) struct StartInfo {
    /// Memory that is free to use, but for the kernel itself.
    pub(crate) memory: MemoryMap,
    /// What the kernel is to do.
    pub(crate) command_line: CommandLine,
    /// Address of the root of firmware tables, or 0.
    pub(crate) rsdp: u64,
}

impl StartInfo {
    /// Reads what is at `address`; `loader` is the word that a loader of Multiboot2 names itself with.
    ///
    /// # Safety
    ///
    /// A loader that speaks one of the two left its start info there, and nothing was written to memory
    /// since that it calls free.
    pub(crate) unsafe fn read(loader: u32, address: u64) -> Option<Self> {
        if loader == multiboot::MAGIC {
            // SAFETY: as the caller promises.
            return unsafe { multiboot::read(address) };
        }
        // SAFETY: the caller vouches for it; all of it is below 4 GiB, and mapped.
        let raw = unsafe { &*(address as *const Raw) };
        if raw.magic != MAGIC || raw.version < 1 {
            return None;
        }
        // SAFETY: the start info says where its memory map is and how long.
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
            // SAFETY: it is a text that ends with a zero.
            at => unsafe { CStr::from_ptr(at as *const _) },
        };
        let command_line = CommandLine::new(text.to_str().unwrap_or_default());
        Some(Self { memory, command_line, rsdp: raw.rsdp })
    }
}
