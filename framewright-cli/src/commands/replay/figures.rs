//! Figures by name, in the order in which they are shown.

use framewright_lab::report::{Better, Metric, Unit};

pub(super) type Figures = Vec<(String, Metric)>;

pub(super) fn count(name: &str, value: u64, better: Option<Better>) -> (String, Metric) {
    (name.to_owned(), Metric::once(value as f64, Unit::Count, better))
}
