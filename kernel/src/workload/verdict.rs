//! The checks of every workload: all frames are free again, and nothing was corrupted.

use core::sync::atomic::Ordering;

use crate::{
    memory::memory,
    platform::{CORRUPTIONS, masked},
    report::{self, Check, Report},
};

/// Frames that were free before a workload.
pub(crate) struct Before(u64);

impl Before {
    /// The frames that are free now.
    pub(crate) fn now() -> Self {
        memory().drain_all();
        masked::reset();
        Self(memory().free())
    }

    /// Prints the report with `checks` and the common checks. Returns whether all passed.
    pub(crate) fn conclude(&self, workload: &str, report: &Report, checks: &[Check<'_>]) -> bool {
        memory().drain_all();
        masked::print();
        let free = memory().free();
        let consistent = memory().check();
        let corruptions = CORRUPTIONS.load(Ordering::Relaxed);
        let own = [
            Check {
                name: "balance",
                passed: free == self.0,
                detail: format_args!("{free} of {} frames are free again", self.0),
            },
            Check {
                name: "invariants",
                passed: consistent.is_ok() && corruptions == 0,
                detail: format_args!(
                    "the invariants hold: {}, bad frees: {corruptions}",
                    consistent.is_ok()
                ),
            },
        ];
        report.print(workload, checks, &own);
        report::passed(checks) && report::passed(&own)
    }
}
