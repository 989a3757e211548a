//! Numbers as tables show them: no separators, so that the tools people have can read them too.

/// A number with `decimals` digits behind the point. What rounds to zero has no sign.
pub fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// "the run", or "each of 3 runs".
pub fn each_run(runs: u64) -> String {
    if runs == 1 { "the run".to_owned() } else { format!("each of {runs} runs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_and_zero_has_no_sign() {
        assert_eq!(decimal(1234.567, 2), "1234.57");
        assert_eq!(decimal(-1234.5, 1), "-1234.5");
        assert_eq!(decimal(-0.001, 2), "0.00");
        assert_eq!(decimal(41.0, 0), "41");
    }
}
