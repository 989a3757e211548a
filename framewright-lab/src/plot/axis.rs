//! Ticks of axes and their labels.

use super::Scale;

/// Approximate number of ticks of a vertical axis.
const TICKS: f64 = 5.0;

/// Ticks from zero to the first at or above `most`: multiples of 1, 2 or 5 times a power of ten.
pub(super) fn ticks(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let rough = most / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(most);
    let count = (most / step - 1e-9).ceil().max(1.0) as u32;
    (0..=count).map(|tick| f64::from(tick) * step).collect()
}

/// Ticks from `least` to `most`, at multiples of a round step of at least `least_step`.
fn ticks_between(least: f64, most: f64, least_step: f64) -> Vec<f64> {
    let all = ticks(most - least);
    let step = all.get(1).copied().unwrap_or(1.0).max(least_step);
    let first = (least / step - 1e-9).ceil();
    let count = ((most + step * 1e-9) / step - first).floor().max(0.0) as u32;
    (0..=count).map(|tick| (first + f64::from(tick)) * step).collect()
}

/// The range of an axis, and its ticks.
pub(super) struct Span {
    scale: Scale,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) ticks: Vec<f64>,
}

impl Span {
    /// A horizontal axis: exactly from the smallest value to the largest.
    pub(super) fn across(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let (least, most) = match (extremes(values), scale) {
            (Some((least, most)), _) if least < most => (least, most),
            (Some((only, _)), Scale::Linear | Scale::Whole) => (only - 1.0, only + 1.0),
            (Some((only, _)), _) => (only / 2.0, only * 2.0),
            (None, _) => (1.0, 2.0),
        };
        let ticks = match scale.base() {
            None => ticks_between(least, most, if scale == Scale::Whole { 1.0 } else { 0.0 }),
            Some(base) => powers(base, log(least, base).ceil(), log(most, base).floor()),
        };
        Self { scale, least, most, ticks }
    }

    /// A vertical axis: from zero (if logarithmic, from the tick below the smallest value) to the
    /// tick above all values.
    pub(super) fn upwards(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let extremes = extremes(values);
        let ticks = match (scale.base(), extremes) {
            (None, extremes) => ticks(extremes.map_or(1.0, |(_, most)| most)),
            (Some(base), None) => powers(base, 0.0, 1.0),
            (Some(base), Some((least, most))) => {
                let first = log(least, base).floor();
                powers(base, first, log(most, base).ceil().max(first + 1.0))
            }
        };
        let end = |tick: Option<&f64>| tick.copied().unwrap_or_default();
        Self { scale, least: end(ticks.first()), most: end(ticks.last()), ticks }
    }

    /// The linear position of `value`; 0 if it has none.
    pub(super) fn position(&self, value: f64) -> f64 {
        self.scale.position(value).unwrap_or_default()
    }

    /// The tick at `position`.
    pub(super) fn tick(&self, position: f64) -> Option<f64> {
        self.ticks.iter().copied().find(|tick| (self.position(*tick) - position).abs() < 1e-9)
    }
}

impl Scale {
    /// The base of a logarithmic axis.
    fn base(self) -> Option<f64> {
        match self {
            Self::Linear | Self::Whole => None,
            Self::Doubling => Some(2.0),
            Self::Decades => Some(10.0),
        }
    }

    /// The position of `value`; `None` if it has none.
    pub(super) fn position(self, value: f64) -> Option<f64> {
        let position = match self.base() {
            None => value,
            Some(base) if value > 0.0 => log(value, base),
            Some(_) => return None,
        };
        position.is_finite().then_some(position)
    }
}

/// The logarithm of `value`; exactly a whole number for powers of the base.
fn log(value: f64, base: f64) -> f64 {
    let log = if base == 2.0 { value.log2() } else { value.log10() };
    if (log - log.round()).abs() < 1e-9 { log.round() } else { log }
}

fn powers(base: f64, first: f64, last: f64) -> Vec<f64> {
    (first as i32..=last as i32).map(|power| base.powi(power)).collect()
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |extremes, value| match extremes {
        None => Some((value, value)),
        Some((least, most)) => Some((f64::min(least, value), f64::max(most, value))),
    })
}

/// The label of a single value, in a format of its own.
pub(super) fn label_of(value: f64) -> String {
    Figures::of(&[value]).write(value)
}

/// The labels of one axis: all with the same prefix and number of decimals.
pub(super) struct Figures {
    divisor: f64,
    prefix: &'static str,
    decimals: usize,
}

impl Figures {
    pub(super) fn of(ticks: &[f64]) -> Self {
        // The least value with each prefix. `k` begins at 10 000, because 5000 is easier to read
        // than 5 k.
        const PREFIXES: [(f64, &str); 3] = [(1e9, " G"), (1e6, " M"), (1e4, " k")];
        let most = ticks.iter().copied().fold(0.0, f64::max);
        let prefix = PREFIXES.into_iter().find(|(from, _)| most >= *from);
        let (divisor, prefix) = match prefix {
            Some((_, " k")) => (1e3, " k"),
            Some(prefix) => prefix,
            None => (1.0, ""),
        };
        let whole = |decimals: &usize| {
            let unit = divisor / 10_f64.powi(*decimals as i32);
            ticks.iter().all(|tick| ((tick / unit).round() * unit - tick).abs() < unit * 1e-6)
        };
        Self { divisor, prefix, decimals: (0..6).find(whole).unwrap_or(6) }
    }

    pub(super) fn write(&self, value: f64) -> String {
        let prefix = if value == 0.0 { "" } else { self.prefix };
        let decimals = if value == 0.0 { 0 } else { self.decimals };
        format!("{:.decimals$}{prefix}", value / self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(ticks(83.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(16.2e6).len(), 5);
        assert_eq!(ticks(0.0).last(), Some(&1.0));
        assert_eq!(ticks(0.004).last(), Some(&0.004));
    }

    #[test]
    fn ticks_lie_within_a_horizontal_axis_and_around_a_vertical_one() {
        let across = |values: &[f64], scale| Span::across(values.iter().copied(), scale).ticks;
        assert_eq!(across(&[1.0, 512.0], Scale::Doubling).len(), 10);
        assert_eq!(across(&[3.0, 70.0], Scale::Doubling), [4.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!(across(&[2.0, 10.0], Scale::Linear), [2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(across(&[1.0, 2.0], Scale::Linear).len(), 6);
        assert_eq!(across(&[1.0, 3.0], Scale::Whole), [1.0, 2.0, 3.0]);
        assert_eq!(across(&[1.0, 24.0], Scale::Whole), [5.0, 10.0, 15.0, 20.0]);
        let upwards = |values: &[f64], scale| Span::upwards(values.iter().copied(), scale).ticks;
        assert_eq!(upwards(&[5.0, 900.0], Scale::Decades), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(upwards(&[1000.0], Scale::Decades), [1000.0, 10_000.0]);
        assert_eq!(upwards(&[60.0, 83.0], Scale::Linear).len(), 6);
        assert_eq!(Scale::Doubling.position(0.0), None);
    }

    #[test]
    fn labels_of_one_axis_have_one_format() {
        let write = |ticks: &[f64]| {
            let figures = Figures::of(ticks);
            ticks.iter().map(|tick| figures.write(*tick)).collect::<Vec<_>>().join("|")
        };
        assert_eq!(write(&[0.0, 20.0, 40.0]), "0|20|40");
        assert_eq!(write(&[0.0, 5e6, 10e6]), "0|5 M|10 M");
        assert_eq!(write(&[0.0, 2.5e6, 5e6]), "0|2.5 M|5.0 M");
        assert_eq!(write(&[0.0, 10_000.0, 20_000.0]), "0|10 k|20 k");
        assert_eq!(write(&[0.0, 0.001, 0.002]), "0|0.001|0.002");
    }
}
