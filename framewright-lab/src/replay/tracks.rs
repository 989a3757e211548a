//! The trace of a replay for Perfetto: holds of zone locks, requests served from pageblocks of other types, counters;
//! and, as a process of its own, the waits and holds of the recorded kernel.
//!
//! Times are those of the recording, from its first event. A hold of the replay begins with the event that caused it,
//! or when the lock is free if another hold of that event is under way. It lasts for its modelled time.

use framewright::ZoneId;

use super::{
    lock_waits::Span,
    plan::{Plan, ZonePlan},
    report::{Fallback, Logical},
};
use crate::{
    perfetto::{Counters, Part, Process, Sample, Trace, zone_name},
    samples::MemoryState,
};

/// A replay that is traced.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// The name of the replay in it.
    pub title: &'t str,
    /// Whether the recorded kernel is traced, too.
    pub with_kernel: bool,
}

/// The name of the kernel's process.
const KERNEL: &str = "recorded kernel";
/// The title of the track with requests that were served from pageblocks of other types.
const FALLBACKS: &str = "fallbacks";

/// A hold of a zone's lock by the replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    pub(super) zone: ZoneId,
    /// Its modelled time.
    pub(super) nanos: u64,
}

/// Tracks of CPUs whose slices do not overlap.
struct Run {
    process: Process,
    /// For each CPU, the end of its last slice.
    until: Vec<u64>,
}

impl Run {
    fn new(trace: &Trace, title: &str, cpus: u16) -> Self {
        Self { process: trace.process(title, cpus), until: vec![0; cpus.into()] }
    }

    /// A slice on a CPU, which begins when the last one has ended.
    fn slice(&mut self, cpu: u16, begin: u64, end: u64, name: &str) {
        let until = &mut self.until[usize::from(cpu)];
        let begin = begin.max(*until);
        *until = end.max(begin);
        self.process.begin(begin, cpu, Part::Work, name, None);
        self.process.end(*until, cpu, Part::Work);
    }
}

/// The tracks of a replay.
pub(super) struct Tracks {
    replay: Run,
    counters: Counters,
    /// For each zone of the memory its name, the number of its lock, and the end of the last hold.
    zones: Vec<(String, usize, u64)>,
    kernel: Option<Run>,
    /// The names of the planned zones.
    planned: Vec<String>,
    /// The time of the first event.
    first: u64,
}

impl Tracks {
    /// The tracks of a replay of `plan`, with locks for `zones`: nodes and names of kinds.
    pub(super) fn new(
        traced: Traced<'_>,
        plan: &Plan,
        zones: impl Iterator<Item = (u8, &'static str)>,
        first: u64,
    ) -> Self {
        let mut replay = Run::new(traced.trace, traced.title, plan.cpus);
        let names = zones.map(|(node, kind)| zone_name(node, kind));
        let zones = names.map(|name| {
            let lock = replay.process.lock(&name);
            (name, lock, 0)
        });
        let zones = zones.collect();
        let planned = |zone: &ZonePlan| zone_name(zone.node.get(), zone.kind.name());
        Self {
            zones,
            counters: Counters::default(),
            kernel: traced.with_kernel.then(|| Run::new(traced.trace, KERNEL, plan.cpus)),
            planned: plan.zones.iter().map(planned).collect(),
            first,
            replay,
        }
    }

    /// A hold of the replay at the recorded time `nanos`.
    pub(super) fn hold(&mut self, cpu: u16, nanos: u64, hold: Hold) {
        let nanos = nanos.saturating_sub(self.first);
        let Some((name, lock, until)) = self.zones.get_mut(hold.zone.index()) else { return };
        let begin = nanos.max(*until).max(self.replay.until[usize::from(cpu)]);
        *until = begin + hold.nanos;
        self.replay.process.hold(begin, *lock, &format!("CPU {cpu}"));
        self.replay.process.release(*until, *lock);
        self.replay.slice(cpu, begin, *until, &format!("holds {name}"));
    }

    /// Whether spans of the kernel are shown.
    pub(super) fn shows_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// A wait or a hold of the recorded kernel.
    pub(super) fn span(&mut self, cpu: u16, span: Span) {
        let Some(kernel) = &mut self.kernel else { return };
        let (from, to, name) = match span {
            Span::Wait { since, until } => (since, until, "waits for a lock".to_owned()),
            Span::Hold { zone, first, last } => {
                let zone = self.planned.get(zone).map_or("a zone", String::as_str);
                (first, last, format!("holds {zone}"))
            }
        };
        let [from, to] = [from, to].map(|nanos| nanos.saturating_sub(self.first));
        kernel.slice(cpu, from, to, &name);
    }

    /// A request that was served from a pageblock of another type.
    pub(super) fn fallback(&mut self, nanos: u64, fallback: &Fallback) {
        let to = if fallback.by_kernel { self.kernel.as_mut() } else { Some(&mut self.replay) };
        if let Some(to) = to {
            let how = if fallback.claimed { "claims a pageblock" } else { "steals a block" };
            let name = format!("CPU {}, order {}: {how}", fallback.cpu, fallback.order);
            let nanos = nanos.saturating_sub(self.first);
            to.process.event(nanos, FALLBACKS, &name, true);
        }
    }

    /// The state of memory at the recorded time `nanos`.
    pub(super) fn sample(
        &mut self,
        nanos: u64,
        state: &MemoryState,
        logical: &Logical,
        acquisitions: u64,
    ) {
        let levels = vec![
            ("free", "frames", state.free_frames),
            ("on CPU lists", "frames", state.held_by_cpus),
            ("in use", "frames", state.in_use),
            ("order 9 that can be allocated", "blocks", state.free.order9_allocatable()),
        ];
        let counts = vec![
            ("allocations", logical.allocs),
            ("frees", logical.frees),
            ("refused allocations", logical.refused_allocs),
            ("zone-lock acquisitions", acquisitions),
        ];
        let nanos = nanos.saturating_sub(self.first);
        self.counters.write(nanos, Sample { levels, counts }, &mut self.replay.process);
    }

    /// Ends all slices.
    pub(super) fn finish(mut self) {
        self.replay.process.close();
        if let Some(kernel) = &mut self.kernel {
            kernel.process.close();
        }
    }
}

#[cfg(all(test, feature = "perfetto"))]
mod tests {
    use std::collections::BTreeMap;

    use framewright::Tuning;
    use framewright_peers::list_buddy;

    use super::*;
    use crate::{
        perfetto::tests::{self as trace, read},
        replay::{
            Recording, ReplayReport, Survey, run_list_buddy, run_traced,
            tests::{Script, before, replay, shipped},
        },
        trace::Snapshot,
    };

    /// Replays a recording on both designs, with a trace. The figures are those without a trace.
    fn traced(
        recording: &Recording,
        snapshot: Option<&Snapshot>,
    ) -> (ReplayReport, BTreeMap<String, trace::Traced>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let trace = Trace::create(&path).unwrap();
        let (survey, tables) = (Survey::of(recording, &mut |_| {}).unwrap(), before(snapshot));
        let as_run = |title, with_kernel| Some(Traced { trace: &trace, title, with_kernel });
        let tuning = Tuning::default();
        let tell = &mut |_| {};
        let report =
            run_traced(recording, &survey, &tables, &tuning, as_run("ours", true), tell).unwrap();
        assert_eq!(report, replay(recording, snapshot, &tuning));
        let classic = list_buddy::Tuning::default();
        let theirs = as_run("theirs", false);
        let theirs = run_list_buddy(recording, &survey, &tables, &classic, theirs, tell).unwrap();
        trace.finish().unwrap();
        let runs = read(&path);
        let acquisitions = theirs.total.zone_lock_acquisitions as usize;
        assert_eq!(runs["theirs"].last("zone-lock acquisitions"), acquisitions);
        (report, runs)
    }

    fn check(report: &ReplayReport, run: &trace::Traced) {
        let acquisitions = report.total.zone_lock_acquisitions as usize;
        let holds: u64 = report.zones.iter().map(|zone| zone.lock.holds).sum();
        assert_eq!(holds as usize, acquisitions);
        assert_eq!(run.count("node 0 ", "CPU "), acquisitions);
        assert_eq!(run.count("CPU ", "holds node 0 "), acquisitions);
        assert_eq!(run.last("zone-lock acquisitions"), acquisitions);
        let logical = &report.logical;
        let counts = ["allocations", "frees"].map(|name| run.last(name) as u64);
        assert_eq!(counts, [logical.allocs, logical.frees]);
        let last = report.samples.last().unwrap();
        let levels = ["free", "on CPU lists", "in use"].map(|name| run.last(name) as u64);
        assert_eq!(levels, [last.free, last.held_by_cpus, last.in_use]);
        let ours = report.fallbacks.iter().filter(|fallback| !fallback.by_kernel).count();
        assert_eq!(run.count(FALLBACKS, "CPU "), ours);
    }

    #[test]
    fn slices_of_a_replay_are_the_acquisitions_of_its_report() {
        let (recording, snapshot) = shipped();
        let (report, runs) = traced(&recording, Some(&snapshot));
        assert!(report.total.zone_lock_acquisitions > 100);
        check(&report, &runs["ours"]);
        let kernel = &runs[KERNEL];
        let holds: u64 = report.zones.iter().map(|zone| zone.kernel_lock.holds).sum();
        assert_eq!(kernel.count("CPU ", "holds node 0 ") as u64, holds);
        let fallbacks = report.fallbacks.iter().filter(|fallback| fallback.by_kernel).count();
        assert_eq!(kernel.count(FALLBACKS, "CPU "), fallbacks);
    }

    #[test]
    fn waits_and_holds_of_the_recorded_kernel_are_slices() {
        let script = Script::contended().line(1, Script::ZONE_LOCKED);
        let (report, runs) = traced(&script.recording(), None);
        check(&report, &runs["ours"]);
        let slices = &runs[KERNEL].slices;
        let wait = ("waits for a lock".to_owned(), 0, 1_000);
        let hold = |first, last| ("holds node 0 Normal".to_owned(), first, last);
        assert_eq!(slices["CPU 0"], [wait, hold(2_000, 3_000)]);
        assert_eq!(slices["CPU 1"], [hold(6_000, 6_000)]);
    }
}
