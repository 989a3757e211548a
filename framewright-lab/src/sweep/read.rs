//! TOML to lists of values, with the place of each. Errors name file, line, key and value.

use std::ops::Range;

use framewright_sim::toml_file::{Fault, hint};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Greatest number of values of a range.
const MOST_VALUES: u64 = 1_000_000;

/// A value, and its place in the text.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) text: String,
    /// Whether it is `true` or `false` without quotes: an option without a value.
    pub(super) is_switch: bool,
    pub(super) at: Range<usize>,
}

impl Item {
    /// An error about this value of a key.
    pub(super) fn fault(&self, key: &str, reason: String) -> Fault {
        Fault::of_value(self.at.clone(), key, &self.text, reason)
    }
}

/// A key with its values.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) key: String,
    pub(super) items: Vec<Item>,
}

/// The values of a plan, or of one of its `[[runs]]`; those of absent keys are empty.
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

/// The drafts of all blocks. Each of `[[runs]]` replaces some of the common keys. Without `[[runs]]`, the
/// common keys are the only draft.
pub(super) fn drafts(text: &str) -> Result<Vec<Draft>, Fault> {
    let table = DeTable::parse(text)
        .map_err(|error| Fault::new(error.span(), "", error.message().to_owned()))?;
    let table = table.get_ref();
    let common = draft(table, Draft::default(), "runs")?;
    let Some(runs) = table.get("runs") else { return Ok(vec![common]) };
    let blocks = runs.get_ref().as_array().filter(|blocks| !blocks.is_empty());
    let is_no_list = |value: &Value<'_>| {
        Fault::at(value, "runs", "is a list of tables: write [[runs]] above each".into())
    };
    let Some(blocks) = blocks else { return Err(is_no_list(runs)) };
    let block = |value: &Value<'_>| {
        let Some(table) = value.get_ref().as_table() else { return Err(is_no_list(value)) };
        let draft = Draft { at: Some(value.span()), ..common.clone() };
        self::draft(table, draft, "")
    };
    blocks.iter().map(block).collect()
}

/// The draft `below`, with the keys of `table` in place of its own. `other` is a key that is read elsewhere.
fn draft(table: &DeTable<'_>, below: Draft, other: &str) -> Result<Draft, Fault> {
    let mut draft = below;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "workloads" => draft.workloads = values("workloads", value)?,
            "machines" => draft.machines = values("machines", value)?,
            "seeds" => draft.seeds = values("seeds", value)?,
            "options" => axes("options", value, &mut draft.options)?,
            "settings" => axes("settings", value, &mut draft.settings)?,
            known if known == other => {}
            unknown => {
                let known = ["workloads", "machines", "seeds", "options", "settings", "runs"];
                let reason = format!("there is no such key{}", hint(unknown, known.into_iter()));
                return Err(Fault::new(Some(key.span()), unknown, reason));
            }
        }
    }
    Ok(draft)
}

/// The keys of a section, nested (`pcp.batch = 31`) or not (`"pcp.batch" = 31`). They replace equal ones in `axes`.
fn axes(path: &str, value: &Value<'_>, axes: &mut Vec<Axis>) -> Result<(), Fault> {
    let Some(table) = value.get_ref().as_table() else {
        return Err(Fault::at(value, path, format!("is a section: write [{path}]")));
    };
    for (key, value) in table {
        let path = format!("{path}.{}", key.get_ref());
        let is_nested = value.get_ref().as_table().is_some_and(|it| it.get("from").is_none());
        if is_nested {
            self::axes(&path, value, axes)?;
            continue;
        }
        let items = values(&path, value)?;
        let key = path.split_once('.').map_or("", |(_, key)| key).to_owned();
        match axes.iter_mut().find(|axis| axis.key == key) {
            Some(axis) => axis.items = items,
            None => axes.push(Axis { key, items }),
        }
    }
    Ok(())
}

/// The values of a key: one, a list, or a range.
fn values(key: &str, value: &Value<'_>) -> Result<Vec<Item>, Fault> {
    let items = match value.get_ref() {
        DeValue::Array(items) if items.is_empty() => {
            return Err(Fault::at(value, key, "has no values".into()));
        }
        DeValue::Array(items) => {
            items.iter().map(|item| scalar(key, item)).collect::<Result<Vec<_>, _>>()?
        }
        DeValue::Table(table) => range(key, value, table)?,
        _ => vec![scalar(key, value)?],
    };
    for (nth, item) in items.iter().enumerate() {
        // A range has no equal values, and comparing a million values with each other takes long.
        let is_range = value.get_ref().is_table();
        if !is_range && items[..nth].iter().any(|other| other.text == item.text) {
            let reason = "is in the list twice".to_owned();
            return Err(item.fault(key, reason));
        }
    }
    Ok(items)
}

fn scalar(key: &str, value: &Value<'_>) -> Result<Item, Fault> {
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
        return Err(Fault::at(value, key, reason.into()));
    };
    let is_switch = matches!(value.get_ref(), DeValue::Boolean(_));
    Ok(Item { text, is_switch, at: value.span() })
}

/// A range: `{ from, to }`, with a `step` that is added or a factor `times`. `to` belongs to it if a step ends there.
fn range(key: &str, value: &Value<'_>, range: &DeTable<'_>) -> Result<Vec<Item>, Fault> {
    let fail = |reason: &str| Err(Fault::at(value, key, reason.to_owned()));
    const FORM: &str =
        "a range is { from = A, to = B }, with step = N (default 1) or times = N, of whole numbers";
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
    let item = |number: u64| Item { text: number.to_string(), is_switch: false, at: value.span() };
    Ok(numbers.into_iter().map(item).collect())
}
