//! A probe: quantities that are measured together, in short rounds. The rounds of all probes are
//! interleaved, so that a disturbance of the machine affects few rounds of each probe, and no median.

use std::{thread, time::Duration};

use super::{Means, caches, fault, interrupt, one, two};
use crate::clock::{settle, thread_time};
use crate::report::{Metric, Unit};

/// Time between two rounds, in which other threads may use the CPU.
const PAUSE: Duration = Duration::from_millis(1);

/// A measured quantity.
#[derive(Debug)]
pub struct Quantity {
    /// Its name in the report.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The method of the measurement.
    pub how: &'static str,
}

impl Quantity {
    /// A quantity in nanoseconds.
    pub(super) const fn nanos(name: &'static str, how: &'static str) -> Self {
        Self { name, unit: Unit::Nanos, how }
    }
}

/// A round: the value of each quantity, or the reason why there is none.
type Round<'m> = Box<dyn FnMut() -> Result<Vec<f64>, String> + 'm>;

/// Quantities that one round measures.
pub(super) struct Probe<'m> {
    quantities: &'static [Quantity],
    round: Round<'m>,
}

impl<'m> Probe<'m> {
    /// A probe whose rounds return a value for each quantity.
    pub(super) fn new(
        quantities: &'static [Quantity],
        round: impl FnMut() -> Result<Vec<f64>, String> + 'm,
    ) -> Self {
        Self { quantities, round: Box::new(round) }
    }

    /// A probe of one quantity, which cannot fail.
    pub(super) fn single(
        quantity: &'static [Quantity; 1],
        mut round: impl FnMut() -> f64 + 'm,
    ) -> Self {
        Self::new(quantity, move || Ok(vec![round()]))
    }

    /// Quantities that cannot be measured here.
    pub(super) fn missing(quantities: &'static [Quantity], reason: String) -> Self {
        Self::new(quantities, move || Err(reason.clone()))
    }
}

/// A quantity with its rounds, or the reason why it was not measured.
#[derive(Debug)]
pub struct Reading {
    /// The quantity.
    pub quantity: &'static Quantity,
    /// Median and extremes of its rounds, or the reason why there is none.
    pub value: Result<Metric, String>,
}

/// All readings.
#[derive(Debug)]
pub struct Readings(pub Vec<Reading>);

impl Readings {
    /// Measures in `rounds` rounds. `progress` gets the number of finished rounds and of all.
    #[must_use]
    pub fn take(means: &Means, rounds: u32, progress: &mut (dyn FnMut(u64, u64) + Send)) -> Self {
        // A thread of its own, because it keeps its CPU and its priority.
        thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                settle(means.first);
                run(probes(means), rounds, progress)
            });
            measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The median of a quantity, or the reason why there is none.
    pub(super) fn median(&self, name: &str) -> Result<f64, String> {
        let reading = self.0.iter().find(|reading| reading.quantity.name == name);
        let reading = reading.ok_or_else(|| format!("{name} is not measured"))?;
        reading.value.as_ref().map(|metric| metric.median).map_err(Clone::clone)
    }

    /// The description of a reading in a note.
    pub(super) fn how(&self, name: &str) -> String {
        let reading = self.0.iter().find(|reading| reading.quantity.name == name);
        reading.map_or_else(String::new, |reading| reading.quantity.how.to_owned())
    }
}

/// All probes.
fn probes(means: &Means) -> Vec<Probe<'_>> {
    let mut probes = one::probes();
    probes.extend(caches::probes(means));
    probes.extend(fault::probes());
    probes.extend(two::probes(means));
    probes.extend(interrupt::probes(means));
    probes
}

fn run(
    mut probes: Vec<Probe<'_>>,
    rounds: u32,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Readings {
    let mut samples: Vec<Vec<Vec<f64>>> =
        probes.iter().map(|probe| vec![Vec::new(); probe.quantities.len()]).collect();
    let mut reasons: Vec<String> = vec![String::new(); probes.len()];
    let total = u64::from(rounds) * probes.len() as u64;
    let mut done = 0;
    for _ in 0..rounds {
        for ((probe, samples), reason) in probes.iter_mut().zip(&mut samples).zip(&mut reasons) {
            match (probe.round)() {
                Ok(values) => {
                    let pairs = samples.iter_mut().zip(values);
                    pairs.for_each(|(samples, value)| samples.push(value));
                }
                Err(why) => *reason = why,
            }
            thread::sleep(PAUSE);
            done += 1;
            progress(done, total);
        }
    }
    let of = |((probe, samples), reason): ((Probe<'_>, Vec<Vec<f64>>), String)| {
        probe.quantities.iter().zip(samples).map(move |(quantity, samples)| {
            let metric = Metric::of_rounds(&samples, quantity.unit, None);
            Reading { quantity, value: metric.ok_or_else(|| reason.clone()) }
        })
    };
    Readings(probes.into_iter().zip(samples).zip(reasons).flat_map(of).collect())
}

/// CPU nanoseconds of this thread per unit of `work`, which returns the number of units.
pub(super) fn cpu_nanos(work: impl FnOnce() -> u64) -> f64 {
    let start = thread_time();
    let units = work();
    (thread_time() - start).as_nanos() as f64 / units.max(1) as f64
}
