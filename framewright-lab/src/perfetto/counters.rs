//! The values of counters at intervals, and their rates.

use framewright::{Memory, Platform};

use super::Process;

/// The first interval, in nanoseconds.
const EVERY: u64 = 50_000;
/// After so many samples the interval doubles: the number of samples grows with the logarithm of a run's length.
const SAMPLES: u32 = 1_000;

/// Amounts: names, units and values.
pub(crate) type Levels = Vec<(&'static str, &'static str, u64)>;

/// The frames of a memory that are not allocated, read without locks.
pub(crate) fn levels(memory: &Memory<'_, impl Platform>) -> Levels {
    vec![
        ("free", "frames", memory.free()),
        ("on CPU lists", "frames", memory.held_by_cpus()),
        ("in depots", "frames", memory.in_depots()),
        ("unflushed", "frames", memory.tlb().deferred()),
    ]
}

/// The state of a run at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Amounts now.
    pub(crate) levels: Levels,
    /// Counts since the start. The trace has their rates, too.
    pub(crate) counts: Vec<(&'static str, u64)>,
}

/// Decides when a sample is due, and writes it.
#[derive(Debug)]
pub(crate) struct Counters {
    due: u64,
    every: u64,
    taken: u32,
    before: Option<(u64, Sample)>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { due: 0, every: EVERY, taken: 0, before: None }
    }
}

impl Counters {
    /// Whether a sample is due.
    pub(crate) fn is_due(&self, nanos: u64) -> bool {
        nanos >= self.due
    }

    /// Writes a sample. The clocks of CPUs differ, so the time may be earlier than that of the last sample; the sample
    /// then counts from that time on.
    pub(crate) fn write(&mut self, nanos: u64, sample: Sample, to: &mut Process) {
        let since = self.before.as_ref().map_or(0, |(at, _)| *at);
        let nanos = nanos.max(since);
        for (name, unit, value) in &sample.levels {
            to.value(nanos, name, unit, *value);
        }
        for (nth, (name, value)) in sample.counts.iter().enumerate() {
            to.value(nanos, name, "", *value);
            let counted = |(_, before): &(u64, Sample)| before.counts.get(nth).map(|it| it.1);
            let before = self.before.as_ref().and_then(counted).unwrap_or(0);
            if nanos > since && self.before.is_some() {
                let per_ms = u128::from(value.saturating_sub(before)) * 1_000_000;
                let rate = (per_ms / u128::from(nanos - since)) as u64;
                to.value(nanos, &format!("{name} per ms"), "/ms", rate);
            }
        }
        self.taken += 1;
        if self.taken.is_multiple_of(SAMPLES) {
            self.every *= 2;
        }
        self.due = nanos + self.every;
        self.before = Some((nanos, sample));
    }
}
