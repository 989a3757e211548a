//! *web-cache* (2015): what a user of the first kernels with batched flushes reported of his web cache, and 24 hours of
//! it as a time lapse.
//!
//! | module   | job                                      |
//! |----------|------------------------------------------|
//! | this one | published figures, the runs, their rows  |
//! | `hours`  | the figures of a run, hour by hour       |

mod hours;

use framewright::tuning::Auto;
use framewright_sim::{file::StoreSpec, machine::Spec};

use super::{
    Experiment, Key, Plan, Results, Tell,
    bands::{self, Varied, vary},
    pairs::Steps,
    settings::BySetting,
};
use crate::{
    Error,
    paging::{Outcome, Paging, Work, run_of},
    parallel,
    plot::{Axis, Panel, Plot},
    report::{
        Better, Metric, Published, Quantity, Reference, Role, Row, Run, Unit, decimal,
        figure::ratio,
    },
    workloads::{Side, cdn::Cdn},
};
use hours::Hours;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "web-cache",
    title: "a web cache with batched flushes (2015)",
    question: "\
A web cache serves a file of four times the memory from 24 disks (`run cdn`): one process, which nearly all CPUs
run. Misses replace pages, so reclaim unmaps pages all the time. One request in twenty stores an object. One in
eight allocates an unmovable block of the kernel, of up to 32 KiB; together they use a 32nd of the memory.
  off, all     tlb.batching=off, then all: the published change
  all, lazy    then lazy, the default of the library
The sizes of files and of memory of the kernel, and the rate of writes, were not published. Memory is 512 MiB, on
a machine with 256 GiB; distances between watermarks, in frames, are those of that machine's kernel.
24 hours are a time lapse: in each, all pages of memory are replaced 10 times, at full rate. Rates are those of
hours 2 to 24, because memory is filled in the first. With one seed it takes some 6 minutes of CPU time.",
    picture: Some(plot),
    run,
};

const MACHINE: &str = "web-2n-24";
const WORKLOAD: &str = "web-cache";
const THEIRS: &str = "2 sockets, 24 cores, 256 GB, 24 SSDs, 2 x 40 Gbit/s";
const SOURCE: &str = "a user's report on batched flushes, v4 (2015): 14 Gbit/s, with the series 33 (his uplink), later \
                      60 Gbit/s; freezes of 4 to 5 s every 10 s without it; it degrades after some 24 hours";
/// Why levels are not judged.
const LEVELS: &str = "the size of the files and the rate of writes were not published; the change is judged, with 60 Gbit/s \
                      as the rate after it: a network may have limited that rate, so it is a lower bound";
const FREEZES: &str = "a freeze grows with memory, of which the model has a 512th";

const RATE: &str = "content_gbit_per_s";
const STALL: &str = "longest_stall_s";
const FREEZES_COUNT: &str = "stalls_over_1s";
const INTERRUPTS: &str = "ipis_per_reclaimed_page";
/// Flush requests that another CPU's interrupt answered.
const JOINED: &str = "joined_requests_pct";
/// The share of the disks' bandwidth that reads and writes use.
const DISKS_BUSY: &str = "disk_bandwidth_pct";
const LAST_QUARTER: &str = "last_quarter_pct_of_first";
const FREE_HUGE: &str = "free_blocks_of_order_9";
const ALLOCATABLE: &str = "order_9_allocatable_pct";

/// The compared figures.
const FIGURES: [&str; 8] =
    [RATE, DISKS_BUSY, STALL, FREEZES_COUNT, LAST_QUARTER, INTERRUPTS, JOINED, ALLOCATABLE];
/// Figures that are counts. The others depend on modelled times.
const COUNTS: [&str; 3] = [INTERRUPTS, JOINED, ALLOCATABLE];

/// Settings of `tlb.batching`.
const SETTINGS: [&str; 3] = ["off", "all", "lazy"];
const PAIRS: [(&str, usize, usize); 2] = [("off, all", 0, 1), ("all, lazy", 1, 2)];

/// Turnovers of memory in an hour of the time lapse.
const TURNOVERS: u64 = 10;
/// The same of the machine, if each page of 60 Gbit/s is read from a disk: 27 TB in 275 GB.
const PUBLISHED_TURNOVERS: f64 = 60e9 / 8.0 * 3600.0 / (256u64 << 30) as f64;
const HOURS: u64 = 24;

/// Below this share of the first quarter's rate, in percent, the last quarter's is called a decay.
const DECAY_PERCENT: f64 = 95.0;

/// From this share of the disks' bandwidth on, in percent, the disks limit the rate.
const LIMITED_PERCENT: f64 = 95.0;

/// The cache on a machine like `spec`, for `hours` hours.
fn paging(plan: &Plan, spec: Spec, hours: u64) -> Paging {
    let (mib, turnovers) = if plan.quick { (128, 1) } else { (512, TURNOVERS) };
    let centidays = (100 * hours).div_ceil(HOURS) as u32;
    let work = Cdn { turnovers: turnovers * HOURS, centidays, kernel: 8, ..Cdn::new(0) };
    Paging { work: Work::Cdn(work), spec, frames: mib << 8 }
}

/// The settings of one side.
fn side(setting: usize) -> Side {
    let mut side = Side::new(SETTINGS[setting]).with("tlb.batching", SETTINGS[setting]);
    // A quarter of the largest `min_free_kbytes` that a kernel of that time computes, which is 64 MiB: 3.1 % of 512 MiB.
    side.tuning.zone.watermark_scale = 312;
    // The batch that these kernels compute for so much memory.
    side.tuning.pcp.batch = Auto::Fixed(31);
    side
}

fn once(paging: &Paging, setting: usize, seed: u64) -> Result<Run, Error> {
    let side = side(setting);
    let outcome = paging.run_once(&side, seed, &mut |_, _| {})?;
    let label = format!("{WORKLOAD}, {}", side.label);
    let hours = Hours::new(&outcome, paging.frames);
    let joined = ratio(outcome.coalesced, outcome.coalesced + outcome.interrupts);
    let mut metrics = vec![
        (RATE, hours.rate(1..), Unit::GigabitsPerSecond, Some(Better::Higher)),
        (DISKS_BUSY, disks_busy(paging, &outcome), Unit::Percent, None),
        (STALL, outcome.stall / 1e9, Unit::Seconds, Some(Better::Lower)),
        (FREEZES_COUNT, outcome.freezes as f64, Unit::Count, Some(Better::Lower)),
        (JOINED, 100.0 * joined, Unit::Percent, None),
        (ALLOCATABLE, hours.last_allocatable(), Unit::Percent, Some(Better::Higher)),
    ];
    let last_quarter = hours.last_quarter();
    metrics.extend(last_quarter.map(|it| (LAST_QUARTER, it, Unit::Percent, Some(Better::Higher))));
    let mut run = run_of(&Side { label, ..side }, &[outcome]);
    for (name, value, unit, better) in metrics {
        run.metrics.insert(name.to_owned(), Metric::once(value, unit, better));
    }
    run.series = hours.series();
    Ok(run)
}

/// The share of the disks' bandwidth that reads and writes used, in percent.
fn disks_busy(paging: &Paging, outcome: &Outcome) -> f64 {
    let Work::Cdn(work) = &paging.work else { return 0.0 };
    let read = outcome.hours.len() as u64 * work.turnovers / HOURS * paging.frames;
    let bytes = (read + outcome.written) as f64 * 4096.0;
    let percent =
        100.0 * bytes / (outcome.elapsed * 1e6 * StoreSpec::ssds(work.disks).mb_per_s as f64);
    // Requests that end after the run count as a whole.
    percent.min(100.0)
}

/// A part of the work that one thread does.
enum Job {
    /// A setting with a seed, for 24 hours.
    Run(usize, u64),
    /// The published change on machines with other parameters, for two hours.
    Bands,
}

fn bands_of(plan: &Plan, spec: &Spec, done: &dyn Fn(u64)) -> Result<(Varied, Vec<Varied>), Error> {
    /// Memory is filled in the first.
    const SHORT: u64 = 2;
    let both = |spec: &Spec| -> Result<[Run; 2], Error> {
        let short = paging(plan, spec.clone(), SHORT);
        let runs = [once(&short, 0, plan.seeds[0])?, once(&short, 1, plan.seeds[0])?];
        done(1);
        Ok(runs)
    };
    let [before, after] = both(spec)?;
    Ok((Varied { by: None, before, after }, vary(spec, plan, both)?))
}

fn run(plan: &Plan, tell: &mut Tell<'_>) -> Result<Results, Error> {
    let spec = Spec::preset(MACHINE)?;
    let mut jobs: Vec<Job> = (0..SETTINGS.len())
        .flat_map(|setting| plan.seeds.iter().map(move |&seed| Job::Run(setting, seed)))
        .collect();
    let mut total = jobs.len();
    if !plan.quick {
        // The longest job starts with the first ones.
        jobs.insert(1, Job::Bands);
        total += 1 + bands::count(&spec, plan);
    }
    let mut steps = Steps::new(total, tell);
    let day = paging(plan, spec.clone(), HOURS);
    let work = |job: &Job, done: &(dyn Fn(u64) + Sync)| -> Result<_, Error> {
        match *job {
            Job::Run(setting, seed) => {
                let run = once(&day, setting, seed)?;
                done(1);
                Ok((Some(run), None))
            }
            Job::Bands => Ok((None, Some(bands_of(plan, &spec, done)?))),
        }
    };
    let finished = parallel::map(&jobs, parallel::processors(), work, &mut |_| steps.step());
    let mut runs = vec![Vec::new(); SETTINGS.len()];
    let mut results = Results { rows: rows(), ..Results::default() };
    for (job, finished) in jobs.iter().zip(finished) {
        let (run, varied) = finished?;
        if let (Job::Run(setting, _), Some(run)) = (job, run) {
            runs[*setting].push(run);
        }
        if let Some((as_is, varied)) = varied {
            results.banded(key(PAIRS[0].0, RATE), &as_is, &varied);
        }
    }
    enter(&mut results, BySetting(runs), plan);
    results.findings.extend(bands::described([&spec], plan));
    Ok(results)
}

fn key<'k>(subject: &'k str, metric: &'k str) -> Key<'k> {
    Key { workload: WORKLOAD, machine: MACHINE, subject, metric }
}

/// Published figures.
fn rows() -> Vec<Row> {
    let subject = PAIRS[0].0;
    let row = |metric, unit, better, published| {
        key(subject, metric).row(EXPERIMENT.name, unit, Some(better)).published(published)
    };
    let rate = Published::sides(14.0, 60.0, THEIRS, SOURCE);
    let freeze = Published::before(4.5, THEIRS, SOURCE);
    vec![
        row(RATE, Unit::GigabitsPerSecond, Better::Higher, rate)
            .also(Quantity::Before, Role::Shown(LEVELS.into())),
        row(STALL, Unit::Seconds, Better::Lower, freeze)
            .judged(Quantity::Before, Reference::Published)
            .role(Role::Shown(FREEZES.into())),
    ]
}

/// Enters the figures of all settings, and the findings from them.
fn enter(results: &mut Results, runs: BySetting, plan: &Plan) {
    for metric in FIGURES {
        for (subject, before, after) in PAIRS {
            let sides = runs.sides(before, after, metric);
            match COUNTS.contains(&metric) {
                true => results.measured(key(subject, metric), sides),
                false => results.modelled(key(subject, metric), sides),
            }
        }
    }
    let turnovers = if plan.quick { 1 } else { TURNOVERS };
    for (setting, name) in SETTINGS.iter().enumerate() {
        results.findings.extend(decay(name, runs.median(setting, LAST_QUARTER)));
    }
    let after = PAIRS[0].2;
    results.findings.extend(limit(SETTINGS[after], runs.median(after, DISKS_BUSY)));
    results.findings.push(lapse(turnovers));
    results.runs.extend(runs.medians());
}

/// Whether the rate of a setting decays in 24 hours, as a finding.
fn decay(setting: &str, last_quarter: Option<f64>) -> Option<String> {
    let percent = last_quarter?;
    let verb = if percent < DECAY_PERCENT { "decays" } else { "does not decay" };
    Some(format!(
        "tlb.batching={setting}: the rate of hours 19 to 24 is {} % of that of hours 2 to 6: it {verb} (limit: \
         {DECAY_PERCENT} %)",
        decimal(percent, 1)
    ))
}

/// Whether the disks limit the rate after the change, as a finding.
fn limit(setting: &str, busy: Option<f64>) -> Option<String> {
    let percent = busy.filter(|percent| *percent >= LIMITED_PERCENT)?;
    Some(format!(
        "tlb.batching={setting}: reads and writes take {} % of the disks' bandwidth, which limits the rate: our change is a \
         lower bound, too",
        decimal(percent, 1)
    ))
}

/// The limits of the time lapse, as a finding.
fn lapse(turnovers: u64) -> String {
    let pages = 60e9 / 8.0 / 4096.0 * 86_400.0;
    format!(
        "time lapse: an hour has {} of memory, {} in all, all of them simulated and timed; at 60 Gbit/s the \
         published machine has up to {} in an hour, if all content is read from disks. 86,400 s at that rate are {} \
         thousand million page accesses for each setting. Left out are the other turnovers, and what else ages a \
         server: other programs, file systems' caches that grow, timers, the network",
        if turnovers == 1 { "one turnover".to_owned() } else { format!("{turnovers} turnovers") },
        turnovers * HOURS,
        decimal(PUBLISHED_TURNOVERS, 0),
        decimal(pages / 1e9, 0),
    )
}

/// Both series as a picture.
fn plot(runs: &[Run], subtitle: &str) -> Plot {
    let axis = || Axis::whole("hours of the time lapse");
    let panel = |label: &str, name: &str| Panel::of_series(runs, name, axis(), Axis::linear(label));
    Plot {
        title: EXPERIMENT.name.to_owned(),
        subtitle: subtitle.to_owned(),
        panels: vec![
            panel("content, Gbit/s, modelled", RATE),
            panel("free blocks of order 9", FREE_HUGE),
            panel("order-9 blocks without memory of the kernel, %", ALLOCATABLE),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_figure_and_batches_serve_more_with_fewer_interrupts() {
        let plan = Plan::new(1, true);
        let results = run(&plan, &mut |_, _| {}).unwrap();
        let sides = |metric: &str| {
            let row = results.rows.iter().find(|row| row.key() == key("off, all", metric));
            let row = row.unwrap_or_else(|| panic!("no row {metric}"));
            let sides = row.modelled.as_ref().or(row.measured.as_ref()).expect("no figure of ours");
            (sides.before.median, sides.after.as_ref().unwrap().median)
        };
        FIGURES.iter().for_each(|metric| _ = sides(metric));
        let (off, all) = sides(RATE);
        assert!(all > 1.2 * off && off > 1.0, "{off} and {all} Gbit/s");
        let (off, all) = sides(INTERRUPTS);
        assert!(off > 0.5 && all < off / 2.0, "{off} and {all} interrupts per page");
        let allocatable = sides(ALLOCATABLE).0;
        assert!((10.0..100.0).contains(&allocatable), "{allocatable} %");
        for run in &results.runs {
            for name in [RATE, FREE_HUGE, ALLOCATABLE] {
                assert_eq!(run.series[name].len(), HOURS as usize, "{name} of {}", run.label);
            }
        }
        let lines = plot(&results.runs, "").panels.into_iter().map(|panel| panel.lines.len());
        assert!(lines.eq([SETTINGS.len(); 3]));
        let decays = |finding: &&String| finding.contains("of hours 2 to 6");
        assert_eq!(results.findings.iter().filter(decays).count(), SETTINGS.len());
        assert!(results.findings.iter().any(|finding| finding.starts_with("time lapse: ")));
    }

    #[test]
    fn a_decay_is_a_lower_rate_in_the_last_quarter() {
        let mut hours = Hours { spent: vec![(1.0, 50.0); 24], free: vec![], allocatable: vec![] };
        hours.spent[0] = (9.0, 50.0);
        assert_eq!(hours.last_quarter(), Some(100.0));
        hours.spent[18..].fill((1.0, 40.0));
        assert_eq!(hours.last_quarter(), Some(80.0));
        assert!(
            decay("all", hours.last_quarter())
                .unwrap()
                .contains("80.0 % of that of hours 2 to 6: it decays")
        );
        assert!(decay("all", Some(99.0)).unwrap().contains("does not decay"));
        assert_eq!(limit("all", Some(80.0)), None);
        assert!(limit("all", Some(99.7)).unwrap().contains("take 99.7 % of the disks' bandwidth"));
        hours.spent.truncate(2);
        assert_eq!(hours.last_quarter(), None);
        assert_eq!(hours.rate(1..), 50.0);
    }

    #[test]
    fn distances_between_watermarks_are_those_of_the_machine() {
        let frames = paging(&Plan::new(1, false), Spec::preset(MACHINE).unwrap(), HOURS).frames;
        let distance = frames * u64::from(side(0).tuning.zone.watermark_scale) / 10_000;
        assert!((4_000..=4_100).contains(&distance), "{distance} frames; 16 MiB are 4,096");
    }
}
