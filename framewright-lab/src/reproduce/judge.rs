//! Judges whether a figure agrees with a published one: same sign, and within a factor of three. If
//! the counts of a running kernel are a goal, a better figure also agrees.
//!
//! Such a rule discriminates little where all machines have similar figures. So each judgement shows its factor and what a
//! constant would get, and the order of the machines is judged too.

use super::{
    Plan,
    results::{Key, Results},
};
use crate::report::{
    Agreement, Better, Check, Constant, Judgement, Metric, Published, Quantity, Reference, Role,
    Row, Sides, Unit, Verdict,
};

/// The maximum ratio of agreeing figures.
const FACTOR: f64 = 3.0;

/// Judges every quantity of `results`; none of a quick run. Appends a row for each order of machines.
pub fn judge(results: &mut Results, plan: &Plan) {
    let constants: Vec<Vec<Option<Constant>>> =
        results.rows.iter().map(|row| constants_of(row, &results.rows)).collect();
    for (row, constants) in results.rows.iter_mut().zip(constants) {
        let mut judgements = std::mem::take(&mut row.judgements);
        for (judgement, constant) in judgements.iter_mut().zip(constants) {
            let figures = (reference(row, judgement), our_figure(row, judgement.by));
            judgement.agreement = Some(agreement(row, judgement, figures, plan));
            judgement.factor = figures
                .0
                .zip(figures.1)
                .map(|(theirs, ours)| ours / theirs)
                .filter(|it| it.is_finite());
            judgement.constant = constant;
        }
        row.judgements = judgements;
    }
    let orders = orders(&results.rows, plan);
    results.rows.extend(orders);
}

/// The verdict over all judged rows and further checks. An experiment without a judged row fails; so does one that could
/// not measure all of its rows, whose verdict is *incomplete*.
pub fn verdict(results: &[Results], plan: &Plan) -> Verdict {
    let mut checks: Vec<Check> = Vec::new();
    for results in results {
        let judged = results.rows.iter().flat_map(checks_of);
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
    let incomplete = !plan.quick && results.iter().any(|results| results.incomplete);
    let word = match (verdict.passed, incomplete) {
        (false, _) => "NO",
        (true, true) => "incomplete",
        (true, false) => "yes",
    };
    let words = sentence(&rows, plan, word);
    Verdict { words, passed: verdict.passed && !incomplete, ..verdict }
}

/// The verdict in words.
fn sentence(rows: &[&Row], plan: &Plan, word: &str) -> String {
    if plan.quick {
        return "not judged with --quick".into();
    }
    let judgements = || rows.iter().flat_map(|row| &row.judgements);
    let count = |which: &[Agreement]| {
        judgements().filter(|it| it.agreement.is_some_and(|it| which.contains(&it))).count()
    };
    let agreeing = count(&[Agreement::Agrees]);
    let judged = agreeing + count(&[Agreement::Disagrees, Agreement::Missing]);
    let reached = judgements().any(|it| it.against == Reference::KernelOrBetter);
    let rule = match reached {
        true => "same sign, within a factor of three, or better than a running kernel",
        false => "same sign, within a factor of three",
    };
    format!(
        "{word}: {agreeing} of {judged} judged figures agree ({rule}){}; {}",
        of_constants(judgements()),
        match plan.seeds.len() {
            1 => "one seed".to_owned(),
            seeds => format!("{seeds} seeds"),
        }
    )
}

/// The number of judged figures that a constant would have predicted, as a part of the verdict.
fn of_constants<'r>(judgements: impl Iterator<Item = &'r Judgement>) -> String {
    let constants: Vec<Constant> = judgements
        .filter(|it| it.agreement != Some(Agreement::NotJudged))
        .filter_map(|it| it.constant)
        .collect();
    let agreeing = constants.iter().filter(|constant| constant.agrees).count();
    match constants.len() {
        0 => String::new(),
        all => format!(
            "; a model that knows only the other machines would agree in {agreeing} of {all}"
        ),
    }
}

/// The judged quantities of the row as checks.
fn checks_of(row: &Row) -> impl Iterator<Item = Check> {
    row.judgements.iter().filter_map(|judgement| {
        let (passed, detail) = match judgement.agreement? {
            Agreement::NotJudged => return None,
            Agreement::Missing => {
                (false, row.unsteady.clone().unwrap_or("no figure of this library".into()))
            }
            agreement => (agreement == Agreement::Agrees, detail(row, judgement)),
        };
        Some(Check { name: format!("{}, {}", row.experiment, row.key()), passed, detail })
    })
}

fn detail(row: &Row, judgement: &Judgement) -> String {
    let what = match judgement.by {
        Quantity::Before => "before",
        Quantity::After => "after",
        Quantity::Change => "change in percent",
    };
    let whose = match judgement.against {
        Reference::Published => "published",
        Reference::Kernel => "a running kernel",
        Reference::KernelOrBetter => "a running kernel, or better",
    };
    let ours = if row.modelled.is_some() { "modelled" } else { "measured" };
    let figure =
        |figure: Option<f64>| figure.map_or("nothing".into(), |figure| format!("{figure:.4}"));
    let theirs = figure(reference(row, judgement));
    let figure_of_ours = figure(our_figure(row, judgement.by));
    format!("{what}: {whose} {theirs}, {ours} {figure_of_ours}")
}

/// The agreement of a reference and our figure.
fn agreement(
    row: &Row,
    judgement: &Judgement,
    figures: (Option<f64>, Option<f64>),
    plan: &Plan,
) -> Agreement {
    if plan.quick || judgement.role != Role::Predicted {
        return Agreement::NotJudged;
    }
    match figures {
        (None, _) => Agreement::NotJudged,
        (_, None) => Agreement::Missing,
        (Some(theirs), Some(ours))
            if agree(theirs, ours, row.resolution) || is_better(row, judgement, theirs, ours) =>
        {
            Agreement::Agrees
        }
        _ => Agreement::Disagrees,
    }
}

/// Whether the judgement accepts better figures than the reference, and ours is better.
fn is_better(row: &Row, judgement: &Judgement, theirs: f64, ours: f64) -> bool {
    judgement.against == Reference::KernelOrBetter
        && match row.better {
            Some(Better::Lower) => ours < theirs,
            Some(Better::Higher) => ours > theirs,
            None => false,
        }
}

/// Whether two rows have the same figure, on one machine or on two.
fn have_one_figure(one: &Row, other: &Row) -> bool {
    Key { machine: "", ..one.key() } == Key { machine: "", ..other.key() }
}

/// For each judgement of the row, what the median of the other machines' references would get.
fn constants_of(row: &Row, rows: &[Row]) -> Vec<Option<Constant>> {
    let constant = |judgement: &Judgement| {
        let theirs = reference(row, judgement)?;
        let others =
            rows.iter().filter(|other| other.machine != row.machine && have_one_figure(row, other));
        let others: Vec<f64> = others.filter_map(|other| reference(other, judgement)).collect();
        let value = Metric::of_rounds(&others, row.unit, None)?.median;
        Some(Constant { value, agrees: agree(theirs, value, row.resolution) })
    };
    row.judgements.iter().map(constant).collect()
}

/// The machines of a figure in the order of their values: a row for each figure that is published for at least
/// [`MACHINES`] machines. Its value is Kendall's rank correlation: 1 for the same order, -1 for the reverse.
fn orders(rows: &[Row], plan: &Plan) -> Vec<Row> {
    let mut orders = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if rows[..at].iter().any(|before| have_one_figure(before, row)) {
            continue;
        }
        for (by, word) in [(Quantity::Before, "before"), (Quantity::Change, "change")] {
            let judgement = Judgement::new(by, Reference::Published);
            let same = rows.iter().filter(|other| have_one_figure(row, other));
            let pairs: Vec<(f64, f64)> = same
                .filter_map(|row| reference(row, &judgement).zip(our_figure(row, by)))
                .collect();
            if pairs.len() >= MACHINES {
                orders.push(order(row, word, &pairs, plan));
            }
        }
    }
    orders
}

/// The minimum number of machines whose order is judged.
const MACHINES: usize = 3;

fn order(row: &Row, word: &str, pairs: &[(f64, f64)], plan: &Plan) -> Row {
    let correlation = rank_correlation(pairs);
    let metric = format!("{}_{word}_order", row.metric);
    let machine = format!("{} machines", pairs.len());
    let key = Key { machine: &machine, metric: &metric, ..row.key() };
    let ours = Sides::alone(&[correlation], Unit::Ratio, None);
    let theirs = row.published.as_ref();
    let source = theirs.map_or("", |published| &published.source);
    let published = Published::before(1.0, "the order of these machines", source);
    let mut order = key.row(&row.experiment, Unit::Ratio, None).published(published);
    match row.modelled.is_some() {
        true => order.modelled = ours,
        false => order.measured = ours,
    }
    let agreement = match correlation >= LEAST_CORRELATION {
        _ if plan.quick => Agreement::NotJudged,
        true => Agreement::Agrees,
        false => Agreement::Disagrees,
    };
    let judgement = Judgement::new(Quantity::Before, Reference::Published);
    order.judgements = vec![Judgement { agreement: Some(agreement), ..judgement }];
    order
}

/// Orders agree from this correlation on: one of six pairs may be reversed. A random order of four machines reaches it
/// with a probability of one sixth.
const LEAST_CORRELATION: f64 = 0.66;

/// Kendall's rank correlation: pairs in the same order less pairs in the reverse order, divided by all pairs.
fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let mut sum = 0.0;
    for (at, one) in pairs.iter().enumerate() {
        for other in &pairs[..at] {
            let product = (one.0 - other.0) * (one.1 - other.1);
            sum += if product == 0.0 { 0.0 } else { product.signum() };
        }
    }
    let all = pairs.len() * (pairs.len() - 1) / 2;
    sum / all as f64
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
fn reference(row: &Row, judgement: &Judgement) -> Option<f64> {
    let (before, after, change) = match judgement.against {
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
    pick(judgement.by, before, after, change)
}

/// The judged figure: the modelled, or else the measured.
fn our_figure(row: &Row, by: Quantity) -> Option<f64> {
    let Sides { before, after, change_pct } = row.modelled.as_ref().or(row.measured.as_ref())?;
    let median = |metric: &Option<Metric>| metric.as_ref().map(|metric| metric.median);
    if row.unsteady.is_some() && by != Quantity::Change {
        return None;
    }
    pick(by, Some(before.median), median(after), median(change_pct))
}

fn pick<T>(by: Quantity, before: T, after: T, change: T) -> T {
    match by {
        Quantity::Before => before,
        Quantity::After => after,
        Quantity::Change => change,
    }
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
        let judgements = results.rows.iter().flat_map(|row| &row.judgements);
        let agreements = judgements.filter_map(|judgement| judgement.agreement).collect();
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
        let shown = Row { metric: "y".into(), ..shown };
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
    fn an_unsteady_row_has_no_level_but_a_change() {
        let both = Row {
            unsteady: Some("seeds differ by 9 %".into()),
            ..row(4.0, 4.0)
                .published(Published::sides(100.0, 104.0, "", ""))
                .also(Quantity::Before, Role::Predicted)
        };
        let (agreements, verdict) = judged(vec![both], false);
        assert_eq!(agreements, [Agreement::Agrees, Agreement::Missing]);
        assert!(
            verdict.checks.iter().any(|check| check.detail == "seeds differ by 9 %"),
            "{verdict:?}"
        );
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
        assert!(words(4.0).starts_with("yes: 1 of 1 judged figures agree"), "{}", words(4.0));
        assert!(words(-4.0).starts_with("NO: 0 of 1 judged figures agree"), "{}", words(-4.0));
    }

    #[test]
    fn a_verdict_without_a_measurement_is_incomplete() {
        let of = |ours, incomplete, quick| {
            let plan = Plan::new(1, quick);
            let mut results =
                Results { rows: vec![row(4.0, ours)], incomplete, ..Results::default() };
            judge(&mut results, &plan);
            verdict(&[results], &plan)
        };
        let verdict = of(4.0, true, false);
        assert!(verdict.words.starts_with("incomplete: 1 of 1"), "{verdict:?}");
        assert!(!verdict.passed);
        assert!(of(-4.0, true, false).words.starts_with("NO"));
        assert!(of(4.0, true, true).passed, "a quick run measures nothing");
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

    /// Rows of one figure on four machines: published changes, and ours.
    fn machines(figures: [(f64, f64); 4]) -> Vec<Row> {
        let named = |(at, (theirs, ours))| Row { machine: format!("m{at}"), ..row(theirs, ours) };
        figures.into_iter().enumerate().map(named).collect()
    }

    #[test]
    fn a_constant_is_the_median_of_the_other_machines() {
        let mut results = Results {
            rows: machines([(4.0, 4.0), (5.0, 5.0), (6.0, 6.0), (60.0, 60.0)]),
            ..Results::default()
        };
        judge(&mut results, &Plan::new(1, false));
        let constants: Vec<(f64, bool)> = results.rows[..4]
            .iter()
            .map(|row| row.judgements[0].constant.unwrap())
            .map(|constant| (constant.value, constant.agrees))
            .collect();
        assert_eq!(constants, [(6.0, true), (6.0, true), (5.0, true), (5.0, false)]);
        assert_eq!(results.rows[0].judgements[0].factor, Some(1.0));
        let words = verdict(&[results], &Plan::new(1, false)).words;
        assert!(words.contains("knows only the other machines would agree in 3 of 4"), "{words}");
    }

    #[test]
    fn a_figure_of_one_machine_has_no_constant_and_no_order() {
        let mut results = Results { rows: vec![row(4.0, 4.0)], ..Results::default() };
        judge(&mut results, &Plan::new(1, false));
        assert_eq!(results.rows.len(), 1);
        assert_eq!(results.rows[0].judgements[0].constant, None);
    }

    #[test]
    fn the_order_of_machines_is_a_row_of_its_own() {
        for (ours, correlation, agrees) in [
            ([1.0, 2.0, 3.0, 4.0], 1.0, true),
            ([1.0, 2.0, 4.0, 3.0], 2.0 / 3.0, true),
            ([2.0, 1.0, 4.0, 3.0], 1.0 / 3.0, false),
            ([4.0, 3.0, 2.0, 1.0], -1.0, false),
            ([2.0, 2.0, 2.0, 2.0], 0.0, false),
        ] {
            let theirs = [1.0, 2.0, 3.0, 4.0];
            let figures = std::array::from_fn(|at| (theirs[at], ours[at]));
            let mut results = Results { rows: machines(figures), ..Results::default() };
            judge(&mut results, &Plan::new(1, false));
            let order = results.rows.last().unwrap();
            assert_eq!((&*order.machine, &*order.metric), ("4 machines", "x_change_order"));
            assert_eq!(order.modelled.as_ref().unwrap().before.median, correlation, "{ours:?}");
            let agreement = order.judgements[0].agreement.unwrap();
            assert_eq!(agreement == Agreement::Agrees, agrees, "{ours:?}");
        }
    }

    #[test]
    fn each_quantity_has_its_own_role() {
        let both = Row {
            modelled: Sides::paired(&[10.0], &[5.0], Unit::Count, None),
            ..KEY
                .row("e", Unit::Count, None)
                .published(Published::sides(100.0, 50.0, "", ""))
                .also(Quantity::Before, Role::Fitted("it".into()))
        };
        let (agreements, verdict) = judged(vec![both], false);
        assert_eq!(agreements, [Agreement::Agrees, Agreement::NotJudged]);
        assert!(verdict.passed && verdict.checks.len() == 1);
    }
}
