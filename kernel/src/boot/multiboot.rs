//! The boot information of Multiboot2: tags, each with type and length.

use core::slice;

use super::{CommandLine, MemoryMap, Region, StartInfo};

/// The loader's magic word.
pub(super) const MAGIC: u32 = 0x36d7_6289;

/// Types of tags.
const END: u32 = 0;
const COMMAND_LINE: u32 = 1;
const MEMORY_MAP: u32 = 6;
/// A copy of the RSDP, of the first version or of a later one.
const RSDP: [u32; 2] = [14, 15];
/// Bytes of the header of a tag.
const HEADER: usize = 8;
/// The type of free memory.
const RAM: u32 = 1;

/// Reads the information at `address`. The RSDP is not copied. It is in memory that is free
/// according to the map, so the kernel must find the tables before it uses any memory.
///
/// # Safety
///
/// A Multiboot2 loader left its information there, and memory that is free by its map was not
/// written to.
pub(super) unsafe fn read(address: u64) -> Option<StartInfo> {
    // SAFETY: the information begins with its length; all of it is below 4 GiB, and mapped.
    let info = unsafe {
        let length = *(address as *const u32);
        slice::from_raw_parts(address as *const u8, length as usize)
    };
    let mut start =
        StartInfo { memory: MemoryMap::new(), command_line: CommandLine::new(""), rsdp: 0 };
    let mut rest = info.get(HEADER..)?;
    loop {
        let (kind, length) = (word(rest, 0)?, word(rest, 4)? as usize);
        let tag = rest.get(HEADER..length)?;
        match kind {
            END => return Some(start),
            COMMAND_LINE => {
                let text = tag.split(|&byte| byte == 0).next().unwrap_or_default();
                start.command_line = CommandLine::new(str::from_utf8(text).unwrap_or_default());
            }
            MEMORY_MAP => add(&mut start.memory, tag)?,
            kind if RSDP.contains(&kind) => start.rsdp = tag.as_ptr() as u64,
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(8)..)?;
    }
}

/// Adds the regions of a memory map: the length of an entry, a version, and the entries.
fn add(memory: &mut MemoryMap, map: &[u8]) -> Option<()> {
    let bytes = word(map, 0)? as usize;
    for region in map.get(8..)?.chunks_exact(bytes.max(24)) {
        let (start, length) = (long(region, 0)?, long(region, 8)?);
        if word(region, 16)? == RAM {
            memory.add(Region { start, end: start.saturating_add(length) });
        }
    }
    Some(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(word(bytes, at)?) | u64::from(word(bytes, at + 4)?) << 32)
}
