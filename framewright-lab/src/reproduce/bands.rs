//! Bands: the ranges of modelled figures while parameters of the machine vary.
//!
//! All parameters of a machine that were not measured vary: those that were estimated, and those that were fitted to
//! published results. No list of parameters is chosen for a figure, because such a list would omit what its author
//! holds to be certain. Each parameter is multiplied by one of [`FACTORS`]: by default in [`COMBINATIONS`] of all
//! parameters at once ([`Variation::Together`]), which costs few runs; or each parameter by itself
//! ([`Variation::Each`]), which also shows the parameter with the largest effect.

use framewright_sim::machine::{Basis, Spec};
use indexmap::IndexSet;

use super::Plan;
use crate::Error;
use crate::report::{Band, Quantity, Run, change_pct};

/// A varied parameter is multiplied by one of these.
pub const FACTORS: [f64; 2] = [0.75, 1.25];

/// The number of machines of [`Variation::Together`]. Half of them have the smaller value of a parameter.
pub const COMBINATIONS: usize = 8;

/// The way in which parameters vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variation {
    /// All at once, in [`COMBINATIONS`].
    #[default]
    Together,
    /// Each by itself.
    Each,
}

/// The parameters of a machine that were not measured.
pub fn parameters(spec: &Spec) -> impl Iterator<Item = &'static str> {
    let unsure = spec.parameters().filter(|it| it.provenance.basis != Basis::Measured);
    unsure.map(|it| it.parameter.key)
}

/// The number of machines that [`vary`] runs for each machine.
pub(super) fn count(spec: &Spec, plan: &Plan) -> usize {
    match plan.variation {
        _ if plan.quick => 0,
        Variation::Together => COMBINATIONS,
        Variation::Each => FACTORS.len() * parameters(spec).count(),
    }
}

/// Both sides of a comparison on one machine.
pub(super) struct Varied {
    /// The parameter that was varied; `None` if it was none or all.
    pub(super) by: Option<&'static str>,
    pub(super) before: Run,
    pub(super) after: Run,
}

impl Varied {
    fn quantity(&self, metric: &str, by: Quantity) -> Option<f64> {
        let of = |run: &Run| Some(run.metrics.get(metric)?.median);
        match by {
            Quantity::Before => of(&self.before),
            Quantity::After => of(&self.after),
            Quantity::Change => change_pct(of(&self.before)?, of(&self.after)?),
        }
    }
}

/// Runs both sides of a comparison on each variation of `spec`. `run` returns the side before the change, then the
/// side after it.
pub(super) fn vary(
    spec: &Spec,
    plan: &Plan,
    mut run: impl FnMut(&Spec) -> Result<[Run; 2], Error>,
) -> Result<Vec<Varied>, Error> {
    if plan.quick {
        return Ok(Vec::new());
    }
    let machines = match plan.variation {
        Variation::Together => together(spec)?,
        Variation::Each => each(spec)?,
    };
    let varied = machines.into_iter().map(|(by, spec)| {
        let [before, after] = run(&spec)?;
        Ok(Varied { by, before, after })
    });
    varied.collect()
}

type Machines = Vec<(Option<&'static str>, Spec)>;

fn each(spec: &Spec) -> Result<Machines, Error> {
    let both = |key| FACTORS.map(|factor| (key, factor));
    let machines = parameters(spec).flat_map(both);
    machines.map(|(key, factor)| Ok((Some(key), spec.scaled(key, factor)?))).collect()
}

fn together(spec: &Spec) -> Result<Machines, Error> {
    let machine = |combination| -> Result<_, Error> {
        let mut machine = spec.clone();
        for (number, key) in parameters(spec).enumerate() {
            machine = machine.scaled(key, FACTORS[side(number, combination)])?;
        }
        Ok((None, machine))
    };
    (0..COMBINATIONS).map(machine).collect()
}

/// The index of a parameter's factor in a combination. Each parameter has one of the 70 ways to choose four of eight
/// combinations, and no two parameters have the same, unless there are more than 70.
fn side(parameter: usize, combination: usize) -> usize {
    const HALVES: usize = 70;
    /// Neighbours in the list of parameters get halves that are far apart.
    const STRIDE: usize = 37;
    let mut halves = (0..=u8::MAX).filter(|it| it.count_ones() as usize == COMBINATIONS / 2);
    let half = halves.nth(parameter * STRIDE % HALVES).unwrap_or_default();
    usize::from(half >> combination & 1)
}

/// The range of a quantity of `metric`, which includes the machine `as_is`. `None` without variations.
pub(super) fn band(as_is: &Varied, varied: &[Varied], metric: &str, by: Quantity) -> Option<Band> {
    let figure = as_is.quantity(metric, by)?;
    let mut band: Option<Band> = None;
    let mut furthest = 0.0;
    for variation in varied {
        let Some(value) = variation.quantity(metric, by) else { continue };
        let band = band.get_or_insert(Band { least: figure, greatest: figure, by: None });
        band.least = band.least.min(value);
        band.greatest = band.greatest.max(value);
        if (value - figure).abs() > furthest {
            furthest = (value - figure).abs();
            band.by = variation.by.map(str::to_owned);
        }
    }
    band
}

/// The varied parameters, as a finding: for each of `specs` their number.
pub(super) fn described<'s>(
    specs: impl IntoIterator<Item = &'s Spec>,
    plan: &Plan,
) -> Option<String> {
    let number = |it: &Spec| format!("{} of {}", parameters(it).count(), it.name());
    let machines: IndexSet<String> = specs.into_iter().map(number).collect();
    if plan.quick || machines.is_empty() {
        return None;
    }
    let how = match plan.variation {
        Variation::Together => format!("all at once, in {COMBINATIONS} combinations"),
        Variation::Each => "one at a time".to_owned(),
    };
    Some(format!(
        "bands: each parameter that was estimated or fitted ({}) a quarter smaller or larger, {how}; seed {}",
        machines.into_iter().collect::<Vec<_>>().join(", "),
        plan.seeds.first().copied().unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Metric, Unit};

    fn run(value: f64) -> Run {
        let metrics = [("x".to_owned(), Metric::once(value, Unit::Count, None))].into();
        Run { metrics, ..Run::default() }
    }

    /// Before: the cost of a line that another socket has modified; after: also of a page fault.
    fn costs(spec: &Spec) -> Result<[Run; 2], Error> {
        let costs = spec.costs();
        let line = costs.latency.modified_remote as f64;
        Ok([run(line), run(line + costs.fault.service as f64)])
    }

    fn plan(variation: Variation) -> Plan {
        Plan { variation, ..Plan::new(1, false) }
    }

    #[test]
    fn all_that_was_not_measured_varies() {
        let spec = Spec::preset("skx-2s-112").unwrap();
        let keys: Vec<&str> = parameters(&spec).collect();
        for key in
            ["fault.service", "fault.clear", "latency.loaded", "clock.frequency", "interrupt.send"]
        {
            assert!(keys.contains(&key), "{key}: {keys:?}");
        }
        assert!(!keys.contains(&"latency.dram_local"), "it was measured");
        assert!(keys.len() <= 70, "two parameters would vary alike: {}", keys.len());
    }

    #[test]
    fn each_parameter_alone_has_both_factors_and_the_strongest_is_named() {
        let spec = Spec::preset("skx-2s-112").unwrap();
        let plan = plan(Variation::Each);
        let varied = vary(&spec, &plan, costs).unwrap();
        assert_eq!(varied.len(), count(&spec, &plan));
        let [before, after] = costs(&spec).unwrap();
        let as_is = Varied { by: None, before, after };
        let found = band(&as_is, &varied, "x", Quantity::Before).unwrap();
        assert_eq!((found.least, found.greatest), (225.0, 375.0));
        assert_eq!(found.by.as_deref(), Some("latency.modified_remote"));
        let found = band(&as_is, &varied, "x", Quantity::After).unwrap();
        assert_eq!((found.least, found.greatest), (3200.0 - 725.0, 3200.0 + 725.0));
        assert_eq!(found.by.as_deref(), Some("fault.service"));
        assert_eq!(band(&as_is, &varied, "y", Quantity::After), None);
        assert_eq!(band(&as_is, &[], "x", Quantity::After), None);
    }

    #[test]
    fn together_each_parameter_is_smaller_in_half_of_the_combinations() {
        let spec = Spec::preset("skx-2s-112").unwrap();
        let machines = together(&spec).unwrap();
        assert_eq!(machines.len(), COMBINATIONS);
        let mut patterns = Vec::new();
        for key in parameters(&spec) {
            let value =
                |spec: &Spec| spec.parameters().find(|it| it.parameter.key == key).unwrap().value;
            let larger: Vec<bool> =
                machines.iter().map(|(_, it)| value(it) > value(&spec)).collect();
            assert_eq!(larger.iter().filter(|&&it| it).count(), COMBINATIONS / 2, "{key}");
            assert!(!patterns.contains(&larger), "{key} varies as another parameter does");
            patterns.push(larger);
        }
        let varied = vary(&spec, &plan(Variation::Together), costs).unwrap();
        assert_eq!(varied.len(), COMBINATIONS);
        assert!(varied.iter().all(|it| it.by.is_none()));
    }

    #[test]
    fn a_quick_run_varies_nothing() {
        let spec = Spec::uniform(2).unwrap();
        let quick = Plan::new(1, true);
        assert!(vary(&spec, &quick, costs).unwrap().is_empty() && count(&spec, &quick) == 0);
        assert_eq!(described([&spec], &quick), None);
        let text = described([&spec], &plan(Variation::Each)).unwrap();
        assert!(
            text.contains("of uniform:2) a quarter smaller or larger, one at a time"),
            "{text}"
        );
    }
}
