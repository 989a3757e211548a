//! Runs of `high-alloc` for `reproduce compaction`: with scanners, each of their fixes of 2013 on
//! or off, and with the index.

use framewright_sim::machine::Spec;

use super::{workload, year2013};
use crate::Error;
use crate::{
    high_alloc::{Environment, Flags, HighAlloc},
    replay::State,
    report::Run,
    reproduce::{Plan, pairs, settings::BySetting},
    workloads::Side,
};

/// The name of the machine in rows: 4 CPUs, slowed down.
pub(super) const MACHINE: &str = "uniform:4/13";
const CPUS: u16 = 4;
/// The counts of running kernels come from runs on emulated CPUs, on which a page fault of
/// page_fault1 takes 13 times as long (20 µs instead of 1.55 µs). The compile jobs fault at a fixed
/// rate per second on every machine. The slower compaction is, the more of the free pages of a
/// pageblock they allocate before compaction has emptied it.
const SLOWER: f64 = 13.0;
/// The managed memory of 1 GiB, 972 MiB. 95 % of it is 461 huge pages, nearly the number that was
/// requested from running kernels (6.12: 458).
const FRAMES: u64 = 486 << 9;

/// Number of settings. Those with names have the numbers below.
pub(super) const SETTINGS: usize = 8;
pub(super) const UNREPAIRED: usize = 0;
pub(super) const ALL: usize = 4;
pub(super) const INDEX: usize = 5;
pub(super) const NONE: usize = 6;
pub(super) const PACKED: usize = 7;

const LABELS: [&str; SETTINGS] = [
    "no repairs",
    "+ reset_before_read",
    "+ detect_meeting",
    "+ unmarked_types",
    "all repairs",
    "index",
    "off",
    "+ bulk_take=bulk",
];

/// Settings of runs with current code.
pub(super) const TODAY: [usize; SETTINGS] = [UNREPAIRED, 1, 2, 3, ALL, NONE, PACKED, INDEX];

/// Settings of runs with the scanners of 2013.
pub(super) const IN_2013: [usize; 6] = [UNREPAIRED, 1, 2, 3, ALL, NONE];

/// Settings of runs from recorded states.
pub(super) const FROM_STATES: [usize; 4] = [UNREPAIRED, ALL, PACKED, INDEX];

/// The comparisons of rows: a name, and the settings before and after.
pub(super) const PAIRS: [(&str, usize, usize); 10] = [
    ("no repairs, + reset_before_read", UNREPAIRED, 1),
    ("no repairs, + detect_meeting", UNREPAIRED, 2),
    ("no repairs, all repairs", UNREPAIRED, ALL),
    ("+ detect_meeting, + unmarked_types", 2, 3),
    ("+ unmarked_types, all repairs", 3, ALL),
    ("off, all repairs", NONE, ALL),
    ("all repairs, + bulk_take=bulk", ALL, PACKED),
    ("+ bulk_take=bulk, index", PACKED, INDEX),
    ("all repairs, index", ALL, INDEX),
    ("off, index", NONE, INDEX),
];

/// The state of the scanners, apart from the repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Era {
    Today,
    /// Without later changes: the boost of watermarks (2018), changes that compensate faults of
    /// scanners (short searches of the free lists and capture of the block that forms, 2019), and
    /// proactive compaction (2020). With the first settings of the environment of 2013, as many as
    /// the number.
    In2013(usize),
}

impl Era {
    /// With all settings of the environment.
    pub(super) const IN_2013: Self = Self::In2013(year2013::SETTINGS.len());
}

/// The settings of one side.
fn side(setting: usize, era: Era) -> Side {
    let mut side = Side::new(LABELS[setting]);
    // The published runs had no huge-page reserve, and only compaction is to be measured.
    side.tuning.zone.huge_reserve = 0;
    if !matches!(setting, INDEX | PACKED) {
        // The kernels with these scanners took the smallest block first, and free memory did not limit their refills.
        side = side.with("zone.bulk_take", "smallest-first").with("pcp.refill_ignores_free", "on");
    }
    if !matches!(setting, INDEX | NONE) {
        for (name, at) in [
            ("reset_before_read", 1),
            ("detect_meeting", 2),
            ("unmarked_types", 3),
            ("reset_on_meeting", 4),
        ] {
            let on = if setting >= at { "on" } else { "off" };
            side = side.with(&format!("compact.repair.{name}"), on);
        }
    }
    let method = match setting {
        INDEX => "index",
        NONE => "off",
        _ => "scan",
    };
    side = side.with("compact.method", method);
    match era {
        Era::Today => side,
        Era::In2013(_) => side
            .with("compact.shortcuts", "off")
            .with("compact.proactiveness", 0)
            .with("zone.watermark_boost", 0),
    }
}

/// The result of all settings, one run per seed.
pub(super) struct Outcome {
    pub(super) settings: BySetting,
    /// The name of the workload in rows.
    pub(super) workload: String,
}

/// Runs `settings` with every seed, from a recorded state if there is one.
pub(super) fn run(
    flags: Flags,
    (from, era): (Option<&State>, Era),
    settings: &[usize],
    plan: &Plan,
    steps: &mut pairs::Steps<'_, '_>,
) -> Result<Outcome, Error> {
    let mut work = HighAlloc {
        flags,
        spec: Spec::uniform(CPUS)?.scaled("clock.frequency", 1.0 / SLOWER)?,
        frames: FRAMES,
        from: from.cloned(),
        environment: Environment::default(),
        quick: plan.quick,
    };
    let mut sides: Vec<Side> = settings.iter().map(|&setting| side(setting, era)).collect();
    if let Era::In2013(count) = era {
        year2013::apply(count, &mut work, &mut sides);
    }
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); SETTINGS];
    for &seed in &plan.seeds {
        for (&of, run) in settings.iter().zip(work.run_each(&sides, seed)?) {
            runs[of].push(run);
            steps.step();
        }
    }
    let workload = workload(flags, from.map(State::name), era);
    Ok(Outcome { settings: BySetting(runs), workload })
}

impl Outcome {
    /// One run per setting: medians over the seeds.
    pub(super) fn runs(self) -> impl Iterator<Item = Run> {
        let workload = self.workload;
        self.settings.medians().map(move |run| {
            let label = format!("{}, {}", workload.trim_start_matches("high-alloc-"), run.label);
            Run { label, ..run }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Metric, Unit};
    use framewright::Tuning;

    #[test]
    fn repairs_come_one_after_the_other() {
        let repaired = |setting: usize| {
            let repair = side(setting, Era::Today).tuning.compact.repair;
            [
                repair.reset_before_read,
                repair.detect_meeting,
                repair.unmarked_types,
                repair.reset_on_meeting,
            ]
            .into_iter()
            .filter(|&on| on)
            .count()
        };
        assert_eq!([0, 1, 2, 3, 4].map(repaired), [0, 1, 2, 3, 4]);
        assert_eq!(side(INDEX, Era::Today).tuning.compact, Tuning::default().compact);
    }

    #[test]
    fn settings_that_were_not_run_have_no_figures() {
        let metrics = [("steps".to_owned(), Metric::once(5.0, Unit::Count, None))].into();
        let run = Run { metrics, ..Run::default() };
        let mut runs = vec![vec![run]; 2];
        runs.push(Vec::new());
        let outcome = BySetting(runs);
        assert!(outcome.sides(0, 1, "steps").is_some());
        assert!(outcome.sides(0, 2, "steps").is_none() && outcome.sides(2, 0, "steps").is_none());
        assert_eq!((outcome.mean(2, "steps"), outcome.most(2, "steps")), (0.0, 0.0));
    }
}
