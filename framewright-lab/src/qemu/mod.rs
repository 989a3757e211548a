//! The kernel of `kernel/` on emulated machines: builds it, boots it, and reads its output.
//!
//! A run of a workload has several *boots* for each side of a comparison. One measures time under
//! emulation; another, under `-icount`, counts instructions, which are the same on every host.
//! Their figures are combined: a boot that counts instructions has no meaningful times, and the
//! other boot no instruction counts.
//!
//! | module | job |
//! |---|---|
//! | `spec` | the emulated machine |
//! | `boot` | one run of QEMU, and its output |
//! | `linux` | a distribution's kernel on the same machine |
//! | `groups` | instructions by group |

mod boot;
mod groups;
mod linux;
mod spec;

use std::path::PathBuf;

use crate::{
    Error,
    report::{Check, Measured, Run, Verdict},
    workloads::Side,
};

use boot::System;
use groups::{Counter, Names};

pub use boot::Clock;
use linux::Skipped;
pub use spec::QemuSpec;

/// The work of the kernel.
#[derive(Clone, Debug)]
pub struct Work {
    /// Name of the workload.
    pub workload: &'static str,
    /// Its boots: the machine's clock, and words of the command line.
    pub boots: Vec<(Clock, Vec<String>)>,
}

/// A run of Linux, to compare the kernel with.
#[derive(Clone, Debug, Default)]
pub struct BesideLinux {
    /// Its kernel; `None`: that of the distribution's package.
    pub kernel: Option<PathBuf>,
}

/// Builds the kernel and boots it, for each side in turn, then the Linux of `beside`. `tell` gets
/// the finished and the total amount of work, in thousandths.
///
/// # Errors
///
/// If the machine or the kernel cannot be built or booted. A failed check is no error, nor is a
/// Linux that is missing or does not finish.
pub fn run(
    spec: &QemuSpec,
    work: &Work,
    sides: &[Side],
    beside: Option<&BesideLinux>,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Measured, Error> {
    boot::check_qemu_exists()?;
    let kernel = boot::kernel(sides)?;
    let mut notes = Vec::new();
    let linux = beside.and_then(|beside| {
        let linux = linux::Linux::prepare(beside.kernel.as_deref(), work);
        linux.map_err(|skipped| notes.push(skipped.to_string())).ok()
    });
    // Groups are useful only for a comparison of two kernels.
    let counts = work.boots.iter().any(|(clock, _)| *clock == Clock::Instructions);
    let counter = linux.as_ref().filter(|_| counts).and_then(|_| {
        let counter = Counter::build();
        counter.map_err(|why| notes.push(format!("no instructions by group: {why}"))).ok()
    });
    let steps = work.boots.len() * sides.len() + usize::from(linux.is_some());
    let mut tell = |step: usize, part: f64| {
        tell(((step as f64 + part) * 1000.0) as u64, steps as u64 * 1000);
    };
    let mut runs: Vec<Run> = Vec::new();
    let mut checks = Vec::new();
    for (at, side) in sides.iter().enumerate() {
        let mut run = side.run::<()>(&[], &[]);
        for (number, (clock, words)) in work.boots.iter().enumerate() {
            let settings = side.settings.iter().map(|(key, value)| format!("set={key}={value}"));
            let words: Vec<String> = std::iter::once(format!("workload={}", work.workload))
                .chain(words.iter().cloned())
                .chain(settings)
                .collect();
            let counter = counter.as_ref().filter(|_| *clock == Clock::Instructions);
            let more = counter.map(Counter::arguments).unwrap_or_default();
            let system = System { kernel: &kernel, image: None, more };
            let step = at * work.boots.len() + number;
            let report = boot::boot(spec, &system, *clock, &words, &mut |part| tell(step, part))?;
            checks = worse(checks, report.verdict.checks);
            let mut of_boot = Run::default();
            of_boot.metrics.extend(report.runs.into_iter().flat_map(|run| run.metrics));
            if let Some(counter) = counter {
                counter.add_groups(&mut of_boot, Names::OfLines(&kernel));
            }
            for (name, metric) in of_boot.metrics {
                run.metrics.entry(name).or_insert(metric);
            }
        }
        runs.push(run);
    }
    if let Some(linux) = linux {
        let mut tell = |part| tell(steps - 1, part);
        match linux.run(spec, work, counter.as_ref(), &mut tell) {
            Ok(run) => runs.push(run),
            Err(error) => notes.push(Skipped::because(&error).to_string()),
        }
    }
    Ok(Measured { runs, notes, checks, ..Measured::default() })
}

/// The list with a failed check, or else the first.
fn worse(before: Vec<Check>, now: Vec<Check>) -> Vec<Check> {
    let failed = !Verdict::of(now.clone()).passed;
    if before.is_empty() || (failed && Verdict::of(before.clone()).passed) { now } else { before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_is_reported() {
        let checks =
            |passed, detail: &str| vec![Check { name: "x".into(), passed, detail: detail.into() }];
        assert_eq!(worse(vec![], checks(true, "first"))[0].detail, "first");
        assert_eq!(worse(checks(true, "first"), checks(true, "then"))[0].detail, "first");
        assert_eq!(worse(checks(true, "first"), checks(false, "then"))[0].detail, "then");
        assert_eq!(worse(checks(false, "first"), checks(false, "then"))[0].detail, "first");
    }
}
