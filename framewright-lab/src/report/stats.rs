//! Statistics over seeds: confidence intervals of means, and a test whether two sets of values differ.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The mean of `values`, and half of the width of its 95 % confidence interval by Student's t distribution. `None` with
/// fewer than two values.
pub(crate) fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let deviation = (squares / (count - 1.0)).sqrt();
    let quantile = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(0.975);
    Some((mean, quantile * deviation / count.sqrt()))
}

/// The largest number of values in both sets together for which the exact distribution is computed. For more values,
/// the normal approximation is used.
const EXACT: usize = 40;

/// The two-sided p-value of the U test of Mann and Whitney: the probability of rank sums that differ at least as much,
/// if both sets are drawn from one distribution. Equal values have their mean rank. `None` if a set is empty.
pub(super) fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let ranks: Vec<usize> = all.iter().map(|value| doubled_rank(*value, &all)).collect();
    let sum: usize = ranks[..a.len()].iter().sum();
    Some(match all.len() {
        ..=EXACT => exact(&ranks, a.len(), sum),
        _ => approximate(&ranks, a.len(), sum),
    })
}

/// Twice the mean rank of a value, counted from 1.
fn doubled_rank(value: f64, all: &[f64]) -> usize {
    let below = all.iter().filter(|other| **other < value).count();
    let equal = all.iter().filter(|other| **other == value).count();
    2 * below + equal + 1
}

/// The share of all choices of `count` ranks whose sum is at least as far from the mean as `sum`.
fn exact(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // ways[n][s]: the number of choices of n ranks with the sum s.
    let mut ways = vec![vec![0.0; total + 1]; count + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for chosen in (1..=count).rev() {
            for sum in *rank..=total {
                let more = ways[chosen - 1][sum - rank];
                ways[chosen][sum] += more;
            }
        }
    }
    // Distances from the mean, times the number of ranks: whole numbers.
    let mean = total * count;
    let distance = |sum: usize| (sum * ranks.len()).abs_diff(mean);
    let far = |(other, _): &(usize, &f64)| distance(*other) >= distance(sum);
    let extreme: f64 = ways[count].iter().enumerate().filter(far).map(|(_, ways)| ways).sum();
    extreme / ways[count].iter().sum::<f64>()
}

/// As [`exact`], by the normal distribution with the mean and variance of the sum, which include ties.
fn approximate(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let (all, chosen) = (ranks.len() as f64, count as f64);
    let mean = ranks.iter().sum::<usize>() as f64 / all;
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum();
    let variance = squares / all * chosen * (all - chosen) / (all - 1.0);
    if variance == 0.0 {
        return 1.0;
    }
    // Ranks are doubled, so 1 is the correction for continuity.
    let distance = ((sum as f64 - mean * chosen).abs() - 1.0).max(0.0);
    2.0 * Normal::standard().sf(distance / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, error: f64) {
        assert!((value - expected).abs() <= error, "{value} instead of {expected}");
    }

    #[test]
    fn intervals_are_those_of_students_t() {
        let (mean, half) = mean_interval(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(mean, 2.0);
        // The quantile of published tables for two degrees of freedom is 4.303.
        near(half, 4.303 / 3.0_f64.sqrt(), 1e-3);
        assert_eq!(mean_interval(&[7.0]), None);
        assert_eq!(mean_interval(&[7.0, 7.0]), Some((7.0, 0.0)));
    }

    #[test]
    fn small_sets_have_the_exact_p_value() {
        // Two of the 20 choices of three of six ranks are as extreme.
        near(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap(), 0.1, 1e-12);
        near(mann_whitney(&[1.0, 3.0], &[2.0, 4.0]).unwrap(), 4.0 / 6.0, 1e-12);
        let five = [[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]];
        near(mann_whitney(&five[0], &five[1]).unwrap(), 2.0 / 252.0, 1e-12);
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0, 1.0]), Some(1.0));
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    #[test]
    fn the_approximation_agrees_with_the_exact_value() {
        let a: Vec<f64> = (0..20).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|value| value + 5.5).collect();
        let all: Vec<f64> = a.iter().chain(&b).copied().collect();
        let ranks: Vec<usize> = all.iter().map(|value| doubled_rank(*value, &all)).collect();
        let sum = ranks[..20].iter().sum();
        near(approximate(&ranks, 20, sum), exact(&ranks, 20, sum), 0.002);
        let many: Vec<f64> = (0..50).map(f64::from).collect();
        assert!(mann_whitney(&many, &many.clone()).unwrap() > 0.99);
        assert_eq!(mann_whitney(&[3.0; 30], &[3.0; 30]), Some(1.0));
    }
}
