//! Firmware tables (ACPI): the CPUs, and the nodes of CPUs and memory.
//!
//! The loader gives the address of the root table, which lists the others. Every table begins with
//! a signature. A missing or truncated table counts as absent: the machine then has one CPU, or one
//! node.

#![allow(unsafe_code)]

mod madt;
mod nodes;

use core::slice;

pub(crate) use madt::cpus;
pub(crate) use nodes::Topology;

/// Bytes of the header of every table.
const HEADER: usize = 36;

/// The tables of a machine.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    /// Entries of the root table.
    root: &'static [u8],
    /// Bytes of an entry.
    entry: usize,
}

impl Tables {
    /// The tables with the root pointer (RSDP) at `address`; none if that is 0.
    ///
    /// # Safety
    ///
    /// The firmware left a root pointer there, and its tables were not overwritten.
    pub(crate) unsafe fn at(address: u64) -> Self {
        let none = Self { root: &[], entry: 4 };
        if address == 0 {
            return none;
        }
        // SAFETY: a root pointer has at least 20 bytes.
        let pointer = unsafe { slice::from_raw_parts(address as *const u8, 20) };
        if !pointer.starts_with(b"RSD PTR ") {
            return none;
        }
        let (root, entry) = match pointer[15] {
            0 => (u64::from(word(pointer, 16)), 4),
            // SAFETY: a root pointer has 36 bytes from revision 2 on.
            _ => (long(unsafe { slice::from_raw_parts(address as *const u8, 36) }, 24), 8),
        };
        // SAFETY: the root pointer names the root table.
        let root = unsafe { table_at(root) };
        Self { root: root.get(HEADER..).unwrap_or_default(), entry }
    }

    /// The table with a signature.
    fn find(&self, signature: &[u8; 4]) -> Option<&'static [u8]> {
        let address = |entry: &[u8]| match self.entry {
            4 => u64::from(word(entry, 0)),
            _ => long(entry, 0),
        };
        // SAFETY: entries of the root table are addresses of tables.
        let tables =
            self.root.chunks_exact(self.entry).map(|entry| unsafe { table_at(address(entry)) });
        tables.into_iter().find(|table| table.starts_with(signature))
    }
}

/// The bytes of a table.
///
/// # Safety
///
/// There is a table at `address`.
unsafe fn table_at(address: u64) -> &'static [u8] {
    // SAFETY: a table has a header, which contains its length.
    unsafe {
        let header = slice::from_raw_parts(address as *const u8, HEADER);
        slice::from_raw_parts(address as *const u8, word(header, 4) as usize)
    }
}

/// The structures after the first `skip` bytes of a table: type and bytes of each.
fn structures(table: &'static [u8], skip: usize) -> impl Iterator<Item = (u8, &'static [u8])> {
    let mut rest = table.get(skip..).unwrap_or_default();
    core::iter::from_fn(move || {
        let (&kind, &length) = (rest.first()?, rest.get(1)?);
        let structure = rest.get(..usize::from(length)).filter(|bytes| bytes.len() >= 2)?;
        rest = &rest[usize::from(length)..];
        Some((kind, structure))
    })
}

/// The double word at an offset; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The quad word at an offset.
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
