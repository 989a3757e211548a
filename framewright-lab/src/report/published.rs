//! What others published, and what we have beside it.
//!
//! A figure is *published* (by others, on their machine), counted in a running *kernel* (by us, where
//! we can), *measured* (counted while our code ran) or *modelled* (counted in cycles of a simulated
//! machine). The four never share a field, so that they never share a column.

use serde::{Deserialize, Serialize};

use super::model::short;
use super::{Better, Metric, Unit};

/// One figure, before and after a change: others' beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment that it belongs to.
    pub experiment: String,
    /// What was run.
    pub workload: String,
    /// Our machine.
    pub machine: String,
    /// Our allocator.
    pub subject: String,
    /// Name of the figure.
    pub metric: String,
    /// What is counted.
    pub unit: Unit,
    /// Which way is better.
    pub better: Option<Better>,
    /// What others published.
    pub published: Option<Published>,
    /// What a running kernel did.
    pub kernel: Option<Kernel>,
    /// What our code did.
    pub measured: Option<Sides>,
    /// What it costs on the simulated machine.
    pub modelled: Option<Sides>,
    /// How far the judged quantity moves when parameters that it may hang on are turned up and down.
    pub band: Option<Band>,
    /// What is judged.
    pub by: Quantity,
    /// Against what.
    pub against: Reference,
    /// Whether it is judged.
    pub role: Role,
    /// Values up to this are nothing.
    #[serde(serialize_with = "short")]
    pub resolution: f64,
    /// What the judgement was; none before.
    pub agreement: Option<Agreement>,
}

/// What others published: of some figures only the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Before the change.
    pub before: Option<f64>,
    /// After it.
    pub after: Option<f64>,
    /// The difference in percent of what was before.
    pub change_pct: Option<f64>,
    /// Their machine.
    pub machine: String,
    /// Where it stands.
    pub source: String,
}

/// What a running kernel did: counts, which no slow machine distorts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// A kernel without the change.
    pub before: Option<f64>,
    /// A kernel with it.
    pub after: Option<f64>,
    /// Which kernels, on what.
    pub source: String,
}

/// Our figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sides {
    /// With the setting that stands for what was before.
    pub before: Metric,
    /// With the other.
    pub after: Option<Metric>,
    /// The difference in percent, seed by seed; none where something came from nothing.
    pub change_pct: Option<Metric>,
}

/// How far a figure moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// The least.
    #[serde(serialize_with = "short")]
    pub least: f64,
    /// The greatest.
    #[serde(serialize_with = "short")]
    pub greatest: f64,
    /// The parameter that moved it most.
    pub by: String,
}

/// A quantity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// The figure before the change.
    Before,
    /// The figure after it.
    After,
    /// The difference in percent.
    Change,
}

/// What a row is judged against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// What others published.
    Published,
    /// What a running kernel did.
    Kernel,
    /// The same, where that is not to be modelled, but reached: what is better agrees.
    KernelOrBetter,
}

/// Whether a row says something about the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Nothing was fitted to it: it is judged.
    Predicted,
    /// Parameters were chosen so that it comes out: it is not judged. Says which.
    Fitted(String),
    /// There is nothing to judge it against. Says why.
    Shown(String),
}

/// What a judgement was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Same sign, and within a factor of three; or better, where that is as good.
    Agrees,
    /// Not so.
    Disagrees,
    /// There is nothing of ours.
    Missing,
    /// It is not judged.
    NotJudged,
}

impl Published {
    /// Both figures.
    pub fn sides(before: f64, after: f64, machine: &str, source: &str) -> Self {
        Self::new(Some(before), Some(after), change_pct(before, after), machine, source)
    }

    /// Only what was before.
    pub fn before(before: f64, machine: &str, source: &str) -> Self {
        Self::new(Some(before), None, None, machine, source)
    }

    /// Only the difference in percent.
    pub fn change(percent: f64, machine: &str, source: &str) -> Self {
        Self::new(None, None, Some(percent), machine, source)
    }

    fn new(
        before: Option<f64>,
        after: Option<f64>,
        change_pct: Option<f64>,
        machine: &str,
        source: &str,
    ) -> Self {
        let (machine, source) = (machine.to_owned(), source.to_owned());
        Self { before, after, change_pct, machine, source }
    }
}

impl Sides {
    /// The figures of both sides, one value per seed, in the same order: differences are taken seed
    /// by seed, which tells small ones from chance. `None` if there are none.
    ///
    /// # Panics
    ///
    /// In debug builds, if the sides have not as many values.
    pub fn paired(
        before: &[f64],
        after: &[f64],
        unit: Unit,
        better: Option<Better>,
    ) -> Option<Self> {
        debug_assert_eq!(before.len(), after.len(), "one value per seed on both sides");
        let changes: Option<Vec<f64>> =
            before.iter().zip(after).map(|(&before, &after)| change_pct(before, after)).collect();
        Some(Self {
            before: Metric::of_rounds(before, unit, better)?,
            after: Metric::of_rounds(after, unit, better),
            change_pct: changes
                .and_then(|changes| Metric::of_rounds(&changes, Unit::Percent, None)),
        })
    }

    /// The figures of one setting. `None` if there are none.
    pub fn alone(values: &[f64], unit: Unit, better: Option<Better>) -> Option<Self> {
        let before = Metric::of_rounds(values, unit, better)?;
        Some(Self { before, after: None, change_pct: None })
    }
}

/// The difference in percent of what was before; none where something came from nothing.
pub fn change_pct(before: f64, after: f64) -> Option<f64> {
    match (before == after, before == 0.0) {
        (true, _) => Some(0.0),
        (false, true) => None,
        (false, false) => Some(after * 100.0 / before - 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_taken_seed_by_seed() {
        let sides =
            Sides::paired(&[100.0, 200.0, 400.0], &[110.0, 230.0, 404.0], Unit::Count, None);
        let change = sides.unwrap().change_pct.unwrap();
        assert_eq!(
            (change.min.round(), change.median.round(), change.max.round()),
            (1.0, 10.0, 15.0)
        );
        let from_nothing = Sides::paired(&[0.0], &[1.0], Unit::Count, None).unwrap();
        assert_eq!(from_nothing.change_pct, None);
        assert_eq!(Sides::alone(&[], Unit::Count, None), None);
        assert_eq!(change_pct(0.0, 0.0), Some(0.0));
        assert_eq!(change_pct(4.0, 1.0), Some(-75.0));
    }

    #[test]
    fn in_json_the_four_kinds_are_fields_of_their_own() {
        let row = Row {
            experiment: "bulk-free".into(),
            workload: "page-fault".into(),
            machine: "skx-2s-112".into(),
            subject: "list-buddy".into(),
            metric: "pages_per_s".into(),
            unit: Unit::PerSecond,
            better: Some(Better::Higher),
            published: Some(Published::sides(50.0, 52.0, "Skylake", "there")),
            kernel: None,
            measured: None,
            modelled: Sides::alone(&[40.0], Unit::PerSecond, None),
            band: None,
            by: Quantity::Change,
            against: Reference::Published,
            role: Role::Fitted("latencies".into()),
            resolution: 0.0,
            agreement: Some(Agreement::NotJudged),
        };
        let text = serde_json::to_string(&row).unwrap();
        for part in [
            r#""published":{"before":50.0,"after":52.0,"change_pct":4.0,"machine":"Skylake","#,
            r#""kernel":null,"measured":null,"modelled":{"before":{"median":40,"#,
            r#""by":"change","against":"published","role":{"fitted":"latencies"},"resolution":0,"#,
            r#""agreement":"not-judged"}"#,
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
