//! Traces are read again, and compared with the counters of their runs.

use std::{collections::BTreeMap, fs, path::Path};

use framewright_sim::{
    machine::Spec,
    scenario::{Bug, Hunt, Kind, Scenario, Verdict},
};
use prost::Message;

use super::{
    Trace,
    schema::{TracePacket, Type},
};
use crate::{
    high_alloc::{Environment, Flags, HighAlloc},
    paging::{Paging, Work},
    report::{Measured, Run},
    samples::Watch,
    simulated::{Column, Plan, Simulation},
    workloads::{
        Side, Workload,
        kbuild::Kbuild,
        mmap_read::{MmapRead, Readers},
        page_fault::PageFault,
    },
};

/// The message of a whole trace.
#[derive(Clone, PartialEq, prost::Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

/// A run of a trace.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    /// The slices and instants of each track below the process, as names and times.
    pub(crate) slices: BTreeMap<String, Vec<(String, u64, u64)>>,
    /// The last value of each counter.
    last: BTreeMap<String, i64>,
    /// Arrows, as times of both ends.
    arrows: BTreeMap<u64, (Option<u64>, Option<u64>)>,
}

impl Traced {
    /// The number of slices whose track and name begin so.
    pub(crate) fn count(&self, track: &str, name: &str) -> usize {
        let tracks = self.slices.iter().filter(|(title, _)| title.starts_with(track));
        tracks.flat_map(|(_, all)| all).filter(|slice| slice.0.starts_with(name)).count()
    }

    pub(crate) fn last(&self, counter: &str) -> usize {
        usize::try_from(self.last[counter]).unwrap()
    }

    /// Checks that all interrupts have arrived, not before they were sent.
    fn check_arrows(&self) {
        assert_eq!(self.arrows.len(), self.last("interrupts"));
        for (number, arrow) in &self.arrows {
            let (Some(sent), Some(handled)) = *arrow else { panic!("arrow {number}: {arrow:?}") };
            assert!(sent <= handled, "arrow {number}: {arrow:?}");
        }
    }
}

/// Reads a trace. Checks that times of a track do not decrease and that all slices end.
pub(crate) fn read(path: &Path) -> BTreeMap<String, Traced> {
    let packets = Packets::decode(&fs::read(path).unwrap()[..]).unwrap().packet;
    let (mut names, mut runs) = (BTreeMap::new(), BTreeMap::<String, Traced>::new());
    let (mut pids, mut open, mut latest) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (nth, packet) in packets.iter().enumerate() {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        assert_eq!(packet.sequence_flags, (nth == 0).then_some(1));
        if let Some(of) = &packet.track_descriptor {
            let (run, name): (String, String) = if let Some(process) = &of.process {
                pids.insert(process.pid, process.process_name.clone().unwrap());
                (process.process_name.clone().unwrap(), String::new())
            } else if let Some(thread) = &of.thread {
                (pids[&thread.pid].clone(), thread.thread_name.clone().unwrap())
            } else {
                let (run, parent): &(String, String) = &names[&of.parent_uuid.unwrap()];
                let name = of.name.as_deref().unwrap();
                let separator = if parent.is_empty() { "" } else { ": " };
                (run.clone(), format!("{parent}{separator}{name}"))
            };
            names.insert(of.uuid.unwrap(), (run, name));
            continue;
        }
        let (event, now) = (packet.track_event.as_ref().unwrap(), packet.timestamp.unwrap());
        let track = event.track_uuid.unwrap();
        let (run, title) = names.get(&track).expect("tracks are described before their events");
        let run = runs.entry(run.clone()).or_default();
        let before = latest.insert(track, now).unwrap_or(0);
        assert!(before <= now, "{title}: {now} after {before}");
        let open: &mut Vec<(String, u64)> = open.entry(track).or_default();
        let mut slice = |name: String, begin| {
            run.slices.entry(title.clone()).or_default().push((name, begin, now));
        };
        match event.r#type() {
            Type::SliceBegin => open.push((event.name.clone().unwrap(), now)),
            Type::SliceEnd => {
                let (name, begin) = open.pop().expect("a slice that has begun");
                slice(name, begin);
            }
            Type::Instant => slice(event.name.clone().unwrap(), now),
            Type::Counter => {
                run.last.insert(title.clone(), event.counter_value.unwrap());
            }
            Type::Unspecified => panic!("{event:?}"),
        }
        for id in &event.flow_ids {
            run.arrows.entry(*id).or_default().0 = Some(now);
        }
        for id in &event.terminating_flow_ids {
            run.arrows.entry(*id).or_default().1 = Some(now);
        }
    }
    assert!(open.values().all(Vec::is_empty), "open slices: {open:?}");
    runs
}

/// Runs `run` without and with a trace: both give the same figures. Returns the figures and the trace.
fn traced(run: impl Fn(Watch<'_>) -> Measured) -> (Vec<Run>, BTreeMap<String, Traced>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = Trace::create(&path).unwrap();
    let with = run(Watch { trace: Some(&trace), memory: false });
    assert!(!path.exists(), "the trace is not complete");
    trace.finish().unwrap();
    assert_eq!(with.runs, run(Watch::default()).runs);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
    (with.runs, read(&path))
}

fn simulated(work: Workload, cpus: u16) -> BTreeMap<String, Traced> {
    let plan = Plan { warm_up: 200_000, window: 10_000_000, steady: false };
    let simulation =
        Simulation { work, spec: Spec::uniform(cpus).unwrap(), frames: Some(1 << 18), plan };
    let side = Side::new("framewright");
    let columns = [Column::framewright(&side), Column::list_buddy("list-buddy", &side)];
    traced(|watch| simulation.run_watched(&columns, &[1], watch, &mut |_, _| ()).unwrap()).1
}

/// Slices on the tracks of zone locks are the acquisitions; those of waits are the contended ones.
fn check_zone_locks(run: &Traced) {
    let acquisitions = run.last("zone-lock acquisitions");
    assert!(acquisitions > 10, "{acquisitions}");
    assert_eq!(run.count("node ", "CPU "), run.last("zone-lock acquisitions"));
    assert_eq!(run.count("CPU ", "waits for node "), run.last("zone-lock waits"));
    assert_eq!(run.last("node 0 Normal: waiters"), 0);
}

#[test]
fn slices_of_zone_locks_are_the_acquisitions_of_the_run() {
    let mut work = PageFault::new(1);
    work.frames = 8192;
    let runs = simulated(Workload::PageFault(work), 8);
    assert_eq!(runs.keys().collect::<Vec<_>>(), ["framewright, seed 1", "list-buddy, seed 1"]);
    for run in runs.values() {
        check_zone_locks(run);
        assert_eq!(run.count("CPU ", "program"), 8);
        assert!(run.last("pages") > 0);
    }
    assert!(runs["list-buddy, seed 1"].last("zone-lock waits") > 0);
    let levels = ["free", "on CPU lists", "in depots"];
    let frames = levels.map(|level| runs["framewright, seed 1"].last(level));
    assert!(frames.iter().sum::<usize>() < 1 << 18 && frames[0] > 0, "{frames:?}");
}

#[test]
fn times_do_not_decrease_if_many_cpus_wait_and_serve_ticks() {
    let mut work = PageFault::new(1);
    work.frames = 2048;
    for run in simulated(Workload::PageFault(work), 64).values() {
        check_zone_locks(run);
        assert!(run.count("CPU ", "tick") > 64);
    }
}

#[test]
fn runs_of_compilers_are_traced() {
    for run in simulated(Workload::Kbuild(Kbuild::new(1)), 4).values() {
        check_zone_locks(run);
        run.check_arrows();
    }
}

#[test]
fn arrows_are_the_interrupts_of_the_run_and_reclaim_is_its_reclaim() {
    let work = Work::MmapRead(MmapRead { times: 2, ..MmapRead::new(Readers::Threads) });
    let paging = Paging { work, spec: Spec::uniform(4).unwrap(), frames: 16 << 8 };
    let side = |label: &str, batching: &str| {
        let mut side = Side::new(label);
        side.tuning.set("tlb.batching", batching).unwrap();
        side
    };
    let sides = [side("off", "off"), side("all", "all"), side("lazy", "lazy")];
    let (figures, runs) =
        traced(|watch| paging.run_watched(&sides, &[1], watch, &mut |_, _| ()).unwrap());
    for figures in &figures {
        let run = &runs[&format!("{}, seed 1", figures.label)];
        run.check_arrows();
        check_zone_locks(run);
        let figure = |name: &str| figures.metrics[name].median as usize;
        assert_eq!(run.last("interrupts for flushes"), figure("ipis"));
        assert_eq!(run.count("CPU ", "interrupt from"), run.last("interrupts"));
        assert_eq!(run.last("unmapped pages"), figure("unmaps"));
        assert_eq!(run.last("pages"), figure("pages"));
        assert_eq!(run.count("CPU ", "direct reclaim"), figure("allocstall"));
        assert!(run.count("CPU ", "background reclaim") > 0);
    }
    let ipis = |label: &str| runs[&format!("{label}, seed 1")].last("interrupts");
    assert!(ipis("off") > 10 * ipis("all"), "{} {}", ipis("off"), ipis("all"));
}

#[test]
fn compaction_is_that_of_the_run() {
    let work = HighAlloc {
        flags: Flags::Default,
        spec: Spec::uniform(2).unwrap(),
        frames: HighAlloc::LEAST_FRAMES,
        from: None,
        environment: Environment::default(),
        quick: true,
    };
    let sides = [Side::new("index")];
    let (figures, runs) =
        traced(|watch| work.run_watched(&sides, &[1], watch, &mut |_, _| ()).unwrap());
    let run = &runs["index, seed 1"];
    run.check_arrows();
    let acquisitions = run.last("zone-lock acquisitions");
    assert_eq!(run.count("node 0 ", "CPU "), acquisitions);
    let figure = |name: &str| figures[0].metrics[name].median as usize;
    assert_eq!(run.count("CPU ", "direct reclaim"), figure("allocstall"));
    assert!(figure("allocstall") > 0 && run.count("CPU ", "background compaction") > 0);
}

#[test]
fn a_trace_that_is_not_finished_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, "old").unwrap();
    drop(Trace::create(&path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let nowhere = folder.path().join("nowhere/trace");
    let error = Trace::create(&nowhere).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot write '{}'", nowhere.display())), "{error}");
}

#[test]
fn a_failing_schedule_ends_with_the_step_that_breaks() {
    let scenario = Scenario::named("munmap-race").unwrap();
    let hunt = Hunt {
        scenario,
        bug: Some(Bug::SkippedFlush),
        kind: Kind::Random,
        seed: 0,
        schedules: 20_000,
    };
    let find = hunt.run(&|_| ()).found.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = Trace::create(&path).unwrap();
    assert_eq!(trace.find(scenario, hunt.bug, &find), find.verdict);
    trace.finish().unwrap();
    let Verdict::Seen { what, .. } = &find.verdict else { panic!("{:?}", find.verdict) };
    let runs = read(&path);
    let run = &runs[&find.repeat];
    let turns = &run.slices["running"];
    assert!(turns.iter().any(|turn| turn.0 == "CPU 2"), "{turns:?}");
    let end = turns.iter().map(|turn| turn.2).max().unwrap();
    assert!(turns.contains(&(what.clone(), end, end)), "{turns:?}");
    assert_eq!(run.count("CPU ", "fails: "), 1);
    assert!(run.count("CPU ", "loads from page 0 of space 1") > 0);
    assert!(run.count("CPU ", "clears the entry of page 0 of space 1") > 0);
}
