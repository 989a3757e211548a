use super::*;
use crate::workloads::mmap_read::Readers;
use framewright::tuning::FlushBatching;

const MIB: u64 = 256;

fn side(batching: FlushBatching) -> Side {
    let mut side = Side::new(format!("{batching:?}"));
    side.tuning.tlb.batching = batching;
    side
}

fn paging(work: Work, cpus: u16, mib: u64) -> Paging {
    Paging { work, spec: Spec::uniform(cpus).unwrap(), frames: mib * MIB }
}

fn mmap_read(readers: Readers, cpus: u16, mib: u64) -> Paging {
    paging(Work::MmapRead(MmapRead { times: 3, ..MmapRead::new(readers) }), cpus, mib)
}

fn run(paging: &Paging, batchings: &[FlushBatching], seed: u64) -> Measured {
    let sides: Vec<Side> = batchings.iter().copied().map(side).collect();
    paging.run(&sides, &[seed], &mut |_, _| {}).unwrap()
}

fn median(run: &crate::report::Run, name: &str) -> f64 {
    run.metrics[name].median
}

#[test]
fn every_page_is_read_and_batches_save_interrupts() {
    for readers in [Readers::Processes, Readers::Threads] {
        let paging = mmap_read(readers, 4, 64);
        let result = run(&paging, &[FlushBatching::Off, FlushBatching::All], 1);
        let [off, all] = &result.runs[..] else { panic!() };
        for run in [off, all] {
            assert_eq!(median(run, "pages"), (paging.frames * 3) as f64);
            let scans = median(run, "scans_per_reclaimed_page");
            assert!((1.8..=2.7).contains(&scans), "each page is scanned twice: {scans}");
            assert!(median(run, "pages_per_fault") > 8.0);
            assert!(median(run, "flush_and_lock_pct") < 100.0);
        }
        let of = |run| median(run, "ipis_per_reclaimed_page");
        assert!(of(off) > 0.3 && of(all) < of(off) / 4.0, "{readers:?}: {} {}", of(off), of(all));
        assert_eq!(median(off, "unflushed_frames_max"), 0.0);
    }
}

#[test]
fn no_reader_waits_for_a_scan_of_all_memory() {
    // All pages are marked as used when memory becomes full for the first time.
    let paging = mmap_read(Readers::Processes, 4, 1024);
    let result = run(&paging, &[FlushBatching::Lazy], 1);
    let stall = median(&result.runs[0], "stall_max_ns");
    assert!(stall <= 5e6, "{stall} ns");
}

#[test]
fn every_pause_ends_with_its_condition() {
    // Without a wake-up, a pause for the reserve takes a second.
    let paging = mmap_read(Readers::Processes, 16, 256);
    for batching in [FlushBatching::All, FlushBatching::Lazy] {
        let result = run(&paging, &[batching], 2);
        let of = |name: &str| median(&result.runs[0], name);
        assert!(of("stall_max_ns") <= 25e6, "{batching:?}: {} ns", of("stall_max_ns"));
        let kinds = ["writeback", "isolated", "reserve"];
        let expired = kinds.map(|kind| of(&format!("pauses_expired_{kind}")));
        assert_eq!(expired, [0.0; 3], "{batching:?}");
    }
}

#[test]
fn at_most_a_200th_of_memory_is_unflushed() {
    // 16 CPUs that reclaim 64 pages at a time could have 1024 unflushed.
    let paging = mmap_read(Readers::Processes, 16, 640);
    let result = run(&paging, &[FlushBatching::Lazy], 1);
    let (unflushed, most) = (median(&result.runs[0], "unflushed_frames_max"), paging.frames / 200);
    assert!((64.0..=most as f64).contains(&unflushed), "{unflushed} of {most}");
}

#[test]
fn batches_smaller_than_a_reclaim_cluster_are_batches() {
    let mut side = side(FlushBatching::All);
    side.tuning.tlb.batch = framewright::tuning::Auto::Fixed(16);
    let result = mmap_read(Readers::Processes, 4, 64).run(&[side], &[1], &mut |_, _| {}).unwrap();
    let per_flush = median(&result.runs[0], "unmaps_per_flush");
    assert!(per_flush > 12.0, "{per_flush} pages are unmapped for each flush");
}

#[test]
fn equal_runs_are_equal_and_other_seeds_are_not() {
    let paging = mmap_read(Readers::Processes, 2, 32);
    let lazy = [FlushBatching::Lazy];
    assert_eq!(run(&paging, &lazy, 1), run(&paging, &lazy, 1));
    assert_ne!(run(&paging, &lazy, 1), run(&paging, &lazy, 2));
}

#[test]
fn one_cpu_sends_no_interrupts() {
    let result = run(&mmap_read(Readers::Processes, 1, 32), &[FlushBatching::Off], 1);
    assert_eq!(median(&result.runs[0], "ipis"), 0.0);
}

#[test]
fn a_server_reads_stores_and_writes_for_hours() {
    let work = Work::Cdn(Cdn { centidays: 8, ..Cdn::new(1) });
    let paging = paging(work, 4, 16);
    let result = run(&paging, &[FlushBatching::Lazy], 1);
    let run = &result.runs[0];
    assert_eq!(run.series["pages_per_s"].len(), 2, "0.08 days did not give two hours");
    assert!(median(run, "pages_written") > 100.0);
    assert!(median(run, "workingset_refault_file") > 0.0);
    assert!(median(run, "stall_max_ns") > 90_000.0, "the longest stall is shorter than a read");
    assert!(
        !run.metrics.contains_key("last_hour_pct_of_best"),
        "a run of two hours has the figure of a day"
    );
    let plot = plot(&result.runs, &paging.work, "");
    assert!(plot.panels.iter().all(|panel| panel.lines.len() == 1));
}

#[test]
fn too_little_memory_is_refused_with_the_needed_size() {
    let paging = mmap_read(Readers::Processes, 64, 64);
    let error = paging.run(&[side(FlushBatching::All)], &[1], &mut |_, _| {}).unwrap_err();
    assert!(error.is_bad_input());
    assert!(error.to_string().contains("choose at least 1024 MiB"), "{error}");
}

#[test]
fn huge_pages_can_be_allocated_while_file_pages_are_reclaimed() {
    let work = |huge| Work::Cdn(Cdn { centidays: 8, huge, ..Cdn::new(0) });
    let asked = paging(work(100), 4, 32);
    let result = run(&asked, &[FlushBatching::Lazy], 1);
    let of = |name: &str| median(&result.runs[0], name);
    assert!(of("huge_requests") > 100.0, "{}", of("huge_requests"));
    assert!(of("huge_served_pct") > 10.0, "{}", of("huge_served_pct"));
    assert!(of("huge_without_stall_pct") <= of("huge_served_pct"));
    assert!(of("pages_migrated") > 0.0, "no file page was moved");
    assert_eq!(result.runs[0].series["huge_without_stall_pct"].len(), 2);
    let none = Paging { work: work(0), frames: 16 * MIB, ..asked };
    let none = run(&none, &[FlushBatching::Lazy], 1);
    assert!(
        !none.runs[0].metrics.contains_key("huge_requests"),
        "a run without requests has the figure"
    );
}

/// Keys of the costs of interrupts and TLB flushes.
const FLUSH_COSTS: [&str; 7] = [
    "interrupt.send",
    "interrupt.latency_local",
    "interrupt.latency_remote",
    "interrupt.entry",
    "interrupt.acknowledge",
    "tlb.invalidate_page",
    "tlb.flush_all",
];

/// Seeds of a mean gain. The gains of single seeds have a standard deviation of one to two points, so that of the mean is a
/// third of a point.
const GAIN_SEEDS: u64 = 36;

/// The gain of readers by batches, in percent of their time, if interrupts and flushes cost
/// nothing: the mean of some seeds.
fn gain_without_costs(mut paging: Paging) -> f64 {
    for key in FLUSH_COSTS {
        paging.spec = paging.spec.scaled(key, 0.0).unwrap();
    }
    let gain = |seed| {
        let result = run(&paging, &[FlushBatching::Off, FlushBatching::All], seed);
        let [off, all] = [0, 1].map(|side| median(&result.runs[side], "elapsed_s"));
        100.0 * (off - all) / off
    };
    (1..=GAIN_SEEDS).map(gain).sum::<f64>() / GAIN_SEEDS as f64
}

#[test]
fn batches_gain_nothing_where_interrupts_and_flushes_cost_nothing() {
    let spec = Spec::preset("desk-1n-8").unwrap();
    let event_loop = Paging { spec, ..mmap_read(Readers::Processes, 4, 64) };
    let trials = [
        event_loop,
        mmap_read(Readers::Processes, 8, 128),
        mmap_read(Readers::Threads, 2, 64),
        mmap_read(Readers::Threads, 6, 96),
        mmap_read(Readers::Threads, 12, 192),
    ];
    let gains = trials.map(gain_without_costs);
    assert!(gains.iter().all(|gain| *gain <= 3.0), "{gains:.2?}");
}
