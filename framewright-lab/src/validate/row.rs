//! A row: a figure measured on this computer, the same figure of the simulated machine, and the
//! judgement.

use crate::report::{Check, Measured, Metric, Run, Unit, Verdict, decimal};

/// A figure of the real machine and of the simulated one.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The work, the same for all rows of a table.
    pub work: &'static str,
    /// Name of the figure, unique among all rows.
    pub what: String,
    /// The figure of this computer; `None` if it could not be measured.
    pub measured: Option<Metric>,
    /// The figure of the simulated machine; `None` if the model has none.
    pub modelled: Option<Metric>,
    /// The difference up to which the figures agree.
    pub tolerance: Tolerance,
    /// The reason why the row is not judged here.
    pub unjudged: Option<String>,
}

/// The difference up to which a measured and a modelled figure agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// Counts: 10 %.
    Count,
    /// Times, and rates per time: 30 %.
    Time,
}

impl Tolerance {
    /// The greatest difference in percent of the measured figure.
    #[must_use]
    pub const fn percent(self) -> f64 {
        match self {
            Self::Count => 10.0,
            Self::Time => 30.0,
        }
    }
}

impl Row {
    /// A row that is judged. `measured` and `modelled` are one value per round or seed.
    pub(super) fn new(
        work: &'static str,
        what: impl Into<String>,
        unit: Unit,
        tolerance: Tolerance,
        [measured, modelled]: [&[f64]; 2],
    ) -> Self {
        let metric = |rounds| Metric::of_rounds(rounds, unit, None);
        let (measured, modelled) = (metric(measured), metric(modelled));
        Self { work, what: what.into(), measured, modelled, tolerance, unjudged: None }
    }

    /// A figure that cannot be measured here.
    pub(super) fn missing(work: &'static str, what: impl Into<String>, why: String) -> Self {
        let (measured, modelled, what) = (None, None, what.into());
        Self { work, what, measured, modelled, tolerance: Tolerance::Time, unjudged: Some(why) }
    }

    /// The same, judged only if there is no reason against it.
    #[must_use]
    pub(super) fn unless(mut self, unjudged: Option<String>) -> Self {
        self.unjudged = self.unjudged.or(unjudged);
        self
    }

    /// The modelled figure relative to the measured one. `None` if one of them is missing, or the
    /// measured one is zero.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        let (measured, modelled) = (self.measured.as_ref()?.median, self.modelled.as_ref()?.median);
        (measured != 0.0).then_some(modelled / measured)
    }

    /// Whether the figures agree; `None` if the row is not judged.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        if self.unjudged.is_some() {
            return None;
        }
        let (measured, modelled) = (self.measured.as_ref()?.median, self.modelled.as_ref()?.median);
        let difference = (modelled - measured).abs();
        Some(100.0 * difference <= self.tolerance.percent() * measured.abs())
    }

    /// The check of a judged row.
    fn check(&self) -> Option<Check> {
        let (passed, measured, modelled) =
            (self.agrees()?, self.measured.as_ref()?, self.modelled.as_ref()?);
        let decimals = measured.unit.decimals();
        let [measured, modelled] =
            [measured, modelled].map(|metric| decimal(metric.median, decimals));
        let factor =
            self.factor().map_or_else(String::new, |f| format!(", factor {}", decimal(f, 2)));
        let percent = self.tolerance.percent();
        let detail =
            format!("measured {measured}, modelled {modelled}{factor}; up to {percent} % agree");
        Some(Check::new(self.what.clone(), passed, detail))
    }
}

/// The rows of a validation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validated {
    /// All rows.
    pub rows: Vec<Row>,
    /// Explanations for the reader.
    pub notes: Vec<String>,
}

impl Validated {
    /// The rows as the runs `measured` and `modelled`, the checks of judged rows, and the reasons
    /// why the others are not judged.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let run = |label: &str, of: fn(&Row) -> Option<&Metric>| Run {
            label: label.to_owned(),
            metrics: self
                .rows
                .iter()
                .filter_map(|row| Some((row.what.clone(), of(row)?.clone())))
                .collect(),
            ..Run::default()
        };
        let unjudged = self.rows.iter().filter_map(|row| {
            Some(format!("{} is not judged here: {}", row.what, row.unjudged.as_ref()?))
        });
        Measured {
            runs: vec![
                run("measured", |row| row.measured.as_ref()),
                run("modelled", |row| row.modelled.as_ref()),
            ],
            checks: self.rows.iter().filter_map(Row::check).collect(),
            notes: self.notes.iter().cloned().chain(unjudged).collect(),
            ..Measured::default()
        }
    }

    /// The judgement of the whole: all judged rows agree.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let verdict = Verdict::of(self.measured().checks);
        let agreeing = verdict.checks.iter().filter(|check| check.passed).count();
        let judged = verdict.checks.len();
        let rest = self.rows.len() - judged;
        let words = match judged {
            0 => format!("no row could be judged here, of {rest}"),
            _ => format!(
                "{agreeing} of {judged} judged rows agree (counts within 10 %, times within 30 %); \
                 {rest} are not judged here"
            ),
        };
        Verdict { words, ..verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tolerance: Tolerance, measured: &[f64], modelled: &[f64]) -> Row {
        Row::new("work", "figure", Unit::Nanos, tolerance, [measured, modelled])
    }

    #[test]
    fn counts_agree_within_a_tenth_and_times_within_three() {
        let agrees = |tolerance, modelled| row(tolerance, &[100.0], &[modelled]).agrees();
        for (modelled, count, time) in [
            (100.0, true, true),
            (110.0, true, true),
            (111.0, false, true),
            (89.0, false, true),
            (130.0, false, true),
            (131.0, false, false),
            (69.0, false, false),
        ] {
            assert_eq!(agrees(Tolerance::Count, modelled), Some(count), "{modelled}");
            assert_eq!(agrees(Tolerance::Time, modelled), Some(time), "{modelled}");
        }
    }

    #[test]
    fn zero_agrees_with_zero_alone() {
        assert_eq!(row(Tolerance::Count, &[0.0], &[0.0]).agrees(), Some(true));
        assert_eq!(row(Tolerance::Count, &[0.0], &[1.0]).agrees(), Some(false));
        assert_eq!(row(Tolerance::Count, &[0.0], &[1.0]).factor(), None);
    }

    #[test]
    fn rows_that_are_not_judged_do_not_change_the_verdict() {
        let bad = row(Tolerance::Time, &[1.0], &[9.0]);
        let missing = Row::missing("work", "other", "no permission".into());
        let good = row(Tolerance::Time, &[3.0, 1.0, 2.0], &[2.0]);
        let mut all = Validated { rows: vec![missing, good], ..Validated::default() };
        assert!(all.verdict().passed);
        assert!(all.verdict().words.starts_with("1 of 1 judged rows agree"));
        all.rows.push(bad.clone().unless(Some("one CPU".into())));
        assert!(all.verdict().passed);
        let notes = all.measured().notes;
        assert_eq!(notes[0], "other is not judged here: no permission");
        assert_eq!(notes[1], "figure is not judged here: one CPU");
        all.rows.push(bad);
        let verdict = all.verdict();
        assert!(!verdict.passed);
        assert!(verdict.words.starts_with("1 of 2 judged"), "{}", verdict.words);
        assert!(verdict.checks[1].detail.contains("factor 9.00"), "{verdict:?}");
    }

    #[test]
    fn without_any_judged_row_the_verdict_says_so() {
        let rows = vec![Row::missing("work", "figure", "no permission".into())];
        let verdict = Validated { rows, ..Validated::default() }.verdict();
        assert_eq!(verdict.words, "no row could be judged here, of 1");
    }
}
