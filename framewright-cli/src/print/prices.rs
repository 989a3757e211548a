//! The result of `prices`.

use std::fmt::Write;

use framewright_lab::report::{Style, Table, Tone, decimal};
use framewright_lab::reproduce::{MOST_LEFT_PERCENT, Origin, Times};

use super::{bold, paragraph};

/// A row per mechanism; below, the compared settings and the costs that were set to zero.
pub(crate) fn prices(origins: &[Origin], style: Style) -> String {
    let header = ["mechanism", "machine", "saves", "without its prices", "left", ""];
    let mut table = Table::new(header, style).left_aligned(1).left_aligned(5);
    for origin in origins {
        let (word, tone) = if origin.holds() {
            ("from its prices", Tone::Good)
        } else {
            ("NOT ONLY FROM ITS PRICES", Tone::Bad)
        };
        let plain = |text: String| (text, Tone::Plain);
        table.row([
            plain(origin.mechanism.name.to_owned()),
            plain(origin.mechanism.machine.to_owned()),
            plain(saved(origin.priced)),
            plain(saved(origin.free)),
            plain(format!("{} %", decimal(origin.left_percent(), 2))),
            (word.to_owned(), tone),
        ]);
    }
    let mut text = format!("{table}\nleft: of what is saved; at most {MOST_LEFT_PERCENT} %\n");
    for Origin { mechanism, .. } in origins {
        let [key, before, after] = mechanism.setting;
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "\n{}", bold(mechanism.name, style));
        let _ = writeln!(text, "time: {}", mechanism.figure);
        let _ = writeln!(text, "change: {key}={before}, then {after}");
        text.push_str(&paragraph(&format!("prices: {}", mechanism.prices.join(" "))));
    }
    text
}

/// The time that is saved, and the time without the mechanism.
fn saved(times: Times) -> String {
    format!("{} of {}", scaled(times.saved()), scaled(times.before))
}

/// Nanoseconds, in the largest unit that gives at least one.
fn scaled(nanos: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let fits = UNITS.iter().find(|(unit, _)| nanos.abs() >= *unit).or(UNITS.last());
    let &(unit, name) = fits.unwrap_or(&(1.0, "ns"));
    format!("{} {name}", decimal(nanos / unit, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_handy_units() {
        for (nanos, text) in
            [(0.25, "0.25 ns"), (-34.5, "-34.50 ns"), (5_200_000.0, "5.20 ms"), (1.5e9, "1.50 s")]
        {
            assert_eq!(scaled(nanos), text);
        }
    }
}
