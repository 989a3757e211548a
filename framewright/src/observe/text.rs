//! The kernel's text formats.

use core::fmt;

use crate::{
    buddy::{BlockCounts, MigrateType},
    frame::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER},
};

/// Columns of per-order tables: the kernel prints orders 0 to 10.
const COLUMNS: usize = 11;

/// Where the kernel stops counting a free list, printing `>` before the number.
const COUNT_CAP: u64 = 100_000;

/// `/proc/buddyinfo` of one zone.
pub(crate) fn write_buddyinfo(
    out: &mut dyn fmt::Write,
    node: u32,
    zone: &str,
    counts: &BlockCounts,
) -> fmt::Result {
    write!(out, "Node {node}, zone {zone:>8} ")?;
    for order in 0..COLUMNS as u8 {
        let blocks = Order::new(order).map_or(0, |order| counts.free_as_kernel(order, None));
        write!(out, "{blocks:>6} ")?;
    }
    writeln!(out)
}

/// `/proc/pagetypeinfo` of one zone.
pub(crate) fn write_pagetypeinfo(
    out: &mut dyn fmt::Write,
    node: u32,
    zone: &str,
    counts: &BlockCounts,
) -> fmt::Result {
    writeln!(out, "Page block order: {PAGEBLOCK_ORDER}")?;
    writeln!(out, "Pages per block:  {PAGEBLOCK_FRAMES}")?;
    writeln!(out)?;
    write!(out, "{:<43} ", "Free pages count per migrate type at order")?;
    for order in 0..COLUMNS {
        write!(out, "{order:>6} ")?;
    }
    writeln!(out)?;
    for of in MigrateType::all() {
        write!(out, "Node {node:>4}, zone {zone:>8}, type {:>12} ", of.name())?;
        for order in 0..COLUMNS as u8 {
            let blocks = Order::new(order).map_or(0, |at| counts.free_as_kernel(at, Some(of)));
            let prefix = if blocks >= COUNT_CAP { ">" } else { "" };
            write!(out, "{prefix}{:>6} ", blocks.min(COUNT_CAP))?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    write!(out, "{:<23}", "Number of blocks type ")?;
    for of in MigrateType::all() {
        write!(out, "{:>12} ", of.name())?;
    }
    writeln!(out)?;
    write!(out, "Node {node}, zone {zone:>8} ")?;
    for of in MigrateType::all() {
        write!(out, "{:>12} ", counts.pageblocks[of as usize])?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn buddyinfo_has_the_kernels_columns() {
        let mut counts = BlockCounts::default();
        counts.free[1][0] = 1204;
        counts.free[0][0] = 3;
        counts.free[1][9] = 214;
        counts.free[1][10] = 1;
        counts.free[2][12] = 2;
        let mut text = String::new();
        write_buddyinfo(&mut text, 0, "Normal", &counts).unwrap();
        let expected = "Node 0, zone   Normal   1207      0      0      0      0      0      0      \
                        0      0    214      9 \n";
        assert_eq!(text, expected);
    }

    #[test]
    fn pagetypeinfo_caps_what_the_kernel_caps() {
        let mut counts = BlockCounts::default();
        counts.free[1][0] = 123_456;
        counts.pageblocks[1] = 1204;
        let mut text = String::new();
        write_pagetypeinfo(&mut text, 0, "Normal", &counts).unwrap();
        assert!(text.contains("Node    0, zone   Normal, type      Movable >100000      0 "));
        assert!(text.contains("\nNode 0, zone   Normal            0         1204 "));
    }
}
