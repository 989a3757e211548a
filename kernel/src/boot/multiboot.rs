//! The boot information of Multiboot2: tags, each with its kind and its length.

use core::slice;

use super::{CommandLine, MemoryMap, Region, StartInfo};

/// What the loader has in a register.
pub(super) const MAGIC: u32 = 0x36d7_6289;

/// Kinds of tags.
const END: u32 = 0;
const COMMAND_LINE: u32 = 1;
const MEMORY_MAP: u32 = 6;
/// A copy of the root of firmware tables, of the first version or of a later one.
const RSDP: [u32; 2] = [14, 15];
/// Bytes that each begins with.
const HEADER: usize = 8;
/// The kind of memory that is free to use.
const RAM: u32 = 1;

/// Reads what is at `address`. The firmware's root pointer stays there, in memory that the map calls free:
/// its tables are to be found before any is used.
///
/// # Safety
///
/// A loader that speaks Multiboot2 left its information there, and nothing was written to memory since
/// that it calls free.
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

/// Adds the regions of a memory map: the length of each and a version, then they.
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
