//! `/proc/pagetypeinfo`: free blocks by migratetype, then pageblocks by migratetype.
//!
//! For each node: the [`heading`]; a [`free_row`] for each type of each of its zones; the
//! [`block_heading`]; a [`block_row`] for each of its zones. Zones without memory have no rows.

use core::fmt;

use super::ZoneName;

/// The kernel stops counting a free list at this number and prints `>` before it.
const COUNT_CAP: u64 = 100_000;

/// Writes the heading of the free blocks of a node, for this number of columns.
///
/// # Errors
///
/// An error of the writer.
pub fn heading(out: &mut dyn fmt::Write, pageblock_order: u8, columns: usize) -> fmt::Result {
    writeln!(out, "Page block order: {pageblock_order}")?;
    writeln!(out, "Pages per block:  {}", 1u64 << (pageblock_order & 63))?;
    writeln!(out)?;
    write!(out, "{:<43} ", "Free pages count per migrate type at order")?;
    for order in 0..columns {
        write!(out, "{order:>6} ")?;
    }
    writeln!(out)
}

/// Writes the row of the free blocks of one migratetype in one zone, by order.
///
/// # Errors
///
/// An error of the writer.
pub fn free_row(
    out: &mut dyn fmt::Write,
    zone: ZoneName<'_>,
    migratetype: &str,
    blocks: &[u64],
) -> fmt::Result {
    let ZoneName { node, zone } = zone;
    write!(out, "Node {node:>4}, zone {zone:>8}, type {migratetype:>12} ")?;
    for &count in blocks {
        let prefix = if count >= COUNT_CAP { ">" } else { "" };
        write!(out, "{prefix}{:>6} ", count.min(COUNT_CAP))?;
    }
    writeln!(out)
}

/// Writes the heading of the pageblocks of a node.
///
/// # Errors
///
/// An error of the writer.
pub fn block_heading<'t>(
    out: &mut dyn fmt::Write,
    migratetypes: impl Iterator<Item = &'t str>,
) -> fmt::Result {
    write!(out, "\n{:<23}", "Number of blocks type ")?;
    for name in migratetypes {
        write!(out, "{name:>12} ")?;
    }
    writeln!(out)
}

/// Writes the row of the pageblocks of one zone, in the order of the heading.
///
/// # Errors
///
/// An error of the writer.
pub fn block_row(out: &mut dyn fmt::Write, zone: ZoneName<'_>, blocks: &[u64]) -> fmt::Result {
    write!(out, "{zone} ")?;
    for count in blocks {
        write!(out, "{count:>12} ")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const NORMAL: ZoneName<'_> = ZoneName { node: 0, zone: "Normal" };

    #[test]
    fn counts_are_capped_as_the_kernel_caps_them() {
        let mut text = String::new();
        free_row(&mut text, NORMAL, "Movable", &[123_456, 100_000, 99_999, 0]).unwrap();
        assert_eq!(
            text,
            "Node    0, zone   Normal, type      Movable >100000 >100000  99999      0 \n"
        );
    }

    #[test]
    fn headings_and_rows_line_up() {
        let mut text = String::new();
        heading(&mut text, 9, 3).unwrap();
        block_heading(&mut text, ["Unmovable", "Movable"].into_iter()).unwrap();
        block_row(&mut text, NORMAL, &[35, 1204]).unwrap();
        let expected = "Page block order: 9\n\
                        Pages per block:  512\n\
                        \n\
                        Free pages count per migrate type at order       0      1      2 \n\
                        \n\
                        Number of blocks type     Unmovable      Movable \n\
                        Node 0, zone   Normal           35         1204 \n";
        assert_eq!(text, expected);
    }
}
