//! The environment of the published runs: rules of the kernel of 2013, and its load, as far as they differ from those
//! of running kernels of today. None of these settings concerns the repairs. They are added one after the other, so
//! that the share of each can be measured.

use super::{
    PUBLISHED, SUCCESS,
    trials::{self, ALL, Era, Outcome, UNREPAIRED},
};
use crate::Error;
use crate::{
    high_alloc::{Flags, HighAlloc},
    report::decimal,
    reproduce::{Plan, Results, pairs::Steps},
    workloads::Side,
};

/// One setting of the environment.
pub(super) struct Setting {
    /// The rule or load that it changes, as text.
    pub(super) name: &'static str,
    apply: fn(&mut HighAlloc, &mut Side),
}

/// Programs besides builders have one frame in this number. Estimated: it lowers success3 by some points.
const RESIDUE: u64 = 24;

/// The settings, in the order in which they are added.
pub(super) const SETTINGS: [Setting; 6] = [
    Setting {
        name: "background reclaim for single frames only, and no swap",
        apply: |work, side| {
            work.environment.reclaims_frames = true;
            side.tuning.reclaim.swappiness = 0;
        },
    },
    Setting {
        name: "direct reclaim before synchronous compaction in any case",
        apply: |work, _| work.environment.reclaims_first = true,
    },
    Setting {
        name: "watermark test by order",
        apply: |_, side| side.tuning.zone.watermark_by_order = true,
    },
    Setting {
        name: "two zones with the fair zone allocation policy",
        apply: |work, _| work.environment.fair_zones = true,
    },
    Setting {
        name: "more pages of other programs",
        apply: |work, _| work.environment.residue = RESIDUE,
    },
    Setting {
        name: "requests that try once end with synchronous compaction",
        apply: |work, _| work.environment.ends_synchronously = true,
    },
];

/// Applies the first `count` settings.
pub(super) fn apply(count: usize, work: &mut HighAlloc, sides: &mut [Side]) {
    for setting in &SETTINGS[..count] {
        sides.iter_mut().for_each(|side| (setting.apply)(work, side));
    }
}

/// The settings whose runs show the contribution of the environment: without repairs, and with all.
const SIDES: [usize; 2] = [UNREPAIRED, ALL];
/// Seeds of these runs: the contributions are far larger than the difference between seeds.
const SEEDS: usize = 3;

/// The number of runs of [`contributions`].
pub(super) fn runs(plan: &Plan) -> usize {
    SIDES.len() * (SETTINGS.len() + 1) * plan.seeds.len().min(SEEDS)
}

/// Runs with none of the settings, with the first, with the first two, and so on. Adds these runs and a line for each
/// to the results; the runs with all settings are there already.
pub(super) fn contributions(
    flags: Flags,
    plan: &Plan,
    steps: &mut Steps<'_, '_>,
    results: &mut Results,
) -> Result<(), Error> {
    let seeds = plan.seeds.iter().copied().take(SEEDS).collect();
    let plan = Plan { seeds, ..plan.clone() };
    for count in 0..=SETTINGS.len() {
        let outcome = trials::run(flags, (None, Era::In2013(count)), &SIDES, &plan, steps)?;
        results.findings.push(line(flags, count, &outcome));
        if count == SETTINGS.len() {
            results.findings.extend(remains(flags, &outcome));
        } else {
            results.runs.extend(outcome.runs());
        }
    }
    Ok(())
}

/// The differences from the publication that remain with all settings, as a finding.
fn remains(flags: Flags, outcome: &Outcome) -> Option<String> {
    /// Pages that direct reclaim freed per stall of compaction, for requests of programs.
    const PER_STALL: u32 = 196;
    let (_, [before, _, after]) = PUBLISHED.into_iter().find(|(of, _)| *of == flags)?;
    let of = |side, metric| outcome.settings.mean(side, metric);
    let beyond = |side, published: [f64; 3]| {
        let points = SUCCESS.iter().zip(published);
        points
            .map(|(metric, value)| format!("{:+.1}", of(side, metric) - value))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let per_stall = of(UNREPAIRED, "pgsteal_direct") / of(UNREPAIRED, "compact_stall").max(1.0);
    Some(format!(
        "environment of 2013, {}, with all settings: success minus the published success is {} points without repairs, and \
         {} points with all; direct reclaim frees {} pages per stall without repairs (published for default: {PER_STALL})",
        flags.name(),
        beyond(UNREPAIRED, before),
        beyond(ALL, after),
        decimal(per_stall, 0),
    ))
}

/// The success and the scans with the first `count` settings.
fn line(flags: Flags, count: usize, outcome: &Outcome) -> String {
    let of = |side, metric| outcome.settings.mean(side, metric);
    let success = |side| SUCCESS.map(|metric| decimal(of(side, metric), 1)).join(", ");
    let scans = of(ALL, "migrate_scanned") / of(UNREPAIRED, "migrate_scanned").max(1.0);
    let added = match count.checked_sub(1) {
        None => "scanners of 2013 in the environment of today",
        Some(last) => SETTINGS[last].name,
    };
    let and = if count > 0 { "+ " } else { "" };
    format!(
        "environment of 2013, {}: {and}{added}: {} % succeed without repairs, {} % with all, which scan {} times as \
         much; {} and {} pages are swapped out",
        flags.name(),
        success(UNREPAIRED),
        success(ALL),
        decimal(scans, 2),
        of(UNREPAIRED, "pswpout"),
        of(ALL, "pswpout"),
    )
}

#[cfg(test)]
mod tests {
    use framewright::Tuning;
    use framewright_sim::machine::Spec;

    use super::*;
    use crate::high_alloc::Environment;

    /// The environment and the tuning with the first `count` settings.
    fn with(count: usize) -> (Environment, Tuning) {
        let mut work = HighAlloc {
            flags: Flags::Default,
            spec: Spec::uniform(1).unwrap(),
            frames: HighAlloc::LEAST_FRAMES,
            from: None,
            environment: Environment::default(),
            quick: true,
        };
        let mut sides = [Side::new("x")];
        apply(count, &mut work, &mut sides);
        (work.environment, sides[0].tuning)
    }

    #[test]
    fn each_setting_changes_something_and_none_the_repairs() {
        assert_eq!(with(0), (Environment::default(), Tuning::default()));
        for count in 1..=SETTINGS.len() {
            assert_ne!(with(count - 1), with(count), "{}", SETTINGS[count - 1].name);
            assert_eq!(with(count).1.compact, Tuning::default().compact);
        }
    }
}
