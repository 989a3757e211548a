//! Runs side by side, in the form that developers of memory managers know.
//!
//! ```text
//!                  before             after
//! Mean   27.50 (   0.00%)  48.10 (  74.91%)
//! ```
//!
//! The first run is the baseline. A percentage is a *gain*: positive is better, even if lower
//! figures are better. Beyond 1000 % the ratio is shown: `-21.75x` is 21.75 times worse. If the baseline is zero, the
//! difference is shown: `+1576`.

use super::{
    Better, Metric, Run, Unit,
    number::{BYTES, COUNTS, decimal, scaled, scaled_nanos},
    table::{Style, Table, Tone},
};

/// Explains the percentages; shown with every comparison.
pub const HEADER_NOTE: &str = "(percent: gain over the first column, positive is better; from 1000 % on: ratio; over zero: difference)";

/// Smaller differences are shown without colour.
const COLOURED_PERCENT: f64 = 1.0;

/// Larger gains and losses are shown as ratios: a percentage of that size is hard to read.
const RATIO_PERCENT: f64 = 1000.0;

/// A table of metrics, one column per run.
#[derive(Clone, Debug)]
pub struct Comparison<'r> {
    judged: Vec<&'r Run>,
    beside: Vec<&'r Run>,
}

impl<'r> Comparison<'r> {
    /// Compares `runs` with the first of them.
    pub fn of(runs: impl IntoIterator<Item = &'r Run>) -> Self {
        Self { judged: runs.into_iter().collect(), beside: Vec::new() }
    }

    /// Shows `runs` without judging any.
    pub fn values(runs: impl IntoIterator<Item = &'r Run>) -> Self {
        Self { judged: Vec::new(), beside: runs.into_iter().collect() }
    }

    /// Adds a column that is shown but not judged.
    #[must_use]
    pub fn beside(mut self, run: &'r Run) -> Self {
        self.beside.push(run);
        self
    }

    /// The table of the metrics called `names` (those that no run has are left out).
    pub fn table<'n>(&self, names: impl IntoIterator<Item = &'n str>, style: Style) -> Table {
        let columns = self.judged.iter().chain(&self.beside);
        let mut table = Table::new(
            std::iter::once("").chain(columns.clone().map(|run| run.label.as_str())),
            style,
        );
        for name in names {
            if columns.clone().any(|run| run.metrics.contains_key(name)) {
                self.row(&mut table, name);
            }
        }
        table
    }

    fn row(&self, table: &mut Table, name: &str) {
        let base = self.judged.first().and_then(|run| run.metrics.get(name));
        let mut cells = vec![(self.label(name).to_owned(), Tone::Plain)];
        for run in &self.judged {
            cells.push(match (run.metrics.get(name), base) {
                (None, _) => (String::new(), Tone::Plain),
                (Some(metric), Some(base)) if self.judged.len() > 1 => judged(metric, base),
                (Some(metric), _) => (value(metric), Tone::Plain),
            });
        }
        for run in &self.beside {
            cells.push((run.metrics.get(name).map(value).unwrap_or_default(), Tone::Plain));
        }
        table.row(cells);
    }

    /// The name of a figure in tables.
    fn label<'n>(&self, name: &'n str) -> &'n str {
        let metric = self.judged.iter().chain(&self.beside).find_map(|run| run.metrics.get(name));
        metric.map_or(name, |metric| label(name, metric))
    }
}

/// The name of a figure in tables. The unit of times is in the cells, because it is scaled there.
pub(crate) fn label<'n>(name: &'n str, metric: &Metric) -> &'n str {
    const SUFFIXES: [&str; 3] = ["_ns", "_ms", "_s"];
    let stripped = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
    stripped.filter(|_| nanos(metric).is_some()).unwrap_or(name)
}

/// The gain of `new` over `base` in percent: positive is better. `None` if only the baseline is
/// zero.
pub fn gain_percent(new: f64, base: f64, better: Better) -> Option<f64> {
    if new == base {
        return Some(0.0);
    }
    if base == 0.0 {
        return None;
    }
    let change = new * 100.0 / base - 100.0;
    Some(match better {
        Better::Higher => change,
        Better::Lower => -change,
    })
}

/// The median of a figure as text, with its unit.
pub(crate) fn value(metric: &Metric) -> String {
    if let Some(nanos) = nanos(metric) {
        return scaled_nanos(nanos);
    }
    let with_unit = |units| {
        let (value, unit) = scaled(metric.median, units);
        format!("{value} {unit}").trim_end().to_owned()
    };
    match metric.unit {
        Unit::PerSecond => with_unit(&COUNTS),
        Unit::Bytes => with_unit(&BYTES),
        Unit::BytesPerSecond => format!("{}/s", with_unit(&BYTES)),
        Unit::Percent => format!("{}%", decimal(metric.median, 2)),
        _ => decimal(metric.median, decimals(metric)),
    }
}

/// A time in nanoseconds; `None` for other units.
fn nanos(metric: &Metric) -> Option<f64> {
    let factor = match metric.unit {
        Unit::Nanos => 1.0,
        Unit::Millis => 1e6,
        Unit::Seconds => 1e9,
        _ => return None,
    };
    Some(metric.median * factor)
}

fn decimals(metric: &Metric) -> usize {
    match metric.unit {
        // A mean or median of small counts. For large counts, a fraction is insignificant.
        Unit::Count if metric.median.fract() != 0.0 && metric.median.abs() < 100.0 => 2,
        unit => unit.decimals(),
    }
}

fn judged(metric: &Metric, base: &Metric) -> (String, Tone) {
    let value = value(metric);
    match change(metric, base) {
        Some((change, tone)) => (format!("{value} ({change:>8})"), tone),
        None => (format!("{value} {:10}", ""), Tone::Plain),
    }
}

/// The gain of `metric` over `base` as text, and whether it is good. `None` if neither direction is better.
pub(crate) fn change(metric: &Metric, base: &Metric) -> Option<(String, Tone)> {
    let better = metric.better?;
    Some(match gain_percent(metric.median, base.median, better) {
        Some(gain) if gain == 0.0 || !is_shown_as_zero(base) => {
            (gain_text(metric, base, gain), tone(gain))
        }
        gain => (
            difference(metric, base),
            gain.map_or_else(|| tone_of_difference(metric, base, better), tone),
        ),
    })
}

/// The difference of `metric` and `base`, with a sign: a gain over zero is no number. Differences of percentages are
/// percentage points.
fn difference(metric: &Metric, base: &Metric) -> String {
    let difference = Metric::once(metric.median - base.median, metric.unit, None);
    let text = value(&difference);
    let text = if metric.unit == Unit::Percent { text.replace('%', " pp") } else { text };
    if text.starts_with('-') { text } else { format!("+{text}") }
}

/// The tone of a figure whose baseline is zero.
fn tone_of_difference(metric: &Metric, base: &Metric, better: Better) -> Tone {
    match (metric.median > base.median) == (better == Better::Higher) {
        _ if is_shown_as_zero(metric) => Tone::Plain,
        true => Tone::Good,
        false => Tone::Bad,
    }
}

/// Whether the digits of `metric` in a table are all zero. A gain over such a figure is noise.
fn is_shown_as_zero(metric: &Metric) -> bool {
    const SCALED: f64 = 0.005;
    match (nanos(metric), metric.unit) {
        (Some(nanos), _) => nanos.abs() < SCALED,
        (None, Unit::PerSecond | Unit::Bytes | Unit::BytesPerSecond) => {
            metric.median.abs() < SCALED
        }
        (None, _) => metric.median.abs() * 10_f64.powi(decimals(metric) as i32) < 0.5,
    }
}

/// `gain` in percent, or, if that is a large number, the ratio of `metric` and `base`, negative if
/// `metric` is worse.
fn gain_text(metric: &Metric, base: &Metric, gain: f64) -> String {
    if gain.abs() < RATIO_PERCENT {
        return format!("{}%", decimal(gain, 2));
    }
    let ratio = (metric.median / base.median).copysign(gain);
    let decimals = match ratio.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        _ => 2,
    };
    format!("{}x", decimal(ratio, decimals))
}

fn tone(gain: f64) -> Tone {
    if gain >= COLOURED_PERCENT {
        Tone::Good
    } else if gain <= -COLOURED_PERCENT {
        Tone::Bad
    } else {
        Tone::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(label: &str, mean: f64, waits: f64) -> Run {
        let mut run = Run { label: label.into(), ..Run::default() };
        run.metrics.insert("Mean".into(), Metric::once(mean, Unit::Nanos, Some(Better::Higher)));
        run.metrics.insert("Waits".into(), Metric::once(waits, Unit::Count, Some(Better::Lower)));
        run.metrics.insert("Events".into(), Metric::once(7.0, Unit::Count, None));
        run
    }

    fn text(comparison: &Comparison<'_>) -> Vec<String> {
        let table = comparison.table(["Mean", "Waits", "Nothing", "Events"], Style::Plain);
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn positive_is_better_both_ways() {
        let (before, after) = (run("before", 27.5, 200.0), run("after", 48.1, 50.0));
        let lines = text(&Comparison::of([&before, &after]));
        assert!(lines[1].ends_with("27.5 ns (   0.00%)  48.1 ns (  74.91%)"), "{lines:#?}");
        assert!(lines[2].ends_with("  200 (   0.00%)       50 (  75.00%)"), "{lines:#?}");
    }

    #[test]
    fn figures_have_only_significant_digits() {
        let shown = |median, unit| value(&Metric::once(median, unit, None));
        let counts = [7.0, 7.5, 4144.5].map(|it| shown(it, Unit::Count));
        assert_eq!(counts, ["7", "7.50", "4144"]);
        let nanos = [7.25, 752.0, 24_093_216.0].map(|it| shown(it, Unit::Nanos));
        assert_eq!(nanos, ["7.25 ns", "752 ns", "24.1 ms"]);
        assert_eq!(shown(0.000_886, Unit::Seconds), "886 µs");
        assert_eq!(shown(12.5, Unit::Millis), "12.5 ms");
        let rates = [45_626_058.0, 401_909.0, 9000.0, 0.5].map(|it| shown(it, Unit::PerSecond));
        assert_eq!(rates, ["45.6 M", "402 k", "9.00 k", "0.50"]);
        let bytes = [512.0, 3_145_728.0].map(|it| shown(it, Unit::Bytes));
        assert_eq!(bytes, ["512 bytes", "3.00 MiB"]);
        assert_eq!(shown(2048.0, Unit::BytesPerSecond), "2.00 KiB/s");
    }

    #[test]
    fn a_large_gain_is_a_ratio_and_one_over_a_figure_shown_as_zero_is_none() {
        let shown = |new, base, unit, better| {
            let [new, base] = [new, base].map(|it| Metric::once(it, unit, Some(better)));
            judged(&new, &base).0
        };
        assert_eq!(shown(4503.0, 207.0, Unit::Count, Better::Lower), "4503 ( -21.75x)");
        assert_eq!(shown(4503.0, 207.0, Unit::Count, Better::Higher), "4503 (  21.75x)");
        assert_eq!(shown(315.0, 69.0, Unit::Count, Better::Lower), "315 (-356.52%)");
        assert_eq!(shown(40.42, 0.17, Unit::Percent, Better::Lower), "40.42% ( -237.8x)");
        assert_eq!(shown(3.3, 0.002, Unit::Percent, Better::Lower), "3.30% (+3.30 pp)");
        assert_eq!(shown(1576.0, 0.0, Unit::Count, Better::Lower), "1576 (   +1576)");
        assert_eq!(shown(2e6, 0.0, Unit::Nanos, Better::Lower), "2.00 ms (+2.00 ms)");
        assert_eq!(shown(0.0, 0.0, Unit::Percent, Better::Lower), "0.00% (   0.00%)");
    }

    #[test]
    fn the_unit_of_times_is_in_the_cells_and_not_in_the_name() {
        let mut slow = Run::default();
        slow.metrics.insert("stall_max_ns".into(), Metric::once(63_762.0, Unit::Nanos, None));
        let table = Comparison::of([&slow]).table(["stall_max_ns"], Style::Plain).to_string();
        assert!(table.lines().any(|line| line == "stall_max  63.8 µs"), "{table}");
    }

    #[test]
    fn one_run_has_no_percentages_and_a_column_beside_none_either() {
        let (only, kernel) = (run("only", 1.0, 2.0), run("kernel", 3.0, 4.0));
        let lines = text(&Comparison::of([&only]).beside(&kernel));
        assert!(lines.iter().all(|line| !line.contains('%')), "{lines:#?}");
        assert!(lines[1].ends_with("1.00 ns  3.00 ns"), "{lines:#?}");
    }

    #[test]
    fn metrics_that_no_run_has_are_left_out() {
        let only = run("only", 1.0, 2.0);
        let lines = text(&Comparison::of([&only]));
        assert_eq!(lines.len(), 4, "{lines:#?}");
    }

    #[test]
    fn a_baseline_of_zero_has_no_percentage() {
        assert_eq!(gain_percent(0.0, 0.0, Better::Lower), Some(0.0));
        assert_eq!(gain_percent(5.0, 0.0, Better::Lower), None);
        assert_eq!(gain_percent(5.0, 10.0, Better::Lower), Some(50.0));
        assert_eq!(gain_percent(5.0, 10.0, Better::Higher), Some(-50.0));
    }
}
