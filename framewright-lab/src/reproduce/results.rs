//! The rows of an experiment, and the figures of our runs in them.

use std::fmt;

use super::bands::{Varied, band};
use crate::report::{
    Better, Check, Judgement, Kernel, Published, Quantity, Reference, Role, Row, Run, Sides, Unit,
};

/// The result of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Published figures, compared with ours; then rows with only our figures.
    pub rows: Vec<Row>,
    /// The runs behind them, with their settings, figures and series.
    pub runs: Vec<Run>,
    /// Findings, one sentence each.
    pub findings: Vec<String>,
    /// Checks besides agreement: invariants, goals of the library.
    pub checks: Vec<Check>,
    /// Published figures that have no row, and why; each a sentence.
    pub not_modelled: &'static [&'static str],
    /// Whether rows have no figure because something could not be measured here.
    pub incomplete: bool,
}

/// The key of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'k> {
    /// The workload.
    pub workload: &'k str,
    /// The machine.
    pub machine: &'k str,
    /// The allocator.
    pub subject: &'k str,
    /// Name of the figure.
    pub metric: &'k str,
}

impl Results {
    /// The row of `key`. If there is none, adds one of `unit` without published figures.
    pub fn row(&mut self, key: Key<'_>, unit: Unit, better: Option<Better>) -> &mut Row {
        let found = self.rows.iter().position(|row| key.is_of(row));
        let index = found.unwrap_or_else(|| {
            let role = Role::Shown("no figure was published".into());
            let experiment = self.rows.first().map_or("", |row| &row.experiment);
            self.rows.push(key.row(experiment, unit, better).role(role));
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// The row of `key`, if there is one.
    pub(super) fn find(&mut self, key: Key<'_>) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| key.is_of(row))
    }

    /// Enters counts of our code into the row of `key`. Does nothing without figures.
    pub fn measured(&mut self, key: Key<'_>, sides: Option<Sides>) {
        let Some(sides) = sides else { return };
        let row = self.row(key, sides.before.unit, sides.before.better);
        row.measured = Some(sides);
    }

    /// Enters the modelled cost into the row of `key`. Does nothing without figures.
    pub fn modelled(&mut self, key: Key<'_>, sides: Option<Sides>) {
        let Some(sides) = sides else { return };
        let row = self.row(key, sides.before.unit, sides.before.better);
        row.modelled = Some(sides);
    }

    /// Enters why the row of `key` has no level, if it has none.
    pub(super) fn unsteady(&mut self, key: Key<'_>, why: Option<String>) {
        if let Some(row) = self.find(key) {
            row.unsteady = why;
        }
    }

    /// Enters the band of the first judged quantity of the row of `key`: its range over the machine as it is, and with
    /// other parameters.
    pub(super) fn banded(&mut self, key: Key<'_>, as_is: &Varied, varied: &[Varied]) {
        let Some(row) = self.find(key) else { return };
        let by = row.judgements.first().map_or(Quantity::Change, |judgement| judgement.by);
        row.band = band(as_is, varied, key.metric, by);
    }
}

impl Key<'_> {
    fn is_of(self, row: &Row) -> bool {
        (self.workload, self.machine, self.subject, self.metric)
            == (&*row.workload, &*row.machine, &*row.subject, &*row.metric)
    }

    /// An empty row: predicted, judged by its change against the published one.
    pub(super) fn row(self, experiment: &str, unit: Unit, better: Option<Better>) -> Row {
        Row {
            experiment: experiment.into(),
            workload: self.workload.into(),
            machine: self.machine.into(),
            subject: self.subject.into(),
            metric: self.metric.into(),
            unit,
            better,
            published: None,
            kernel: None,
            measured: None,
            modelled: None,
            band: None,
            unsteady: None,
            resolution: 0.0,
            judgements: vec![Judgement::new(Quantity::Change, Reference::Published)],
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, machine, subject, metric } = self;
        write!(f, "{workload} on {machine}, {subject}: {metric}")
    }
}

impl Row {
    /// The row with published values.
    #[must_use]
    pub(super) fn published(mut self, published: Published) -> Self {
        self.published = Some(published);
        self
    }

    /// The row with counts of a running kernel.
    #[must_use]
    pub(super) fn kernel(
        mut self,
        before: impl Into<Option<f64>>,
        after: impl Into<Option<f64>>,
        source: &str,
    ) -> Self {
        let (before, after) = (before.into(), after.into());
        self.kernel = Some(Kernel { before, after, source: source.into() });
        self
    }

    /// The row with only this judgement.
    #[must_use]
    pub(super) fn judged(mut self, by: Quantity, against: Reference) -> Self {
        self.judgements = vec![Judgement::new(by, against)];
        self
    }

    /// The row with its first judgement in this role.
    #[must_use]
    pub(super) fn role(mut self, role: Role) -> Self {
        if let Some(first) = self.judgements.first_mut() {
            first.role = role;
        }
        self
    }

    /// The row with one more judgement, against the published value.
    #[must_use]
    pub(super) fn also(mut self, by: Quantity, role: Role) -> Self {
        self.judgements.push(Judgement::new(by, Reference::Published).role(role));
        self
    }

    /// Its key.
    pub(super) fn key(&self) -> Key<'_> {
        Key {
            workload: &self.workload,
            machine: &self.machine,
            subject: &self.subject,
            metric: &self.metric,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key<'_> = Key { workload: "w", machine: "m", subject: "s", metric: "pages_per_s" };

    #[test]
    fn rows_are_found_by_name_and_made_where_nothing_was_published() {
        let mut results = Results::default();
        let known = KEY.row("e", Unit::PerSecond, Some(Better::Higher));
        results.rows.push(known.published(Published::change(4.0, "theirs", "there")));
        let sides = Sides::paired(&[1.0], &[2.0], Unit::PerSecond, Some(Better::Higher));
        results.modelled(KEY, sides.clone());
        assert_eq!(results.rows.len(), 1);
        assert_eq!(results.rows[0].modelled, sides);
        let other = Key { subject: "framewright", ..KEY };
        results.measured(other, sides.clone());
        results.measured(other, None);
        assert_eq!(results.rows.len(), 2);
        let row = &results.rows[1];
        assert_eq!((&*row.experiment, &row.measured, row.key()), ("e", &sides, other));
        assert!(matches!(row.judgements[0].role, Role::Shown(_)));
        assert_eq!(other.to_string(), "w on m, framewright: pages_per_s");
    }
}
