//! Settings that differ from their defaults, and those in which runs differ.

use framewright::Tuning;
use indexmap::IndexSet;
use maud::{Markup, html};

use super::{
    figures::WIDE,
    table::{Cell, Table},
};
use crate::report::{Report, Run};

/// A row for each setting, a column for each run. A table of many runs has the settings as columns instead.
pub(super) fn render(report: &Report) -> Markup {
    let runs = &report.runs;
    if runs.is_empty() || runs.len() > WIDE {
        return html! {};
    }
    let keys: IndexSet<&String> = runs.iter().flat_map(|run| run.settings.keys()).collect();
    let defaults = Tuning::default();
    let header = ["setting", "default"].into_iter().chain(runs.iter().map(|run| &*run.label));
    let mut table = Table::new(header);
    for key in keys {
        let default = defaults.get(key).ok().map(|value| value.to_string());
        let is_default = |run: &Run| default.is_some() && run.settings.get(key) == default.as_ref();
        if runs.iter().all(is_default) {
            continue;
        }
        let values = runs.iter().map(|run| run.settings.get(key).cloned().unwrap_or_default());
        let cells = [key.clone(), default.unwrap_or_default()].into_iter().chain(values);
        table.row(cells.map(Cell::text));
    }
    html! {
        @if table.is_empty() {
            p { "All settings have their defaults." }
        } @else {
            (table.render(""))
        }
    }
}
