//! Judges whether a figure agrees with a published one: same sign, and within a factor of three. If
//! the counts of a running kernel are a goal, a better figure also agrees.

use framewright_sim::machine::Spec;

use super::{Plan, results::Results};
use crate::Error;
use crate::report::{
    Agreement, Band, Better, Check, Quantity, Reference, Role, Row, Sides, Verdict,
};

/// The maximum ratio of agreeing figures.
const FACTOR: f64 = 3.0;

/// Judges every row of `results`; no row of a quick run.
pub fn judge(results: &mut Results, plan: &Plan) {
    for row in &mut results.rows {
        row.agreement = Some(if plan.quick { Agreement::NotJudged } else { agreement(row) });
    }
}

/// The verdict over all judged rows and further checks. An experiment without a judged row fails.
pub fn verdict(results: &[Results], plan: &Plan) -> Verdict {
    let mut checks: Vec<Check> = Vec::new();
    for results in results {
        let judged = results.rows.iter().filter_map(check);
        let before = checks.len();
        checks.extend(judged);
        if checks.len() == before && !plan.quick {
            let name = results.rows.first().map_or("experiment", |row| &row.experiment);
            let detail = "no row could be judged".into();
            checks.push(Check { name: name.into(), passed: false, detail });
        }
        checks.extend(results.checks.iter().cloned());
    }
    let verdict = Verdict::of(checks);
    let rows: Vec<&Row> = results.iter().flat_map(|results| &results.rows).collect();
    Verdict { words: sentence(&rows, plan, verdict.passed), ..verdict }
}

/// The verdict in words.
fn sentence(rows: &[&Row], plan: &Plan, passed: bool) -> String {
    if plan.quick {
        return "not judged with --quick".into();
    }
    let count = |which: &[Agreement]| {
        rows.iter().filter(|row| row.agreement.is_some_and(|it| which.contains(&it))).count()
    };
    let agreeing = count(&[Agreement::Agrees]);
    let judged = agreeing + count(&[Agreement::Disagrees, Agreement::Missing]);
    let word = if passed { "yes" } else { "NO" };
    let reached = rows.iter().any(|row| row.against == Reference::KernelOrBetter);
    let rule = match reached {
        true => "same sign, within a factor of three, or better than a running kernel",
        false => "same sign, within a factor of three",
    };
    format!("{word}: {agreeing} of {judged} judged rows agree ({rule}); {} seeds", plan.seeds.len())
}

/// The row as a check, if it was judged.
fn check(row: &Row) -> Option<Check> {
    let (passed, detail) = match row.agreement? {
        Agreement::NotJudged => return None,
        Agreement::Missing => (false, "no figure of this library".into()),
        agreement => (agreement == Agreement::Agrees, detail(row)),
    };
    Some(Check { name: format!("{}, {}", row.experiment, row.key()), passed, detail })
}

fn detail(row: &Row) -> String {
    let what = match row.by {
        Quantity::Before => "before",
        Quantity::After => "after",
        Quantity::Change => "change in percent",
    };
    let whose = match row.against {
        Reference::Published => "published",
        Reference::Kernel => "a running kernel",
        Reference::KernelOrBetter => "a running kernel, or better",
    };
    let ours = if row.modelled.is_some() { "modelled" } else { "measured" };
    let figure =
        |figure: Option<f64>| figure.map_or("nothing".into(), |figure| format!("{figure:.4}"));
    let (theirs, figure_of_ours) = (figure(reference(row)), figure(our_figure(row)));
    format!("{what}: {whose} {theirs}, {ours} {figure_of_ours}")
}

fn agreement(row: &Row) -> Agreement {
    if row.role != Role::Predicted {
        return Agreement::NotJudged;
    }
    match (reference(row), our_figure(row)) {
        (None, _) => Agreement::NotJudged,
        (_, None) => Agreement::Missing,
        (Some(theirs), Some(ours))
            if agree(theirs, ours, row.resolution) || is_better(row, theirs, ours) =>
        {
            Agreement::Agrees
        }
        _ => Agreement::Disagrees,
    }
}

/// Whether the row accepts better figures than the reference, and ours is better.
fn is_better(row: &Row, theirs: f64, ours: f64) -> bool {
    row.against == Reference::KernelOrBetter
        && match row.better {
            Some(Better::Lower) => ours < theirs,
            Some(Better::Higher) => ours > theirs,
            None => false,
        }
}

/// Whether two figures have the same sign and are within a factor of three. Figures up to
/// `resolution` count as zero, and zero agrees only with zero.
fn agree(theirs: f64, ours: f64, resolution: f64) -> bool {
    match (theirs.abs() <= resolution, ours.abs() <= resolution) {
        (true, true) => true,
        (false, false) => {
            let ratio = ours / theirs;
            (1.0 / FACTOR..=FACTOR).contains(&ratio)
        }
        _ => false,
    }
}

/// The reference figure.
fn reference(row: &Row) -> Option<f64> {
    let (before, after, change) = match row.against {
        Reference::Published => {
            let published = row.published.as_ref()?;
            (published.before, published.after, published.change_pct)
        }
        Reference::Kernel | Reference::KernelOrBetter => {
            let kernel = row.kernel.as_ref()?;
            let change = kernel.before.zip(kernel.after);
            let change =
                change.and_then(|(before, after)| crate::report::change_pct(before, after));
            (kernel.before, kernel.after, change)
        }
    };
    pick(row.by, before, after, change)
}

/// The judged figure: the modelled, or else the measured.
fn our_figure(row: &Row) -> Option<f64> {
    let Sides { before, after, change_pct } = row.modelled.as_ref().or(row.measured.as_ref())?;
    let median =
        |metric: &Option<crate::report::Metric>| metric.as_ref().map(|metric| metric.median);
    pick(row.by, Some(before.median), median(after), median(change_pct))
}

fn pick<T>(by: Quantity, before: T, after: T, change: T) -> T {
    match by {
        Quantity::Before => before,
        Quantity::After => after,
        Quantity::Change => change,
    }
}

/// Factors by which parameters vary: estimates may be wrong by a quarter.
pub const FACTORS: [f64; 2] = [0.75, 1.25];

/// The range of `figure` while each of `parameters` of `spec` is varied. `None` without parameters.
/// The range includes `as_is`, the figure of `spec` itself.
///
/// # Errors
///
/// The error of `figure`, or an unknown parameter.
pub fn band(
    spec: &Spec,
    parameters: &[&str],
    as_is: f64,
    mut figure: impl FnMut(&Spec) -> Result<f64, Error>,
) -> Result<Option<Band>, Error> {
    let mut band: Option<Band> = None;
    let mut furthest = 0.0;
    for &parameter in parameters {
        for factor in FACTORS {
            let value = figure(&spec.scaled(parameter, factor)?)?;
            let band = band.get_or_insert_with(|| Band {
                least: as_is,
                greatest: as_is,
                by: parameter.to_owned(),
            });
            band.least = band.least.min(value);
            band.greatest = band.greatest.max(value);
            if (value - as_is).abs() > furthest {
                furthest = (value - as_is).abs();
                parameter.clone_into(&mut band.by);
            }
        }
    }
    Ok(band)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{Published, Unit},
        reproduce::results::Key,
    };

    const KEY: Key<'_> = Key { workload: "w", machine: "m", subject: "s", metric: "x" };

    fn row(published: f64, ours: f64) -> Row {
        Row {
            modelled: Sides::paired(&[100.0], &[100.0 + ours], Unit::Count, None),
            ..KEY.row("e", Unit::Count, None).published(Published::change(published, "", ""))
        }
    }

    fn judged(rows: Vec<Row>, quick: bool) -> (Vec<Agreement>, Verdict) {
        let plan = Plan::new(1, quick);
        let mut results = Results { rows, ..Results::default() };
        judge(&mut results, &plan);
        let agreements = results.rows.iter().filter_map(|row| row.agreement).collect();
        (agreements, verdict(&[results], &plan))
    }

    #[test]
    fn same_sign_and_within_a_factor_of_three() {
        for (published, ours, agrees) in [
            (4.3, 4.3, true),
            (4.3, 12.8, true),
            (4.3, 13.0, false),
            (4.3, 1.5, true),
            (4.3, 1.4, false),
            (4.3, -4.3, false),
            (-80.5, -60.0, true),
            (4.3, 0.0, false),
            (0.0, 0.0, true),
            (0.0, 0.1, false),
        ] {
            let (agreements, verdict) = judged(vec![row(published, ours)], false);
            let expected = if agrees { Agreement::Agrees } else { Agreement::Disagrees };
            assert_eq!(agreements, [expected], "{published} and {ours}");
            assert_eq!(verdict.passed, agrees);
        }
    }

    #[test]
    fn figures_better_than_a_kernel_to_be_reached_agree() {
        let row = |against, better, ours: f64| Row {
            measured: Sides::paired(&[1.0], &[ours], Unit::Ratio, Some(better)),
            ..KEY
                .row("e", Unit::Ratio, Some(better))
                .kernel(None, 1.0, "")
                .judged(Quantity::After, against)
        };
        for (against, better, ours, agrees) in [
            (Reference::KernelOrBetter, Better::Lower, 0.1, true),
            (Reference::KernelOrBetter, Better::Lower, 3.1, false),
            (Reference::KernelOrBetter, Better::Higher, 10.0, true),
            (Reference::KernelOrBetter, Better::Higher, 0.3, false),
            (Reference::Kernel, Better::Lower, 0.1, false),
            (Reference::Kernel, Better::Higher, 10.0, false),
        ] {
            let (_, verdict) = judged(vec![row(against, better, ours)], false);
            assert_eq!(verdict.passed, agrees, "{against:?}, {better:?}, {ours}");
        }
    }

    #[test]
    fn figures_below_the_resolution_are_zero() {
        let fine = Row { resolution: 0.5, ..row(0.0, 0.4) };
        assert_eq!(judged(vec![fine], false).0, [Agreement::Agrees]);
    }

    #[test]
    fn fitted_and_shown_rows_are_not_judged() {
        let fitted = row(4.0, -4.0).role(Role::Fitted("it".into()));
        let shown = row(4.0, -4.0).role(Role::Shown("nothing".into()));
        let (agreements, verdict) = judged(vec![fitted.clone(), shown, row(4.0, 4.0)], false);
        assert_eq!(agreements[..2], [Agreement::NotJudged; 2]);
        assert!(verdict.passed && verdict.checks.len() == 1);
        let (_, verdict) = judged(vec![fitted], false);
        assert!(!verdict.passed, "the verdict passed although no row was judged: {verdict:?}");
    }

    #[test]
    fn a_row_without_a_figure_of_ours_fails() {
        let missing = Row { modelled: None, ..row(4.0, 4.0) };
        let (agreements, verdict) = judged(vec![missing, row(4.0, 4.0)], false);
        assert_eq!(agreements, [Agreement::Missing, Agreement::Agrees]);
        assert!(!verdict.passed);
    }

    #[test]
    fn a_quick_run_judges_nothing_and_fails_nothing() {
        let (agreements, verdict) = judged(vec![row(4.0, -4.0)], true);
        assert_eq!(agreements, [Agreement::NotJudged]);
        assert!(verdict.passed && verdict.checks.is_empty());
        assert!(verdict.words.starts_with("not judged"), "{verdict:?}");
    }

    #[test]
    fn the_verdict_starts_with_yes_or_no() {
        let words = |ours: f64| judged(vec![row(4.0, ours)], false).1.words;
        assert!(words(4.0).starts_with("yes: 1 of 1 judged rows agree"), "{}", words(4.0));
        assert!(words(-4.0).starts_with("NO: 0 of 1 judged rows agree"), "{}", words(-4.0));
    }

    #[test]
    fn a_count_is_judged_against_a_running_kernel() {
        let counted = |before: f64| Row {
            measured: Sides::paired(&[before], &[0.0], Unit::Ratio, None),
            ..KEY
                .row("e", Unit::Ratio, None)
                .kernel(0.99, 0.0, "6.1, 6.12")
                .judged(Quantity::Before, Reference::Kernel)
        };
        assert_eq!(judged(vec![counted(1.02)], false).0, [Agreement::Agrees]);
        let (agreements, verdict) = judged(vec![counted(0.2)], false);
        assert_eq!(agreements, [Agreement::Disagrees]);
        assert_eq!(
            verdict.checks[0].detail, "before: a running kernel 0.9900, measured 0.2000",
            "{verdict:?}"
        );
    }

    #[test]
    fn the_band_spans_the_effects_of_parameters_and_names_the_strongest() {
        let spec = Spec::preset("skx-2s-112").unwrap();
        let figure = |spec: &Spec| {
            let latency = &spec.costs().latency;
            Ok(latency.modified_remote as f64 - latency.dram_local as f64)
        };
        let keys = ["latency.dram_local", "latency.modified_remote", "latency.l1"];
        let as_is = figure(&spec).unwrap();
        let found = band(&spec, &keys, as_is, figure).unwrap().unwrap();
        assert_eq!((found.least, found.greatest), (-5.0, 145.0));
        assert_eq!(found.by, "latency.modified_remote");
        assert_eq!(band(&spec, &[], as_is, figure).unwrap(), None);
        let error = band(&spec, &["latency.l9"], as_is, figure).unwrap_err().to_string();
        assert!(error.contains("'latency.l1'"), "{error}");
    }
}
