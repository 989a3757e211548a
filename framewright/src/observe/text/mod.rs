//! The kernel's text formats, byte for byte, so that programs for the kernel's tables can read
//! these tables.
//!
//! Each table has a module with functions for its parts (a row, a zone). The functions take plain
//! data, so the same code prints the tables of a running memory and recorded tables of another
//! machine. The caller writes a table part by part, in the order that the module documents, and
//! needs no buffer for it. The format is that of Linux 6.18, which pads the CPU lists of `zoneinfo`
//! wider than 6.12 and prints more of their fields. Programs that read by key and not by column
//! understand both.

pub mod buddyinfo;
pub mod extfrag;
pub mod pagetypeinfo;
pub mod zoneinfo;

use core::fmt;

/// Columns of tables by order: the kernel's largest block has order 10.
pub const COLUMNS: usize = 11;

/// The name of a zone in the tables. `Display` prints `Node 0, zone   Normal`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneName<'a> {
    /// The number of its node.
    pub node: u32,
    /// `DMA`, `DMA32`, `Normal`, `Movable`.
    pub zone: &'a str,
}

impl fmt::Display for ZoneName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node {}, zone {:>8}", self.node, self.zone)
    }
}

/// Free blocks by order, in the columns of the kernel's tables: a block above order 10 counts as
/// several blocks of order 10.
#[must_use]
pub fn columns(blocks: &[u64]) -> [u64; COLUMNS] {
    let mut columns = [0u64; COLUMNS];
    for (order, &count) in blocks.iter().enumerate() {
        let at = order.min(COLUMNS - 1);
        let parts = 1u64.checked_shl((order - at) as u32).unwrap_or(u64::MAX);
        columns[at] = columns[at].saturating_add(count.saturating_mul(parts));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_blocks_are_folded_into_the_last_column() {
        let mut blocks = [0; 19];
        blocks[3] = 7;
        blocks[9] = 2;
        blocks[10] = 1;
        blocks[11] = 1;
        blocks[18] = 1;
        let mut expected = [0; COLUMNS];
        expected[3] = 7;
        expected[9] = 2;
        expected[10] = 1 + 2 + 256;
        assert_eq!(columns(&blocks), expected);
        assert_eq!(columns(&[5]), [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(columns(&[1; 100])[10], u64::MAX);
    }
}
