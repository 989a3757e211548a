//! Numbers as people read them: a few digits and a unit.

/// A number with `decimals` digits behind the point. A number that rounds to zero has no sign.
pub fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// A time of `nanos` nanoseconds with three significant digits, in the largest unit that gives at
/// least one.
pub fn scaled_nanos(nanos: f64) -> String {
    let (value, unit) = scaled(nanos, &TIMES);
    format!("{value} {unit}")
}

/// The units of time, in nanoseconds.
const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

/// Prefixes of large numbers.
pub(super) const COUNTS: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// The units of sizes, in bytes.
pub(super) const BYTES: [(f64, &str); 5] = [
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "bytes"),
];

/// `value` with three significant digits in the largest of `units` that gives at least one, and the
/// name of that unit.
pub fn scaled<'u>(value: f64, units: &[(f64, &'u str)]) -> (String, &'u str) {
    let fits = units.iter().find(|(unit, _)| value.abs() >= *unit).or(units.last());
    let &(unit, name) = fits.unwrap_or(&(1.0, ""));
    let value = value / unit;
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    (decimal(value, decimals), name)
}

/// A number and a noun, with a plural `s` unless the number is 1.
pub fn several(number: impl Into<u64>, thing: &str) -> String {
    let number = number.into();
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// "the run", or "each of 3 runs".
pub fn each_run(runs: u64) -> String {
    if runs == 1 { "the run".to_owned() } else { format!("each of {runs} runs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (nanos, text) in [
            (0.25, "0.25 ns"),
            (-34.56, "-34.6 ns"),
            (2_000.0, "2.00 µs"),
            (5_200_000.0, "5.20 ms"),
            (1.5e9, "1.50 s"),
        ] {
            assert_eq!(scaled_nanos(nanos), text);
        }
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0u8, 1, 2].map(|n| several(n, "line")), ["0 lines", "1 line", "2 lines"]);
        assert_eq!([1, 2].map(each_run), ["the run", "each of 2 runs"]);
    }

    #[test]
    fn decimals_are_rounded_and_zero_has_no_sign() {
        assert_eq!(decimal(1234.567, 2), "1234.57");
        assert_eq!(decimal(-1234.5, 1), "-1234.5");
        assert_eq!(decimal(-0.001, 2), "0.00");
        assert_eq!(decimal(41.0, 0), "41");
    }
}
