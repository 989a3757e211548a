//! The list of settings.

use std::fmt::Write;

use framewright::tuning::Key;
use framewright_lab::report::Style;

use super::bold;

/// One paragraph per setting.
pub(crate) fn tuning(keys: &[&Key], style: Style) -> String {
    let mut text = String::new();
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", bold(key.path, style));
        for (name, value) in [
            ("default", key.default),
            ("range", key.range),
            ("meaning", key.meaning),
            ("source", key.source),
        ] {
            let _ = writeln!(text, "  {name:8} {value}");
        }
    }
    text
}
