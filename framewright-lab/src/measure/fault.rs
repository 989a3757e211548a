//! Page faults of a small mapping whose frames stay on the lists of the CPU, and unmapping.

use super::probe::{Probe, Quantity, cpu_nanos};
use crate::anonymous::Anonymous;

/// Pages of the mapping: 1 MiB.
const PAGES: usize = 256;
/// Times that all pages are touched and discarded in a round.
const TIMES: usize = 8;

const FAULT: [Quantity; 2] = [
    Quantity::nanos(
        "page_fault_ns",
        "the first store to each page of 1 MiB, whose frames were freed just before",
    ),
    Quantity::nanos("unmap_ns", "madvise(MADV_DONTNEED) of these pages, per page"),
];

pub(super) fn probes<'m>() -> Vec<Probe<'m>> {
    let mut area = Anonymous::new(PAGES);
    vec![Probe::new(&FAULT, move || {
        let area = area.as_mut().map_err(|errno| errno.to_string())?;
        let (mut faults, mut unmaps) = (0.0, 0.0);
        for _ in 0..TIMES {
            faults += cpu_nanos(|| area.touch());
            let mut discarded = Ok(());
            unmaps += cpu_nanos(|| {
                discarded = area.discard();
                PAGES as u64
            });
            discarded.map_err(|errno| errno.to_string())?;
        }
        Ok(vec![faults / TIMES as f64, unmaps / TIMES as f64])
    })]
}
