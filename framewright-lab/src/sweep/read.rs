//! TOML to lists of values, with the place of each. Errors name file, line, key and value.

use std::{fmt, ops::Range};

use framewright_sim::machine::nearest_name;
use thiserror::Error;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Greatest number of characters of a value in an error.
const SHOWN: usize = 60;
/// Greatest number of values of a range.
const MOST_VALUES: u64 = 1_000_000;

/// An error in a plan, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct PlanError {
    /// The file.
    pub file: String,
    /// The line, counted from 1, if the error is in a line.
    pub line: Option<usize>,
    /// The key with its section; empty if the error is about no key.
    pub key: String,
    /// The value, shortened if it is long.
    pub value: Option<String>,
    /// The reason, and what is allowed.
    pub reason: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// A value, and its place in the text.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) text: String,
    /// Whether it is `true` or `false` without quotes: an option without a value.
    pub(super) is_switch: bool,
    pub(super) at: Range<usize>,
}

/// A key with its values.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) key: String,
    pub(super) items: Vec<Item>,
}

/// What a plan, or one of its `[[runs]]`, says; absent parts are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) workloads: Vec<Item>,
    pub(super) machines: Vec<Item>,
    pub(super) seeds: Vec<Item>,
    pub(super) options: Vec<Axis>,
    pub(super) settings: Vec<Axis>,
    /// The place of the header of `[[runs]]`.
    pub(super) at: Option<Range<usize>>,
}

type Value<'t> = Spanned<DeValue<'t>>;

/// The text of a plan.
pub(super) struct Source<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

impl Source<'_> {
    /// The drafts of all blocks: one for each of `[[runs]]` on top of the keys outside, or one of these keys alone.
    pub(super) fn drafts(&self) -> Result<Vec<Draft>, PlanError> {
        let table = DeTable::parse(self.text)
            .map_err(|error| self.error(error.span(), "", error.message().to_owned()))?;
        let table = table.get_ref();
        let common = self.draft(table, Draft::default(), "runs")?;
        let Some(runs) = table.get("runs") else { return Ok(vec![common]) };
        let blocks = runs.get_ref().as_array().filter(|blocks| !blocks.is_empty());
        let Some(blocks) = blocks else {
            return Err(self.at(
                runs,
                "runs",
                "is a list of tables: write [[runs]] above each".into(),
            ));
        };
        let block = |value: &Value<'_>| {
            let Some(table) = value.get_ref().as_table() else {
                return Err(self.at(
                    value,
                    "runs",
                    "is a list of tables: write [[runs]] above each".into(),
                ));
            };
            let draft = Draft { at: Some(value.span()), ..common.clone() };
            self.draft(table, draft, "")
        };
        blocks.iter().map(block).collect()
    }

    /// `below`, with what `table` says. `other` is a key that is read elsewhere.
    fn draft(&self, table: &DeTable<'_>, below: Draft, other: &str) -> Result<Draft, PlanError> {
        let mut draft = below;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "workloads" => draft.workloads = self.values("workloads", value)?,
                "machines" => draft.machines = self.values("machines", value)?,
                "seeds" => draft.seeds = self.values("seeds", value)?,
                "options" => self.axes("options", value, &mut draft.options)?,
                "settings" => self.axes("settings", value, &mut draft.settings)?,
                known if known == other => {}
                unknown => {
                    let known = ["workloads", "machines", "seeds", "options", "settings", "runs"];
                    let hint = match nearest_name(unknown, known.into_iter()) {
                        Some(word) => format!("; the nearest is '{word}'"),
                        None => format!("; valid: {}", known.join(", ")),
                    };
                    let reason = format!("there is no such key{hint}");
                    return Err(self.error(Some(key.span()), unknown, reason));
                }
            }
        }
        Ok(draft)
    }

    /// The keys of a section, nested (`pcp.batch = 31`) or not (`"pcp.batch" = 31`). They replace equal ones in `axes`.
    fn axes(&self, path: &str, value: &Value<'_>, axes: &mut Vec<Axis>) -> Result<(), PlanError> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.at(value, path, format!("is a section: write [{path}]")));
        };
        for (key, value) in table {
            let path = format!("{path}.{}", key.get_ref());
            let is_nested = value.get_ref().as_table().is_some_and(|it| it.get("from").is_none());
            if is_nested {
                self.axes(&path, value, axes)?;
                continue;
            }
            let items = self.values(&path, value)?;
            let key = path.split_once('.').map_or("", |(_, key)| key).to_owned();
            match axes.iter_mut().find(|axis| axis.key == key) {
                Some(axis) => axis.items = items,
                None => axes.push(Axis { key, items }),
            }
        }
        Ok(())
    }

    /// The values of a key: one, a list, or a range.
    fn values(&self, key: &str, value: &Value<'_>) -> Result<Vec<Item>, PlanError> {
        let items = match value.get_ref() {
            DeValue::Array(items) if items.is_empty() => {
                return Err(self.at(value, key, "has no values".into()));
            }
            DeValue::Array(items) => {
                items.iter().map(|item| self.scalar(key, item)).collect::<Result<Vec<_>, _>>()?
            }
            DeValue::Table(range) => self.range(key, value, range)?,
            _ => vec![self.scalar(key, value)?],
        };
        for (nth, item) in items.iter().enumerate() {
            // A range has no equal values, and comparing a million values with each other takes long.
            let is_range = value.get_ref().is_table();
            if !is_range && items[..nth].iter().any(|other| other.text == item.text) {
                let reason = "is in the list twice".to_owned();
                return Err(self.error_at(item, key, reason));
            }
        }
        Ok(items)
    }

    fn scalar(&self, key: &str, value: &Value<'_>) -> Result<Item, PlanError> {
        let text = match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(it) => {
                i128::from_str_radix(it.as_str(), it.radix()).ok().map(|number| number.to_string())
            }
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            DeValue::Boolean(switch) => Some(switch.to_string()),
            _ => None,
        };
        let text = text.filter(|text| !text.chars().any(char::is_control));
        let Some(text) = text else {
            let reason = "takes a text of one line, a number, true or false, a list of these, or a range, as in \
                          { from = 8, to = 64, times = 2 }";
            return Err(self.at(value, key, reason.into()));
        };
        let is_switch = matches!(value.get_ref(), DeValue::Boolean(_));
        Ok(Item { text, is_switch, at: value.span() })
    }

    /// A range: `{ from, to }`, with a `step` that is added or a factor `times`. Both ends belong to it.
    fn range(
        &self,
        key: &str,
        value: &Value<'_>,
        range: &DeTable<'_>,
    ) -> Result<Vec<Item>, PlanError> {
        let fail = |reason: &str| Err(self.at(value, key, reason.to_owned()));
        const FORM: &str = "a range is { from = A, to = B }, with step = N (default 1) or times = N, of whole numbers";
        let (mut ends, mut step, mut times) = ([None; 2], None, None);
        for (name, number) in range {
            let number = number
                .get_ref()
                .as_integer()
                .and_then(|it| u64::from_str_radix(it.as_str(), it.radix()).ok());
            match (name.get_ref().as_ref(), number) {
                ("from", Some(number)) => ends[0] = Some(number),
                ("to", Some(number)) => ends[1] = Some(number),
                ("step", Some(number)) => step = Some(number),
                ("times", Some(number)) => times = Some(number),
                _ => return fail(FORM),
            }
        }
        let [Some(from), Some(to)] = ends else { return fail(FORM) };
        let next = |at: &u64| match (step, times) {
            (_, Some(times)) => at.checked_mul(times),
            (step, None) => at.checked_add(step.unwrap_or(1)),
        };
        let grows = next(&from).is_none_or(|next| next > from);
        if (step.is_some() && times.is_some()) || from > to || !grows {
            return fail(FORM);
        }
        let numbers: Vec<u64> = std::iter::successors(Some(from), next)
            .take_while(|number| *number <= to)
            .take(MOST_VALUES as usize + 1)
            .collect();
        if numbers.len() as u64 > MOST_VALUES {
            return fail(&format!("has more than {MOST_VALUES} values"));
        }
        let item =
            |number: u64| Item { text: number.to_string(), is_switch: false, at: value.span() };
        Ok(numbers.into_iter().map(item).collect())
    }

    /// The error about an item.
    pub(super) fn error_at(&self, item: &Item, key: &str, reason: String) -> PlanError {
        let value = Some(shown(&item.text));
        PlanError { value, ..self.error(Some(item.at.clone()), key, reason) }
    }

    /// The error about a value. A table shows its place alone.
    fn at(&self, value: &Value<'_>, key: &str, reason: String) -> PlanError {
        let text = self.text.get(value.span()).filter(|text| !text.starts_with('['));
        PlanError { value: text.map(shown), ..self.error(Some(value.span()), key, reason) }
    }

    /// The error at a place, without a value.
    pub(super) fn error(&self, at: Option<Range<usize>>, key: &str, reason: String) -> PlanError {
        let line = |at: Range<usize>| {
            let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
            before.iter().filter(|byte| **byte == b'\n').count() + 1
        };
        let (file, key) = (self.file.to_owned(), key.to_owned());
        PlanError { file, line: at.map(line), key, value: None, reason }
    }
}

/// The first line of a value, shortened.
fn shown(text: &str) -> String {
    let mut shown: String = text.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
    if shown.len() < text.trim_end().len() {
        shown.push('…');
    }
    shown
}
