//! Published figures, compared with ours.
//!
//! A figure is *published* (by others, on their machine), counted in a running *kernel*, *measured*
//! (counted during the run of our code) or *modelled* (in cycles of a simulated machine). These
//! four are separate fields, for separate columns.

use serde::{Deserialize, Serialize};

use super::model::short;
use super::{Better, Metric, Unit};

/// One figure before and after a change: the published values, and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Its experiment.
    pub experiment: String,
    /// The workload.
    pub workload: String,
    /// Our machine.
    pub machine: String,
    /// Our allocator.
    pub subject: String,
    /// Name of the figure.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The better direction.
    pub better: Option<Better>,
    /// The published values.
    pub published: Option<Published>,
    /// The counts of a running kernel.
    pub kernel: Option<Kernel>,
    /// The counts of our code.
    pub measured: Option<Sides>,
    /// The cost on the simulated machine.
    pub modelled: Option<Sides>,
    /// The range of the judged quantity while all parameters of the machine that were not measured vary.
    pub band: Option<Band>,
    /// The reason if the modelled figure has only a change and no level: windows or seeds differ too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsteady: Option<String>,
    /// Values up to this one count as zero.
    #[serde(serialize_with = "short")]
    pub resolution: f64,
    /// The judged quantities. [`Row::band`] is the range of the first.
    pub judgements: Vec<Judgement>,
}

/// Published values. For some figures only the change was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Published {
    /// Before the change.
    pub before: Option<f64>,
    /// After it.
    pub after: Option<f64>,
    /// The difference in percent of the value before.
    pub change_pct: Option<f64>,
    /// Their machine.
    pub machine: String,
    /// The publication.
    pub source: String,
}

/// Counts of a running kernel, which do not depend on the speed of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Kernel {
    /// A kernel without the change.
    pub before: Option<f64>,
    /// A kernel with it.
    pub after: Option<f64>,
    /// The kernels, and their machine.
    pub source: String,
}

/// Our figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sides {
    /// The figure with the setting that represents the state before the change.
    pub before: Metric,
    /// The figure with the other setting.
    pub after: Option<Metric>,
    /// The difference in percent, seed by seed; `None` if the value before is zero.
    pub change_pct: Option<Metric>,
}

/// The range of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Band {
    /// The minimum.
    #[serde(serialize_with = "short")]
    pub least: f64,
    /// The maximum.
    #[serde(serialize_with = "short")]
    pub greatest: f64,
    /// The parameter with the largest effect; `None` if parameters vary together.
    pub by: Option<String>,
}

/// A quantity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The figure before the change.
    Before,
    /// The figure after it.
    After,
    /// The difference in percent.
    Change,
}

/// The reference of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// The published values.
    Published,
    /// The counts of a running kernel.
    Kernel,
    /// The counts of a running kernel, as a goal: better figures agree, too.
    KernelOrBetter,
}

/// The judgement of one quantity of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Judgement {
    /// The judged quantity.
    pub by: Quantity,
    /// The reference.
    pub against: Reference,
    /// Whether the quantity tests the model.
    pub role: Role,
    /// The result; `None` before the judgement.
    pub agreement: Option<Agreement>,
    /// Our figure divided by the reference. `None` if a figure is missing or the reference is zero.
    pub factor: Option<f64>,
    /// The same judgement of a model that ignores the machine. `None` if the quantity is published
    /// for one machine only.
    pub constant: Option<Constant>,
}

/// The result of a model that predicts the same figure for every machine: the median of the references of the other
/// machines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Constant {
    /// The figure.
    #[serde(serialize_with = "short")]
    pub value: f64,
    /// Whether it agrees with the reference.
    pub agrees: bool,
}

/// Whether a quantity of a row tests the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// No parameter was fitted to the quantity: it is judged.
    Predicted,
    /// Parameters were fitted to the quantity, so it is not judged. Names the parameters.
    Fitted(String),
    /// The quantity has no reference that it can be compared with. States the reason.
    Shown(String),
}

/// A judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Same sign, and within a factor of three; or better, if that counts.
    Agrees,
    /// Another sign, or a factor of more than three.
    Disagrees,
    /// There is no figure of ours.
    Missing,
    /// It is not judged.
    NotJudged,
}

impl Judgement {
    /// A prediction that has not been judged yet.
    #[must_use]
    pub fn new(by: Quantity, against: Reference) -> Self {
        let (role, agreement) = (Role::Predicted, None);
        Self { by, against, role, agreement, factor: None, constant: None }
    }

    /// The judgement in this role.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }
}

impl Published {
    /// Both values.
    pub fn sides(before: f64, after: f64, machine: &str, source: &str) -> Self {
        Self::new(Some(before), Some(after), change_pct(before, after), machine, source)
    }

    /// Only the value before.
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
    /// The figures of both sides, one value per seed, in the same order. Differences are taken seed
    /// by seed, which distinguishes small effects from chance. `None` without values.
    ///
    /// # Panics
    ///
    /// In debug builds, if the sides have different numbers of values.
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

    /// The figures of one setting. `None` without values.
    pub fn alone(values: &[f64], unit: Unit, better: Option<Better>) -> Option<Self> {
        let before = Metric::of_rounds(values, unit, better)?;
        Some(Self { before, after: None, change_pct: None })
    }
}

/// The difference in percent of the value before; `None` if that is zero.
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
            unsteady: None,
            resolution: 0.0,
            judgements: vec![Judgement {
                agreement: Some(Agreement::NotJudged),
                factor: Some(0.8),
                ..Judgement::new(Quantity::Change, Reference::Published)
                    .role(Role::Fitted("latencies".into()))
            }],
        };
        let text = serde_json::to_string(&row).unwrap();
        for part in [
            r#""published":{"before":50.0,"after":52.0,"change_pct":4.0,"machine":"Skylake","#,
            r#""kernel":null,"measured":null,"modelled":{"before":{"median":40,"#,
            r#""resolution":0,"judgements":[{"by":"change","against":"published","role":{"fitted":"latencies"},"#,
            r#""agreement":"not_judged","factor":0.8,"constant":null}]}"#,
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
