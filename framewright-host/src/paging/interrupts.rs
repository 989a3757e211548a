//! Interrupts that the kernel counts.

use std::fs;

/// The number of TLB shootdowns of all processors of the system so far: the row `TLB` of
/// `/proc/interrupts`. `None` if the kernel does not count them there.
#[must_use]
pub fn shootdowns() -> Option<u64> {
    parse(&fs::read_to_string("/proc/interrupts").ok()?)
}

fn parse(table: &str) -> Option<u64> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix("TLB:"))?;
    let counts: Vec<u64> = row.split_whitespace().map_while(|word| word.parse().ok()).collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_summed_over_processors() {
        let table = "           CPU0       CPU1\n  1:          9          0   IO-APIC   edge\n\
                     TLB:    4918871    5010790   TLB shootdowns\nMIS:          0\n";
        assert_eq!(parse(table), Some(9_929_661));
        assert_eq!(parse("  1: 5 5\n"), None);
        assert_eq!(parse("TLB: TLB shootdowns\n"), None);
    }
}
