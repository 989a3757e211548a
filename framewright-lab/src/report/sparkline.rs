//! A series of points as a line of text.

use super::Point;

const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws `series` in at most `width` characters, from `low` (an empty step) to `high` (a full one).
/// Time is linear. A character shows the mean of its points; an interval without points repeats the
/// last value.
pub fn sparkline(series: &[Point], low: f64, high: f64, width: usize) -> String {
    let (Some(&Point(start, first)), Some(&Point(end, _))) = (series.first(), series.last()) else {
        return String::new();
    };
    let width = width.min(series.len()).max(1);
    let span = end - start;
    let mut line = String::with_capacity(width * 3);
    let mut points = series.iter().peekable();
    let mut value = first;
    for column in 0..width {
        let until = start + span * (column + 1) as f64 / width as f64;
        let last_column = column + 1 == width;
        let (mut sum, mut n) = (0.0, 0_u32);
        while let Some(point) = points.next_if(|point| last_column || point.0 < until) {
            sum += point.1;
            n += 1;
        }
        if n > 0 {
            value = sum / f64::from(n);
        }
        line.push(step(value, low, high));
    }
    line
}

fn step(value: f64, low: f64, high: f64) -> char {
    let top = STEPS.len() - 1;
    if high <= low {
        return STEPS[0];
    }
    let level = ((value - low) / (high - low) * top as f64).round();
    STEPS[(level.max(0.0) as usize).min(top)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Vec<Point> {
        values.iter().enumerate().map(|(t, v)| Point(t as f64, *v)).collect()
    }

    #[test]
    fn low_is_low_and_high_is_high() {
        assert_eq!(sparkline(&series(&[0.0, 4.0, 7.0, 99.0, -1.0]), 0.0, 7.0, 80), "▁▅██▁");
        assert_eq!(sparkline(&series(&[5.0, 5.0]), 5.0, 5.0, 80), "▁▁");
        assert_eq!(sparkline(&[], 0.0, 1.0, 80), "");
    }

    #[test]
    fn many_points_share_a_character() {
        let line = sparkline(&series(&[0.0, 0.0, 0.0, 7.0, 7.0, 7.0]), 0.0, 7.0, 2);
        assert_eq!(line, "▁█");
    }

    #[test]
    fn a_gap_repeats_the_last_value() {
        let gap = [Point(0.0, 7.0), Point(0.1, 7.0), Point(0.2, 7.0), Point(10.0, 0.0)];
        assert_eq!(sparkline(&gap, 0.0, 7.0, 4), "███▁");
    }
}
