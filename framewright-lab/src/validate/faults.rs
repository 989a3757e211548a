//! Page faults: 1 to N processes, and threads of one process, map 128 MiB, touch each page, and
//! unmap it. On the simulated machine the classic design does the same, because the kernel uses it.

use std::{thread, time::Duration};

use framewright_workloads::page_fault::BURST;

use super::{
    Here, Row, Tolerance, Validation,
    tasks::{Kind, Work, round},
};
use crate::Error;
use crate::report::Unit;
use crate::simulated::{Column, Plan, Simulation};
use crate::workloads::{Side, Window, Workload, page_fault::PageFault};

const WORK: &str = "page faults: mmap, touch, munmap";
/// Mappings of a task in a round: some tenths of a second, less than the second after which the
/// kernel stops real-time tasks for a moment.
pub(super) const TIMES: u32 = 3;
/// Time between rounds, in which other programs may run.
const PAUSE: Duration = Duration::from_millis(40);
/// Rates of several tasks are judged with so many CPUs or more: on fewer, other programs always take part.
const SCALING: usize = 4;
/// A rate is judged if no task was kept from running for more than this share of its time.
const DELAYED: f64 = 0.05;
/// The shortest window of a simulation, in nanoseconds.
const LEAST_WINDOW: u64 = 10_000_000;
/// Seeds of the modelled figures.
const SEEDS: u64 = 3;

/// The measured and modelled figures of a number of tasks.
#[derive(Default)]
struct Figures {
    faults_per_s: [Vec<f64>; 2],
    ns_per_fault: [Vec<f64>; 2],
    /// The greatest share of its time for which a task was kept from running.
    delayed: f64,
}

/// The rows of all numbers of tasks.
pub(super) fn rows(validation: &Validation, here: &Here) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for kind in [Kind::Processes, Kind::Threads] {
        let mut alone = None;
        for tasks in numbers(here.cpus.len()) {
            match figures(validation, kind, &here.cpus[..tasks])? {
                Ok(figures) => {
                    let first = alone.get_or_insert_with(|| figures.medians());
                    rows.extend(figures.rows(kind, [tasks, here.cpus.len()], first));
                }
                Err(why) => rows.push(Row::missing(WORK, format!("{}_{tasks}", kind.word()), why)),
            }
        }
    }
    Ok(rows)
}

/// Numbers of tasks: powers of two up to the number of CPUs, and that number.
fn numbers(cpus: usize) -> impl Iterator<Item = usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(move |tasks| *tasks < cpus);
    powers.chain((cpus > 0).then_some(cpus))
}

fn figures(
    validation: &Validation,
    kind: Kind,
    cpus: &[usize],
) -> Result<Result<Figures, String>, Error> {
    let work = Work { pages: validation.pages as usize, times: TIMES };
    let mut figures = Figures::default();
    for _ in 0..validation.rounds {
        thread::sleep(PAUSE);
        let round = match round(kind, work, cpus) {
            Ok(round) => round,
            Err(why) => return Ok(Err(why)),
        };
        let faults = round.faults as f64;
        figures.faults_per_s[0].push(faults / round.wall.as_secs_f64());
        figures.ns_per_fault[0].push(round.cpu.as_nanos() as f64 / faults);
        figures.delayed = figures.delayed.max(round.delayed);
    }
    let simulation = simulation(validation, kind, cpus.len() as u16)?;
    let column = Column::list_buddy("list-buddy", &Side::new("list-buddy"));
    for seed in 1..=SEEDS {
        let window = simulation.run_once(&column, seed)?;
        let faults = window.done.pages.max(1) as f64;
        figures.faults_per_s[1].push(faults / window.seconds);
        figures.ns_per_fault[1].push(busy_nanos(&simulation, &window) / faults);
    }
    Ok(Ok(figures))
}

/// The same work on `cpus` CPUs of the simulated machine.
pub(super) fn simulation(
    validation: &Validation,
    kind: Kind,
    cpus: u16,
) -> Result<Simulation, Error> {
    let threads = kind == Kind::Threads;
    let work = PageFault { frames: validation.pages, threads, ..PageFault::new(1) };
    let work = Workload::PageFault(work);
    let spec = validation.spec.with_cpus(cpus)?;
    let frames = Some(work.ample_frames(cpus));
    let plan = plan(&work, validation.pages, cpus);
    // Longer, so that the part of a burst at the ends of the window matters little.
    Ok(Simulation { work, spec, frames, plan: Plan { window: 2 * plan.window, ..plan } })
}

/// The virtual time of a simulation with bursts of `pages` pages.
pub(super) fn plan(work: &Workload, pages: u32, cpus: u16) -> Plan {
    let plan = Plan::of(work).on(cpus);
    let window = plan.window * u64::from(pages.min(BURST)) / u64::from(BURST);
    Plan { window: window.max(LEAST_WINDOW), ..plan }
}

fn busy_nanos(simulation: &Simulation, window: &Window) -> f64 {
    let busy = window.cycles.map_or(0, |cycles| cycles.busy);
    busy as f64 * 1000.0 / simulation.spec.costs().clock.frequency_mhz as f64
}

impl Figures {
    /// Measured and modelled faults per second.
    fn medians(&self) -> [f64; 2] {
        self.faults_per_s.each_ref().map(|rounds| {
            let mut rounds = rounds.clone();
            rounds.sort_by(f64::total_cmp);
            rounds.get(rounds.len() / 2).copied().unwrap_or(0.0)
        })
    }

    fn rows(&self, kind: Kind, [tasks, cpus]: [usize; 2], alone: &[f64; 2]) -> Vec<Row> {
        let name = |what: &str| format!("{}_{tasks}_{what}", kind.word());
        let row = |what: &str, unit, [measured, modelled]: &[Vec<f64>; 2]| {
            Row::new(WORK, name(what), unit, Tolerance::Time, [measured, modelled])
        };
        let delayed = (self.delayed > DELAYED).then(|| {
            let percent = 100.0 * self.delayed;
            format!("other programs used the CPU of a task for {percent:.0} % of its time")
        });
        let few = (tasks > 1 && cpus < SCALING)
            .then(|| format!("scaling needs {SCALING} CPUs, and there are {cpus}"));
        let rate = |row: Row| row.unless(few.clone()).unless(delayed.clone());
        let mut rows = vec![
            row("cpu_ns_per_fault", Unit::Nanos, &self.ns_per_fault),
            rate(row("faults_per_s", Unit::PerSecond, &self.faults_per_s)),
        ];
        if tasks > 1 {
            let scaling = |side: usize| -> Vec<f64> {
                let of = |rate: &f64| rate / alone[side];
                self.faults_per_s[side].iter().map(of).filter(|value| value.is_finite()).collect()
            };
            rows.push(rate(row("times_rate_of_one", Unit::Ratio, &[scaling(0), scaling(1)])));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tasks_double_up_to_the_cpus() {
        for (cpus, expected) in
            [(0, &[][..]), (1, &[1]), (2, &[1, 2]), (6, &[1, 2, 4, 6]), (8, &[1, 2, 4, 8])]
        {
            assert_eq!(numbers(cpus).collect::<Vec<_>>(), expected);
        }
    }

    fn figures(delayed: f64) -> Figures {
        let rates = [vec![200.0, 210.0, 190.0], vec![220.0]];
        Figures { faults_per_s: rates, ns_per_fault: [vec![10.0], vec![12.0]], delayed }
    }

    #[test]
    fn rates_are_judged_only_if_there_are_enough_cpus_and_the_tasks_ran() {
        let judged = |delayed, tasks, cpus| -> Vec<bool> {
            let rows = figures(delayed).rows(Kind::Threads, [tasks, cpus], &[100.0, 110.0]);
            rows.iter().map(|row| row.agrees().is_some()).collect()
        };
        assert_eq!(judged(0.0, 1, 2), [true, true]);
        assert_eq!(judged(0.5, 1, 2), [true, false]);
        assert_eq!(judged(0.0, 2, 2), [true, false, false]);
        assert_eq!(judged(0.0, 2, 4), [true, true, true]);
        assert_eq!(judged(0.5, 4, 4), [true, false, false]);
    }

    #[test]
    fn scaling_is_relative_to_one_task() {
        let rows = figures(0.0).rows(Kind::Processes, [2, 2], &[100.0, 110.0]);
        let scaling = rows.last().unwrap();
        assert_eq!(scaling.what, "processes_2_times_rate_of_one");
        assert_eq!(scaling.measured.as_ref().unwrap().median, 2.0);
        assert_eq!(scaling.modelled.as_ref().unwrap().median, 2.0);
        assert!(scaling.unjudged.as_ref().unwrap().contains("needs 4 CPUs"));
    }
}
