//! Results: figures by name, printed as the JSON that `framewright run` writes.

use core::fmt;

use crate::{cpu, serial::print};

/// The unit of a figure, with the name that the program's reports use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Count,
    Ratio,
    Milliseconds,
    PerSecond,
    FramesPerAcquisition,
    Percent,
}

/// The direction in which a figure improves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Better {
    Lower,
    Higher,
    Neither,
}

/// A figure: the median of some rounds, and the extremes.
#[derive(Clone, Copy, Debug)]
struct Metric {
    name: &'static str,
    median: Fixed,
    min: Fixed,
    max: Fixed,
    rounds: usize,
    unit: Unit,
    better: Better,
}

/// A number with six decimals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Fixed(u64);

const ONE: u64 = 1_000_000;

impl Fixed {
    /// A quotient; 0 if the divisor is 0.
    #[inline(never)]
    pub(crate) fn ratio(value: u64, by: u64) -> Self {
        Self(u128::from(value).saturating_mul(ONE.into()).checked_div(by.into()).unwrap_or(0) as u64)
    }

    /// A whole number.
    pub(crate) fn whole(value: u64) -> Self {
        Self(value.saturating_mul(ONE))
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % ONE {
            0 => write!(f, "{}", self.0 / ONE),
            rest => write!(f, "{}.{rest:06}", self.0 / ONE),
        }
    }
}

/// The greatest number of figures of a run.
const MOST: usize = 48;

/// The result of a workload.
pub(crate) struct Report {
    metrics: [Option<Metric>; MOST],
    count: usize,
}

impl Report {
    /// A report without figures.
    pub(crate) const fn new() -> Self {
        Self { metrics: [None; MOST], count: 0 }
    }

    /// Adds a figure that was measured once.
    pub(crate) fn add(&mut self, name: &'static str, value: Fixed, unit: Unit, better: Better) {
        self.add_rounds(name, &mut [value], unit, better);
    }

    /// Adds a figure of several rounds, at least one. Sorts the rounds.
    pub(crate) fn add_rounds(
        &mut self,
        name: &'static str,
        rounds: &mut [Fixed],
        unit: Unit,
        better: Better,
    ) {
        sort(rounds);
        let (Some(&min), Some(&max)) = (rounds.first(), rounds.last()) else { return };
        // The median of an even number is the mean of the middle two.
        let at = |index: usize| rounds[index].0;
        let median = Fixed(at((rounds.len() - 1) / 2).midpoint(at(rounds.len() / 2)));
        if let Some(slot) = self.metrics.get_mut(self.count) {
            *slot = Some(Metric { name, median, min, max, rounds: rounds.len(), unit, better });
            self.count += 1;
        }
    }

    /// Prints the report as one line.
    pub(crate) fn print(&self, workload: &str, checks: &[Check<'_>], more: &[Check<'_>]) {
        print!(r#"{{"framewright":"{}","command":[],"#, env!("CARGO_PKG_VERSION"));
        print!(r#""workload":"{workload}","machine":"qemu:{}","seed":null,"#, cpu::online());
        print!(r#""runs":[{{"label":"framewright","settings":{{}},"metrics":{{"#);
        for (at, metric) in self.metrics[..self.count].iter().flatten().enumerate() {
            print!("{}{metric}", if at > 0 { "," } else { "" });
        }
        print!(r#"}},"series":{{}}}}],"published":[],"#);
        print!(r#""verdict":{{"passed":{},"checks":["#, passed(checks) && passed(more));
        for (at, check) in checks.iter().chain(more).enumerate() {
            print!("{}{check}", if at > 0 { "," } else { "" });
        }
        print!("]}}}}\n");
    }
}

/// Sorts a few numbers. The sort of `core` would take 4 KiB of code.
fn sort(numbers: &mut [Fixed]) {
    for end in 1..numbers.len() {
        for at in (0..end).rev() {
            if numbers[at] <= numbers[at + 1] {
                break;
            }
            numbers.swap(at, at + 1);
        }
    }
}

/// Whether all checks passed.
pub(crate) fn passed(checks: &[Check<'_>]) -> bool {
    checks.iter().all(|check| check.passed)
}

/// The result of a check.
pub(crate) struct Check<'c> {
    pub(crate) name: &'static str,
    pub(crate) passed: bool,
    pub(crate) detail: fmt::Arguments<'c>,
}

impl fmt::Display for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, passed, detail } = self;
        write!(f, r#"{{"name":"{name}","passed":{passed},"detail":"{detail}"}}"#)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, median, min, max, rounds, .. } = self;
        write!(f, r#""{name}":{{"median":{median},"min":{min},"max":{max},"n":{rounds},"#)?;
        write!(f, r#""unit":"{}","better":{}}}"#, self.unit.name(), self.better.json())
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Ratio => "ratio",
            Self::Milliseconds => "ms",
            Self::PerSecond => "1/s",
            Self::FramesPerAcquisition => "frames/acquisition",
            Self::Percent => "%",
        }
    }
}

impl Better {
    fn json(self) -> &'static str {
        match self {
            Self::Lower => r#""lower""#,
            Self::Higher => r#""higher""#,
            Self::Neither => "null",
        }
    }
}
