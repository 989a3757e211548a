//! `unusable_index` and `extfrag_index` of debugfs: how fragmented the free memory of a zone is for
//! requests of each order. A row per zone that has memory.

use core::fmt;

use super::ZoneName;
use crate::types::{fragmentation_index, unusable_index};

/// Writes the row of a zone in `unusable_index`, from its free blocks by order: see [`unusable_index`].
///
/// # Errors
///
/// An error of the writer.
pub fn unusable_row(out: &mut dyn fmt::Write, zone: ZoneName<'_>, blocks: &[u64]) -> fmt::Result {
    write!(out, "{zone} ")?;
    for order in 0..blocks.len() {
        let index = unusable_index(blocks, order);
        write!(out, "{}.{:03} ", index / 1000, index % 1000)?;
    }
    writeln!(out)
}

/// Writes the row of a zone in `extfrag_index`, from its free blocks by order: see
/// [`BlockCounts::fragmentation_index`](crate::buddy::BlockCounts::fragmentation_index).
///
/// # Errors
///
/// An error of the writer.
pub fn index_row(out: &mut dyn fmt::Write, zone: ZoneName<'_>, blocks: &[u64]) -> fmt::Result {
    write!(out, "{zone} ")?;
    for order in 0..blocks.len() {
        let index = fragmentation_index(blocks, order);
        // Quotient and remainder both carry the sign, as the kernel prints them.
        write!(out, "{:>2}.{:03} ", index / 1000, index % 1000)?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const NORMAL: ZoneName<'_> = ZoneName { node: 0, zone: "Normal" };

    #[test]
    fn rows_are_in_thousandths() {
        let mut blocks = [0; 11];
        blocks[8] = 1;
        let mut text = String::new();
        index_row(&mut text, NORMAL, &blocks).unwrap();
        unusable_row(&mut text, NORMAL, &blocks).unwrap();
        let expected = "Node 0, zone   Normal -1.000 -1.000 -1.000 -1.000 -1.000 -1.000 -1.000 \
                        -1.000 -1.000  0.-500  0.-250 \n\
                        Node 0, zone   Normal 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 \
                        0.000 1.000 1.000 \n";
        assert_eq!(text, expected);
    }
}
