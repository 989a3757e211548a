//! A figure of a sweep by the values of one setting: means over seeds with confidence intervals, as a table and a
//! picture.

use std::{collections::HashSet, path::Path};

use framewright_sim::toml_file::hint;
use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, de::IntoDeserializer, de::value::Error as NameError};

use super::table::{self, FAILED, FIGURES};
use crate::{
    Error,
    plot::{Axis, Line, Panel, Plot},
    report::{Better, Metric, Point, Style, Table, Unit, mean_interval, value},
};

/// The text of a setting that a run does not have.
const ABSENT: &str = "-";
/// The column whose values have a panel each in the picture.
const MACHINE: &str = "machine";

/// A figure by the values of one setting.
#[derive(Clone, Debug)]
pub struct Compared {
    by: String,
    figure: String,
    unit: Unit,
    better: Option<Better>,
    /// The other columns in which runs differ.
    columns: Vec<String>,
    /// The values of the setting.
    values: Vec<String>,
    groups: Vec<Group>,
    /// Runs that failed and have no figures.
    failed: u64,
}

/// Runs that differ in the compared setting and the seed only.
#[derive(Clone, Debug)]
struct Group {
    cells: Vec<String>,
    /// One for each value of the setting; `None` if there is no such run.
    means: Vec<Option<Mean>>,
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mean {
    mean: f64,
    /// Half of the 95 % confidence interval; 0 with one seed.
    half: f64,
}

/// The values of the figure: by the other columns, then by the setting, one for each seed.
type Found = IndexMap<Vec<String>, IndexMap<String, Vec<f64>>>;

/// Reads the table at `path`.
///
/// # Errors
///
/// The table cannot be read, or lacks the column or the figure. The error suggests the most similar name.
pub fn compare(path: &Path, by: &str, figure: &str) -> Result<Compared, Error> {
    let fail = |reason: String| Error::input(format_args!("'{}': {reason}", path.display()));
    let header = table::header(path)?;
    let columns: Vec<(usize, String)> =
        header.settings().map(|(at, name)| (at, name.to_owned())).collect();
    let Some((by_at, _)) = columns.iter().find(|(_, name)| name == by).cloned() else {
        let names = columns.iter().map(|(_, name)| name.as_str());
        return Err(fail(format!("--by {by}: no runs differ in it{}", hint(by, names))));
    };
    let others: Vec<(usize, String)> = columns.into_iter().filter(|it| it.0 != by_at).collect();
    let (mut found, mut names, mut kind, mut failed) = (Found::new(), IndexSet::new(), None, 0_u64);
    let mut runs = HashSet::new();
    table::read(path, &mut |header, row| {
        let this = header.figure(row)?;
        failed += u64::from(this.name == FAILED);
        if this.name == figure {
            let run = header.run(row);
            if !runs.insert(run.to_owned()) {
                return Err(format!("run {run} has the figure a second time"));
            }
            let text = |at: usize| if row[at].is_empty() { ABSENT } else { &row[at] }.to_owned();
            let group = others.iter().map(|(at, _)| text(*at)).collect();
            let values = found.entry(group).or_default().entry(text(by_at)).or_default();
            values.push(this.value);
            kind.get_or_insert((this.unit, this.better));
        } else if this.name != FIGURES && !names.contains(&this.name) {
            names.insert(this.name);
        }
        Ok(())
    })?;
    let Some((unit, better)) = kind else {
        let hint = hint(figure, names.iter().map(String::as_str));
        return Err(fail(format!("--figure {figure}: there is no such figure{hint}")));
    };
    let unit = named::<Unit>(&unit).ok_or_else(|| fail(format!("there is no unit '{unit}'")))?;
    let values = sorted(found.values().flat_map(IndexMap::keys).cloned().collect());
    let differs = |at: &usize| {
        found.keys().any(|key| Some(&key[*at]) != found.keys().next().map(|it| &it[*at]))
    };
    let shown: Vec<usize> = (0..others.len()).filter(differs).collect();
    let group = |(cells, means): (&Vec<String>, &IndexMap<String, Vec<f64>>)| Group {
        cells: shown.iter().map(|at| cells[*at].clone()).collect(),
        means: values.iter().map(|value| means.get(value).map(|it| Mean::of(it))).collect(),
    };
    Ok(Compared {
        by: by.to_owned(),
        figure: figure.to_owned(),
        unit,
        better: named(&better),
        columns: shown.iter().map(|at| others[*at].1.clone()).collect(),
        groups: found.iter().map(group).collect(),
        values,
        failed,
    })
}

/// The unit or direction of this name.
fn named<'n, T: Deserialize<'n>>(name: &'n str) -> Option<T> {
    let name: serde::de::value::StrDeserializer<'n, NameError> = name.into_deserializer();
    T::deserialize(name).ok()
}

/// The values in the order of their numbers, or in the order of the table if they are no numbers.
fn sorted(values: IndexSet<String>) -> Vec<String> {
    let mut values: Vec<String> = values.into_iter().collect();
    if let Some(numbers) = numbers(&values) {
        let mut both: Vec<(f64, String)> = numbers.into_iter().zip(values).collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        values = both.into_iter().map(|(_, value)| value).collect();
    }
    values
}

fn numbers(values: &[String]) -> Option<Vec<f64>> {
    values.iter().map(|value| value.parse().ok()).collect()
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let only = values.first().copied().unwrap_or(f64::NAN);
        let (mean, half) = mean_interval(values).unwrap_or((only, 0.0));
        Self { mean, half }
    }

    /// Whether the intervals overlap.
    fn overlaps(self, other: Self) -> bool {
        (self.mean - other.mean).abs() <= self.half + other.half
    }
}

impl Compared {
    /// A line above the table: what it shows.
    #[must_use]
    pub fn title(&self) -> String {
        let best = match self.better {
            Some(better) => format!(
                "; best: the values with the {} mean, and those whose intervals overlap that of the best",
                match better {
                    Better::Higher => "highest",
                    Better::Lower => "lowest",
                }
            ),
            None => String::new(),
        };
        let failed = match self.failed {
            0 => String::new(),
            1 => "; one run failed and has no figures".to_owned(),
            failed => format!("; {failed} runs failed and have no figures"),
        };
        format!(
            "{} by {} (mean over seeds ± half of its 95 % confidence interval, by Student's t{best}{failed})",
            self.figure, self.by
        )
    }

    /// A row for each group, a column for each value of the setting.
    #[must_use]
    pub fn table(&self, style: Style) -> Table {
        let best = self.better.map(|_| "best").into_iter();
        let columns = self.columns.iter().chain(&self.values).map(String::as_str);
        // A table of one group has no column that names it.
        let blank = self.columns.is_empty().then_some("").into_iter();
        let mut table = Table::new(blank.chain(columns).chain(best), style);
        for column in 1..self.columns.len() {
            table = table.left_aligned(column);
        }
        for group in &self.groups {
            let mut cells = group.cells.clone();
            if cells.is_empty() {
                cells.push(self.figure.clone());
            }
            cells.extend(
                group.means.iter().map(|mean| mean.map_or_else(String::new, |it| self.cell(it))),
            );
            cells.extend(self.better.map(|better| self.best(group, better).join(", ")));
            table.plain_row(cells);
        }
        table
    }

    fn cell(&self, mean: Mean) -> String {
        let text = |number| value(&Metric::once(number, self.unit, None));
        match mean.half {
            0.0 => text(mean.mean),
            half => format!("{} ± {}", text(mean.mean), text(half)),
        }
    }

    /// The best value, and those that are not clearly worse.
    fn best(&self, group: &Group, better: Better) -> Vec<String> {
        let means =
            || group.means.iter().zip(&self.values).filter_map(|(mean, it)| Some(((*mean)?, it)));
        let sign = if better == Better::Higher { 1.0 } else { -1.0 };
        let best = means().max_by(|a, b| (sign * a.0.mean).total_cmp(&(sign * b.0.mean)));
        let Some((best, _)) = best else { return Vec::new() };
        means().filter(|(mean, _)| mean.overlaps(best)).map(|(_, value)| value.clone()).collect()
    }

    /// The means as lines over the values of the setting, with a panel for each machine.
    #[must_use]
    pub fn plot(&self, subtitle: &str) -> Plot {
        let machine = self.columns.iter().position(|column| column == MACHINE);
        let name = |group: &Group| machine.map_or("", |at| group.cells[at].as_str()).to_owned();
        let machines: IndexSet<String> = self.groups.iter().map(name).collect();
        let (axis, places) = self.axis();
        let line = |group: &Group| {
            let others = group.cells.iter().zip(&self.columns).filter(|it| it.1 != MACHINE);
            let label: Vec<String> = others.map(|(cell, name)| format!("{name} {cell}")).collect();
            let points = places.iter().zip(&group.means);
            Line {
                label: if label.is_empty() { self.figure.clone() } else { label.join(", ") },
                points: points.filter_map(|(x, mean)| Some(Point(*x, (*mean)?.mean))).collect(),
            }
        };
        let panel = |machine: &String| {
            let groups = self.groups.iter().filter(|group| name(group) == *machine);
            let colon = if machine.is_empty() { "" } else { ": " };
            let label = format!("{machine}{colon}{}, {}", self.figure, self.unit.name());
            Panel { x: axis.clone(), y: Axis::linear(&label), lines: groups.map(line).collect() }
        };
        Plot {
            title: format!("{} by {}", self.figure, self.by),
            subtitle: subtitle.to_owned(),
            panels: machines.iter().map(panel).collect(),
        }
    }

    /// The horizontal axis, and the places of the values on it: numbers as they are, others as 1, 2, ...
    fn axis(&self) -> (Axis, Vec<f64>) {
        /// A wider range of values is drawn with powers of two.
        const WIDE: f64 = 8.0;
        match numbers(&self.values) {
            Some(numbers) if numbers.first().is_some_and(|least| *least > 0.0) => {
                let is_wide = numbers.last() >= numbers.first().map(|least| least * WIDE).as_ref();
                let axis = if is_wide { Axis::doubling(&self.by) } else { Axis::linear(&self.by) };
                (axis, numbers)
            }
            _ => {
                let places = 1..=self.values.len();
                let names = places.clone().zip(&self.values).map(|(at, it)| format!("{at}: {it}"));
                let label = format!("{} ({})", self.by, names.collect::<Vec<_>>().join(", "));
                (Axis::whole(&label), places.map(|at| at as f64).collect())
            }
        }
    }
}
