//! `framewright run mmap-read | cdn`: files larger than memory, on simulated machines. `mmap-read`
//! also runs on threads over real files, and on a kernel under QEMU.

use std::{path::PathBuf, str::FromStr};

use clap::Args as ArgGroup;
use framewright_lab::{
    host_paging::HostPaging,
    html::Details,
    paging::{self, Paging, Work},
    plot::Axis,
    report::{Measured, decimal},
    samples::Watch,
    workloads::{
        cdn::{Cdn, HOURS},
        mmap_read::{MmapRead, Readers},
    },
};
use framewright_sim::machine::Spec;

use super::{
    finish, finish_with, machines::note_inherited, only_on_qemu, only_simulated, qemu, report,
    workload::about_memory,
};
use crate::args::{
    machine::{Host, Machine},
    run::{RunArgs, TraceArgs},
    values::{Memory, choice, whole},
};
use crate::failure::{Failure, Outcome};
use crate::print::{self, mib, several};
use crate::{output, progress};

/// The text before the examples of each workload.
macro_rules! with_examples {
    ($where:literal, $examples:literal) => {
        concat!(
            "This workload uses more pages than memory has frames. Reclaim therefore unmaps pages that \
             are not in use, and flushes them from the TLBs of all CPUs. ",
            $where,
            "\n\nThe default memory is small, so a run takes seconds. With more memory, reclaim finds more pages \
             to unmap for each flush, so there are fewer interrupts per reclaimed page.\n\nExamples:\n",
            $examples
        )
    };
}

/// Help of `--machine`: more machines than for `cdn`.
pub(crate) const MMAP_READ_MACHINE: &str = "\
uniform:N, a name that `framewright machines` lists, or FILE.toml; host:N with N threads over real memory; \
qemu:CPUS[,MEMORY[,NODES]] for a kernel on an emulated machine";

/// Help of `--memory`.
pub(crate) const MMAP_READ_MEMORY: &str = "\
Memory of the machine, as in 1GiB [default: 16 MiB per CPU, and at least 64 MiB; with host:N 512 MiB; \
with qemu, --machine gives the memory]";

pub(crate) const MMAP_READ_EXAMPLES: &str = with_examples!(
    "On a simulated machine counts are exact, times come from a model, and the same command gives the same \
     bytes. With host:N, memory, files and interrupts are real; with qemu:N, page tables and interrupts are. \
     On these machines, no two runs are the same.",
    "  framewright run mmap-read --machine uniform:4 --set tlb.batching=off --vs tlb.batching=all
      Interrupts per reclaimed page, without and with batches.
  framewright run mmap-read --readers threads --machine uniform:8 --memory 512MiB
      Every CPU may have a translation of every page, as on a cache server.
  framewright run mmap-read --machine host:1 --set tlb.batching=off --vs tlb.batching=lazy
      No model: real memory, real files, and the interrupts that the kernel counts.
  framewright run mmap-read --machine qemu:4,128MiB --readers threads
      The repository's kernel on an emulated machine reads 1.5 times the memory, twice."
);

pub(crate) const CDN_EXAMPLES: &str = with_examples!(
    "The machine is simulated: counts are exact, times come from a model. The same command gives the same \
     bytes.",
    "  framewright run cdn --machine uniform:16 --memory 64MiB --days 1 --picture day.svg
      A cache server for a day: does throughput degrade?
  framewright run cdn --huge 160 --days 0.1 --memory 256MiB --vs zone.huge_reserve=0
      One request in 160 is for an object of 2 MiB in a huge page, a tenth of all data, while file
      pages are reclaimed all the time. How many of these requests succeed without a stall, with the
      default huge-page reserve and without a reserve?"
);

/// Arguments of `run mmap-read`.
#[derive(Debug, ArgGroup)]
pub(crate) struct MmapReadArgs {
    /// Processes that map a file each, or threads that share one mapping
    #[arg(long, value_name = "WHO", default_value_t, value_parser = choice::<Readers>())]
    pub(crate) readers: Readers,
    /// Amount to read, in multiples of memory
    #[arg(long, value_name = "N", default_value_t = Self::TIMES,
          value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) times: u32,
    /// Solid-state disks that store the files; 0: the files consist of holes, as in the benchmark
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(crate) disks: u32,
    #[command(flatten)]
    pub(crate) beside: qemu::BesideArgs,
    #[command(flatten)]
    pub(crate) common: PagingArgs,
}

impl MmapReadArgs {
    /// Default amount, in multiples of memory.
    pub(crate) const TIMES: u32 = 10;
}

/// Arguments of `run cdn`.
#[derive(Debug, ArgGroup)]
pub(crate) struct CdnArgs {
    /// Virtual time, rounded up to hours: a day is the time in which memory is filled 2,500 times
    #[arg(long, value_name = "DAYS", default_value = "1")]
    pub(crate) days: Days,
    /// Requests that store new data, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5,
          value_parser = clap::value_parser!(u8).range(..=100))]
    pub(crate) writes: u8,
    /// Size of the file, in multiples of memory
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) times: u32,
    /// Parallel requests per CPU
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// One request in N is for an object of 2 MiB, kept in a huge page of its own until it expires
    /// [default: none]
    #[arg(long, value_name = "ONE_IN", value_parser = one_in)]
    pub(crate) huge: Option<u32>,
    #[command(flatten)]
    pub(crate) common: PagingArgs,
}

/// Options of both workloads.
#[derive(Debug, ArgGroup)]
pub(crate) struct PagingArgs {
    /// uniform:N, a name that `framewright machines` lists, or FILE.toml
    #[arg(long, default_value = "uniform:4")]
    pub(crate) machine: Machine,
    /// Memory of the machine, as in 1GiB [default: 16 MiB per CPU, and at least 64 MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = memory)]
    pub(crate) memory: Option<Memory>,
    /// Draw throughput and stalls over time into this file, as SVG
    #[arg(long, alias = "svg", value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// A size of memory, limited so that a run ends in reasonable time.
fn memory(text: &str) -> Result<Memory, String> {
    let memory: Memory = text.parse()?;
    if memory.frames() > MOST_FRAMES {
        let reason = "reading a GiB ten times takes some 3 seconds of CPU time";
        return Err(format!("the maximum is {MOST_MEMORY}: {reason}"));
    }
    Ok(memory)
}

/// A value "one request in N".
fn one_in(text: &str) -> Result<u32, String> {
    match whole(text) {
        Some(one_in @ 1..=1_000_000) => Ok(one_in),
        _ => Err("the number must be 1 to 1000000, as in 160".to_owned()),
    }
}

/// 64 GiB: a run takes minutes, and 1.5 GiB of this machine's memory for the simulated pages.
const MOST_FRAMES: u64 = 64 << 18;
const MOST_MEMORY: &str = "64GiB";

/// Virtual days, in steps of a hundredth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    pub(crate) hundredths: u32,
}

impl FromStr for Days {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: f64 = 365.0;
        match text.parse::<f64>() {
            Ok(days) if (0.01..=MOST).contains(&days) => {
                Ok(Self { hundredths: (days * 100.0).round() as u32 })
            }
            _ => Err("a run takes 0.01 to 365 days, as in 0.25 or 7".to_owned()),
        }
    }
}

/// `run mmap-read`.
pub(crate) fn mmap_read(args: &MmapReadArgs) -> Result<Outcome, Failure> {
    let work = reading(args);
    if !matches!(args.common.machine, Machine::Qemu(_)) {
        only_on_qemu(&[("--beside", args.beside.linux().is_some())])?;
    }
    match &args.common.machine {
        Machine::Host(host) => on_threads(work, *host, &args.common),
        Machine::Simulated(..) => run(Work::MmapRead(work), &args.common),
        Machine::Qemu(machine) => qemu::mmap_read(&machine.0, args),
    }
}

/// The work of `run mmap-read`.
pub(crate) fn reading(args: &MmapReadArgs) -> MmapRead {
    let times = if args.common.run.quick { (args.times / 5).max(2) } else { args.times };
    MmapRead { times, disks: args.disks, ..MmapRead::new(args.readers) }
}

/// `run cdn`.
pub(crate) fn cdn(args: &CdnArgs) -> Result<Outcome, Failure> {
    run(Work::Cdn(serving(args)), &args.common)
}

/// The work of `run cdn`.
pub(crate) fn serving(args: &CdnArgs) -> Cdn {
    let centidays = args.days.hundredths;
    let centidays = if args.common.run.quick { centidays.div_ceil(5) } else { centidays };
    let (writes, times, threads) = (args.writes, args.times, args.threads);
    let huge = args.huge.unwrap_or(0);
    Cdn { centidays, writes, times, threads, huge, ..Cdn::new(0) }
}

/// The workload on the simulated machine of `args`.
pub(crate) fn paging(work: Work, args: &PagingArgs) -> Result<Paging, Failure> {
    let Machine::Simulated(spec, _) = &args.machine else {
        return Err(Failure::BadInput(format!(
            "{} runs on simulated machines only, as in --machine uniform:4",
            work.name()
        )));
    };
    let frames = args.memory.map_or_else(|| default_frames(spec), |memory| memory.frames());
    Ok(Paging { work, spec: Spec::clone(spec), frames })
}

/// Runs each side of `args` with all seeds.
pub(crate) fn measure(
    paging: &Paging,
    args: &PagingArgs,
    watch: Watch<'_>,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Measured, Failure> {
    let (sides, seeds) = (args.run.settings.sides(), args.run.all_seeds());
    let measured = paging.run_watched(&sides, &seeds, watch, tell);
    measured.map_err(|error| about_memory(error, args.memory))
}

/// Runs the workload on a simulated machine.
fn run(work: Work, args: &PagingArgs) -> Result<Outcome, Failure> {
    let picture = args.picture.as_deref();
    let inputs = args.machine.file();
    let others = [("--picture", picture), args.trace.file()];
    output::check_outputs(&args.run.files, &others, inputs.as_slice())?;
    let paging = paging(work, args)?;
    note_inherited(&args.machine);
    let (name, spec, frames) = (paging.work.name(), &paging.spec, paging.frames);
    let trace = args.trace.begin()?;
    let watch = args.run.watch(trace.as_ref());
    let measured = progress::during(name, |tell| measure(&paging, args, watch, tell))?;
    output::save_trace(trace)?;
    let details = Details::of(&measured);
    let report = report(name, spec.name().to_owned(), Some(args.run.first_seed()), measured);
    let report = report.over_seeds(args.run.seeds);
    let draw = || paging::plot(&report.runs, &paging.work, &report.command.join(" ")).svg();
    output::save_text(picture, draw)?;
    let style = output::style();
    let seeds = print::seeds(print::rounds(&report) as usize);
    let [machine, model, note] = print::simulated(spec, frames, &seeds);
    let work = ("work", description(&paging.work, frames));
    let mut text = print::head([machine, work, model, note]) + &print::body(&report, style);
    if matches!(paging.work, Work::Cdn(_)) {
        text = text + "\n" + &print::series(&report, style);
    }
    let time = match paging.work {
        Work::MmapRead(_) => Axis::whole("24ths of the files"),
        Work::Cdn(_) => Axis::whole("hours (24 hours read 2,500 times the memory)"),
    };
    let details = Details { time, ..details };
    finish_with(&report, details, &args.run.files, &text)
}

/// Reads files on threads of this process: real memory, real files, real interrupts.
fn on_threads(work: MmapRead, host: Host, args: &PagingArgs) -> Result<Outcome, Failure> {
    /// Large enough that the limit of deferred frames (a 200th of memory) is hundreds of frames.
    const FRAMES: u64 = 512 << 8;
    only_simulated(&[
        ("--disks", work.disks > 0),
        // A seed would have no effect: nothing here is drawn at random.
        ("--seed", args.run.seed.is_some()),
        ("--seeds", args.run.seeds > 1),
        ("--perfetto", args.trace.perfetto.is_some()),
        ("--picture", args.picture.is_some()),
    ])?;
    output::check_report(&args.run.files, &[])?;
    let rounds = if args.run.quick { 2 } else { HostPaging::ROUNDS };
    let frames = args.memory.map_or(FRAMES, |memory| memory.frames());
    let readers = host.cpus();
    let (one, files) = match work.readers {
        _ if readers == 1 => ("thread", "with a sparse file"),
        Readers::Processes => ("threads", "each with a sparse file and a region of its own"),
        Readers::Threads => ("threads", "all with one region and one sparse file"),
    };
    let what = format!(
        "{readers} {one} of this process, {files}; {} times the memory, each page read once",
        work.times
    );
    let paging = HostPaging { work, readers, frames, rounds };
    let sides = args.run.settings.sides();
    let measured = progress::during("mmap-read", |tell| paging.run(&sides, tell))?.measured;
    let notes = measured.notes.clone();
    let report = report("mmap-read", format!("host:{readers}"), None, measured);
    let machine = format!(
        "{}, {} MiB of memory for each side; {}, sides alternating",
        report.machine,
        mib(frames),
        print::medians(&report)
    );
    let head = [("machine", machine), ("work", what)].into_iter().chain(print::notes(&notes));
    finish(&report, &args.run.files, &(print::head(head) + &print::body(&report, output::style())))
}

/// The default memory: so large that CPU lists and watermarks are a small part of it.
fn default_frames(spec: &Spec) -> u64 {
    const PER_CPU: u64 = 16 << 8;
    const LEAST: u64 = 64 << 8;
    (PER_CPU * u64::from(spec.cpus())).max(LEAST)
}

fn description(work: &Work, frames: u64) -> String {
    match work {
        Work::MmapRead(work) => {
            let who = match work.readers {
                Readers::Processes => "one process per CPU, each with a file of its own",
                Readers::Threads => "one thread per CPU, all with one mapping of one file",
            };
            let files = match work.disks {
                0 => "holes".to_owned(),
                disks => format!("on {}", several(disks, "disk")),
            };
            format!("{who}, {files}; {} times the memory, each page read once", work.times)
        }
        Work::Cdn(work) => format!(
            "one mapping of {} times the memory, {} per CPU, {} % of requests store; {}; \
             {}, 2,500 turnovers a day: {} million pages are replaced{}",
            work.times,
            several(work.threads, "thread"),
            work.writes,
            several(work.disks, "disk"),
            match work.hours() {
                hours if hours % HOURS == 0 => several(hours / HOURS, "day"),
                hours => several(hours, "hour"),
            },
            decimal(work.turned_over(frames) as f64 / 1e6, 1),
            match work.huge {
                0 => String::new(),
                huge =>
                    format!("; one request in {huge} is for an object of 2 MiB, in a huge page"),
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_limited() {
        assert_eq!(memory(MOST_MEMORY).map(Memory::frames), Ok(MOST_FRAMES));
        for (text, hint) in [("8TiB", "the maximum is 64GiB"), ("1", "the minimum")] {
            assert!(memory(text).unwrap_err().contains(hint), "{text}");
        }
    }

    #[test]
    fn one_request_in_many_has_bounds() {
        assert_eq!([one_in("1"), one_in("1000000")], [Ok(1), Ok(1_000_000)]);
        for text in ["", "0", "1000001", "-1", "zzz", "1.5"] {
            assert!(one_in(text).unwrap_err().contains("1 to 1000000, as in 160"), "{text}");
        }
    }

    #[test]
    fn days_have_hundredths_and_bounds() {
        let hundredths = |text: &str| text.parse::<Days>().map(|days| days.hundredths);
        assert_eq!([hundredths("7"), hundredths("0.25")], [Ok(700), Ok(25)]);
        for text in ["", "0", "0.001", "-1", "366", "a day", "nan", "inf"] {
            assert!(hundredths(text).unwrap_err().contains("0.01 to 365 days"), "{text}");
        }
    }
}
