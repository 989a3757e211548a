//! Traces of simulated runs, and samples of their memory over time. Neither changes the figures of a run.

use std::{cell::RefCell, rc::Rc};

use framewright::CpuId;
use framewright_sim::engine::Machine;

use super::{MemoryState, Sample};
use crate::perfetto::{self, Recorder, Trace};

/// Whether runs are traced, and whether their memory is sampled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch<'t> {
    /// Gets the trace of every run.
    pub trace: Option<&'t Trace>,
    /// Whether the memory of the runs with the first seed is sampled, for
    /// [`Measured::samples`](crate::report::Measured::samples), and drawn if the workload has a picture of it.
    pub memory: bool,
}

impl Watch<'_> {
    /// The same for the run with `seed`: only the first of `seeds` samples memory.
    pub(crate) fn of(self, seed: u64, seeds: &[u64]) -> Self {
        Self { memory: self.memory && seeds.first() == Some(&seed), ..self }
    }
}

/// Records the trace and the memory samples of one run.
pub(crate) struct Watcher {
    machine: Machine,
    recorder: Option<Rc<Recorder>>,
    sampler: Option<RefCell<Sampler>>,
}

impl Watcher {
    /// Watches the further runs of `machine`, which are called `title`.
    pub(crate) fn start(watch: Watch<'_>, machine: &Machine, title: &str) -> Self {
        Self {
            machine: machine.clone(),
            recorder: watch.trace.map(|trace| Recorder::start(trace, machine, title)),
            sampler: watch.memory.then(RefCell::default),
        }
    }

    /// The trace, if there is one.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    /// Whether memory is sampled.
    pub(crate) fn samples_memory(&self) -> bool {
        self.sampler.is_some()
    }

    /// Samples counters and memory as far as that is due at `clock`, in cycles.
    pub(crate) fn look(
        &self,
        clock: u64,
        counters: impl FnOnce() -> perfetto::Sample,
        state: impl FnOnce() -> Option<MemoryState>,
    ) {
        if let Some(recorder) = &self.recorder {
            recorder.sample(clock, counters);
        }
        self.sample(clock, state);
    }

    /// Samples counters and memory at the end, and ends the trace. Returns the samples of memory.
    pub(crate) fn finish(
        &self,
        counters: impl FnOnce() -> perfetto::Sample,
        state: impl FnOnce() -> Option<MemoryState>,
    ) -> Vec<Sample> {
        if let Some(recorder) = &self.recorder {
            recorder.finish(Some(counters()));
        }
        self.sample_now(state);
        self.samples()
    }

    /// Samples memory if that is due at the latest clock of all CPUs.
    pub(crate) fn sample_now(&self, state: impl FnOnce() -> Option<MemoryState>) {
        let clocks = (0..self.machine.cpus()).map(|cpu| self.machine.clock(CpuId::new(cpu)));
        self.sample(clocks.max().unwrap_or_default(), state);
    }

    /// The samples of memory. Removes them.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.sampler.as_ref().map_or_else(Vec::new, |sampler| sampler.take().samples)
    }

    fn sample(&self, clock: u64, state: impl FnOnce() -> Option<MemoryState>) {
        let Some(sampler) = &self.sampler else { return };
        let nanos = self.machine.model().nanos_of_cycles(clock);
        if !sampler.borrow().is_due(nanos) {
            return;
        }
        // A state that cannot be read now is read at a later call: waiting would change the run.
        if let Some(state) = self.machine.observe(state).flatten() {
            sampler.borrow_mut().add(nanos, &state);
        }
    }
}

/// The first interval between samples, in nanoseconds.
const EVERY: u64 = 50_000;
/// At this number of samples every second one is dropped, and the interval grows: the length of a run is not known.
const MOST: usize = 400;

/// The samples of a run.
struct Sampler {
    due: u64,
    every: u64,
    samples: Vec<Sample>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { due: 0, every: EVERY, samples: Vec::new() }
    }
}

impl Sampler {
    fn is_due(&self, nanos: u64) -> bool {
        nanos >= self.due
    }

    fn add(&mut self, nanos: u64, state: &MemoryState) {
        self.samples.push(Sample::of(nanos as f64 / 1e9, state));
        if self.samples.len() == MOST {
            let mut is_kept = false;
            self.samples.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            // The mean interval of the samples that are left. It can be longer than twice the last one, because the calls
            // of some workloads are rare.
            self.every = nanos / self.samples.len() as u64;
        }
        self.due = nanos + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_long_run_are_few_and_evenly_spaced() {
        let state = MemoryState::of_blocks([[0; 11]].into_iter(), 0, 7);
        // Calls that are more frequent than samples, and less.
        for call in [EVERY / 5, 20 * EVERY] {
            let mut sampler = Sampler::default();
            for nanos in (0..4_000_000_000).step_by(call as usize) {
                if sampler.is_due(nanos) {
                    sampler.add(nanos, &state);
                }
            }
            let samples = &sampler.samples;
            assert!((MOST / 2..MOST).contains(&samples.len()), "{}", samples.len());
            assert_eq!((samples[0].seconds, samples[0].in_use, samples[0].free), (0.0, 7, 0));
            let steps = samples.windows(2).map(|two| two[1].seconds - two[0].seconds);
            let (least, most) = steps.fold((9.0, 0.0), |(a, b), it| (it.min(a), it.max(b)));
            assert!(most <= 2.0 * least + 1e-9 && most > 0.008, "{least} to {most}");
        }
    }
}
