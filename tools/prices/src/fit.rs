//! The prices that fit counted instructions best: least squares of relative errors, without negative prices.
//!
//! Work that no workload separates from other work would get an arbitrary price. So each price is also drawn, weakly,
//! to the present one.

use std::{collections::BTreeMap, fmt::Write as _};

use framewright::platform::Cost;
use framewright_sim::{machine::Library, platform::tenths};

use crate::Sample;

/// A part of fewer instructions counts less than others.
const FEW: f64 = 500_000.0;
/// Weight of the present prices.
const PRESENT: f64 = 0.05;
/// Steps of the descent: far more than it needs.
const STEPS: usize = 20_000;

/// An equation: factors of the prices, and their sum.
struct Row {
    factors: Vec<f64>,
    sum: f64,
}

/// Lines for a machine file, a price in each, as tenths of an instruction.
pub(crate) fn parameters(samples: &[Sample], present: &Library) -> String {
    let mut kinds = BTreeMap::new();
    for &(cost, _) in samples.iter().flat_map(|sample| &sample.reported) {
        let next = kinds.len();
        kinds.entry(cost).or_insert(next);
    }
    let before = |cost| (tenths(present, cost) as f64 / 10.0).max(0.1);
    let mut rows: Vec<Row> = samples.iter().map(|sample| row(sample, &kinds)).collect();
    for (&cost, &i) in &kinds {
        let mut factors = vec![0.0; kinds.len()];
        factors[i] = PRESENT / before(cost);
        rows.push(Row { factors, sum: PRESENT });
    }
    let mut prices = vec![0.0; kinds.len()];
    for (&cost, &i) in &kinds {
        prices[i] = before(cost);
    }
    descend(&rows, &mut prices);
    kinds.iter().fold(String::new(), |mut text, (cost, &i)| {
        _ = writeln!(text, "{} = {{ tenths = {:.0} }}", key(*cost), prices[i] * 10.0);
        text
    })
}

fn row(sample: &Sample, kinds: &BTreeMap<Cost, usize>) -> Row {
    let weight = 1.0 / (sample.counted as f64).max(FEW);
    let mut factors = vec![0.0; kinds.len()];
    for (cost, units) in &sample.reported {
        factors[kinds[cost]] = *units as f64 * weight;
    }
    Row { factors, sum: sample.counted as f64 * weight }
}

/// Coordinate descent: each step sets one price to its best value for the values of the others, but not below 0.
fn descend(rows: &[Row], prices: &mut [f64]) {
    let rest = |row: &Row, prices: &[f64]| -> f64 {
        row.sum - row.factors.iter().zip(prices).map(|(factor, price)| factor * price).sum::<f64>()
    };
    for step in 0..STEPS {
        let i = step % prices.len();
        let (slope, curve) = rows.iter().filter(|row| row.factors[i] != 0.0).fold(
            (0.0, 0.0),
            |(slope, curve), row| {
                let factor = row.factors[i];
                (slope + factor * rest(row, prices), curve + factor * factor)
            },
        );
        prices[i] = (prices[i] + slope / curve).max(0.0);
    }
}

/// The key of the parameter for a kind of work: `TakeFrames` is `take_frames`.
fn key(cost: Cost) -> String {
    let mut key = String::new();
    for letter in format!("{cost:?}").chars() {
        if letter.is_uppercase() && !key.is_empty() {
            key.push('_');
        }
        key.push(letter.to_ascii_lowercase());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descent_finds_the_prices_of_equations_that_agree() {
        let row = |a: f64, b: f64| Row { factors: vec![a, b], sum: 30.0 * a + 7.0 * b };
        let mut prices = [1.0, 1.0];
        descend(&[row(1.0, 0.0), row(2.0, 5.0), row(1.0, 9.0)], &mut prices);
        assert!((prices[0] - 30.0).abs() < 1e-6 && (prices[1] - 7.0).abs() < 1e-6, "{prices:?}");
    }

    #[test]
    fn no_price_is_negative() {
        let rows =
            [Row { factors: vec![1.0, 0.0], sum: 10.0 }, Row { factors: vec![1.0, 1.0], sum: 4.0 }];
        let mut prices = [1.0, 1.0];
        descend(&rows, &mut prices);
        assert!(prices[1] == 0.0 && (prices[0] - 7.0).abs() < 1e-6, "{prices:?}");
    }

    #[test]
    fn keys_are_those_of_machine_files() {
        assert_eq!(key(Cost::TakeHighOrder), "take_high_order");
    }
}
