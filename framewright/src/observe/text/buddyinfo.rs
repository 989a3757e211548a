//! `/proc/buddyinfo`: a row per zone that has memory.

use core::fmt;

use super::ZoneName;

/// Writes the row of a zone: its free blocks by order, one column for each element of the slice.
/// Blocks of isolated pageblocks are included.
///
/// # Errors
///
/// An error of the writer.
pub fn row(out: &mut dyn fmt::Write, zone: ZoneName<'_>, blocks: &[u64]) -> fmt::Result {
    write!(out, "{zone} ")?;
    for count in blocks {
        write!(out, "{count:>6} ")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn every_column_is_followed_by_a_blank() {
        let blocks = [1204, 310, 88, 41, 20, 11, 6, 3, 2, 1, 214];
        let mut text = String::new();
        row(&mut text, ZoneName { node: 0, zone: "Normal" }, &blocks).unwrap();
        let expected = "Node 0, zone   Normal   1204    310     88     41     20     11      6      \
                        3      2      1    214 \n";
        assert_eq!(text, expected);
    }
}
