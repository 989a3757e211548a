//! A plan: all combinations of workloads, machines, options, settings and seeds.

use std::{collections::HashSet, fs, path::Path};

use framewright_sim::toml_file::{Fault, Source, TomlError};

use super::{
    entry::Entry,
    read::{Axis, Draft, Item, drafts},
};

/// The greatest size of a plan in bytes.
const MOST_BYTES: u64 = 16 << 20;
/// The greatest number of runs of a plan: identities of more runs would not fit into the memory of a small machine.
const MOST_RUNS: u64 = 100_000_000;

/// A machine that a plan names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The value of `--machine`.
    pub arg: String,
    /// The name in tables.
    pub name: String,
    /// The description, if it comes from a file: runs of a changed file are other runs.
    pub description: String,
}

/// The workloads, machines, options and settings that plans may name. Errors are messages for the user.
pub trait Catalog {
    /// The machines that a workload can run on and that `text` names.
    ///
    /// # Errors
    ///
    /// There is no such workload or machine, or the workload does not run on it.
    fn machines(&self, workload: &str, text: &str) -> Result<Vec<Machine>, String>;

    /// Checks that there is a workload.
    ///
    /// # Errors
    ///
    /// There is none.
    fn workload(&self, name: &str) -> Result<(), String>;

    /// Checks an option of a workload; `None`: an option without a value.
    ///
    /// # Errors
    ///
    /// There is no such option, or it does not take this value.
    fn option(&self, workload: &str, key: &str, value: Option<&str>) -> Result<(), String>;

    /// Checks a setting.
    ///
    /// # Errors
    ///
    /// There is no such setting, or it does not take this value.
    fn setting(&self, key: &str, value: &str) -> Result<(), String>;
}

/// A checked plan.
#[derive(Clone, Debug)]
pub struct Plan {
    blocks: Vec<Block>,
    columns: Vec<Column>,
}

/// A matrix of runs.
#[derive(Clone, Debug)]
struct Block {
    workloads: Vec<String>,
    machines: Vec<Machine>,
    options: Vec<(String, Vec<Value>)>,
    settings: Vec<(String, Vec<Value>)>,
    seeds: Vec<u64>,
}

/// A value of an option or setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) is_switch: bool,
}

/// An option or setting in which runs of the plan differ: a column of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// Whether all values are whole numbers.
    pub(super) is_whole: bool,
}

impl Plan {
    /// The plan in the file at `path`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has an error, which is named with its line, key and value.
    pub fn open(path: &Path, catalog: &dyn Catalog) -> Result<Self, TomlError> {
        let file = path.display().to_string();
        let fail = |reason: String| TomlError::about(&file, reason);
        let size = fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
        if size > MOST_BYTES {
            return Err(fail("is too large to be a plan".into()));
        }
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Self::from_toml(&file, &text, catalog)
    }

    /// The plan that `text` describes; errors name `file`.
    ///
    /// # Errors
    ///
    /// As [`Plan::open`].
    pub fn from_toml(file: &str, text: &str, catalog: &dyn Catalog) -> Result<Self, TomlError> {
        let block = |draft: &Draft| Block::of(draft, catalog);
        let blocks = drafts(text).and_then(|drafts| drafts.iter().map(block).collect());
        let source = Source { file, text };
        let blocks: Vec<Block> = blocks.map_err(|fault| source.error(fault))?;
        let add = |sum: u64, block: &Block| sum.checked_add(block.len()?);
        let runs = blocks.iter().try_fold(0, add);
        if runs.is_none_or(|runs| runs > MOST_RUNS) {
            return Err(TomlError::about(file, format!("has more than {MOST_RUNS} runs")));
        }
        let columns = columns(&blocks);
        Ok(Self { blocks, columns })
    }

    /// The number of runs.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.blocks.iter().filter_map(Block::len).sum()
    }

    /// Whether there are no runs. A plan that was read has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Run number `index`, counted from 0, in the order of the plan: the seed changes first, the workload last.
    ///
    /// # Panics
    ///
    /// If there is no such run.
    #[must_use]
    pub fn entry(&self, index: u64) -> Entry<'_> {
        let mut rest = index;
        for block in &self.blocks {
            let len = block.len().unwrap_or(0);
            if rest < len {
                return block.entry(rest);
            }
            rest -= len;
        }
        panic!("run {index} of {}", self.len());
    }

    /// The options and settings in which runs differ.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }
}

impl Block {
    fn of(draft: &Draft, catalog: &dyn Catalog) -> Result<Self, Fault> {
        for (key, items) in [("workloads", &draft.workloads), ("machines", &draft.machines)] {
            if items.is_empty() {
                let reason = format!("is missing: write {key} = [\"NAME\", ...]");
                return Err(Fault::new(draft.at.clone(), key, reason));
            }
        }
        for item in &draft.workloads {
            catalog.workload(&item.text).map_err(|reason| item.fault("workloads", reason))?;
        }
        let workloads: Vec<String> = draft.workloads.iter().map(|it| it.text.clone()).collect();
        let machines = machines(draft, catalog)?;
        let options = |item: &Item, key: &str| {
            let value = (!item.is_switch).then_some(item.text.as_str());
            workloads.iter().try_for_each(|workload| catalog.option(workload, key, value))
        };
        let settings = |item: &Item, key: &str| catalog.setting(key, &item.text);
        let seed = |item: &Item| {
            let reason = || "a seed is a whole number, 0 or more".to_owned();
            item.text.parse().map_err(|_| item.fault("seeds", reason()))
        };
        let seeds: Vec<u64> = draft.seeds.iter().map(seed).collect::<Result<_, _>>()?;
        Ok(Self {
            options: axes("options", &draft.options, &options)?,
            settings: axes("settings", &draft.settings, &settings)?,
            seeds: if seeds.is_empty() { vec![1] } else { seeds },
            workloads,
            machines,
        })
    }

    /// The number of its runs; `None` if it is too large.
    fn len(&self) -> Option<u64> {
        let axes = self.options.iter().chain(&self.settings).map(|(_, values)| values.len());
        let others = [self.workloads.len(), self.machines.len(), self.seeds.len()];
        others.into_iter().chain(axes).try_fold(1, |len: u64, axis| len.checked_mul(axis as u64))
    }

    fn entry(&self, index: u64) -> Entry<'_> {
        let mut rest = index;
        let mut turn = |len: usize| {
            let at = rest % len as u64;
            rest /= len as u64;
            at as usize
        };
        let seed = self.seeds[turn(self.seeds.len())];
        let mut chosen = |axes: &'_ [(String, Vec<Value>)]| -> Vec<usize> {
            let mut at: Vec<usize> = axes.iter().rev().map(|axis| turn(axis.1.len())).collect();
            at.reverse();
            at
        };
        let (settings, options) = (chosen(&self.settings), chosen(&self.options));
        Entry {
            options: pairs(&self.options, &options),
            settings: pairs(&self.settings, &settings),
            machine: &self.machines[turn(self.machines.len())],
            workload: &self.workloads[turn(self.workloads.len())],
            seed,
        }
    }
}

fn pairs<'p>(axes: &'p [(String, Vec<Value>)], chosen: &[usize]) -> Vec<(&'p str, &'p Value)> {
    axes.iter().zip(chosen).map(|((key, values), at)| (key.as_str(), &values[*at])).collect()
}

/// The machines of a block, each of which has its own name.
fn machines(draft: &Draft, catalog: &dyn Catalog) -> Result<Vec<Machine>, Fault> {
    let mut all: Vec<Machine> = Vec::new();
    for item in &draft.machines {
        let fail = |reason| item.fault("machines", reason);
        let mut found = Vec::new();
        for workload in &draft.workloads {
            found = catalog.machines(&workload.text, &item.text).map_err(fail)?;
        }
        for machine in found {
            if all.iter().any(|other| other.name == machine.name) {
                return Err(fail(format!(
                    "a machine called {} is in the list twice",
                    machine.name
                )));
            }
            all.push(machine);
        }
    }
    Ok(all)
}

type Check<'c> = dyn Fn(&Item, &str) -> Result<(), String> + 'c;

/// The values of a section, checked.
fn axes(
    section: &str,
    axes: &[Axis],
    check: &Check<'_>,
) -> Result<Vec<(String, Vec<Value>)>, Fault> {
    let axis = |axis: &Axis| {
        let value = |item: &Item| {
            let key = format!("{section}.{}", axis.key);
            check(item, &axis.key).map_err(|reason| item.fault(&key, reason))?;
            Ok(Value { text: item.text.clone(), is_switch: item.is_switch })
        };
        let values = axis.items.iter().map(value).collect::<Result<_, _>>()?;
        Ok((axis.key.clone(), values))
    };
    axes.iter().map(axis).collect()
}

/// The options, then the settings, that do not have one value in all blocks.
fn columns(blocks: &[Block]) -> Vec<Column> {
    type Axes = fn(&Block) -> &[(String, Vec<Value>)];
    let kinds: [Axes; 2] = [|block| &block.options, |block| &block.settings];
    let mut columns = Vec::new();
    for of in kinds {
        let mut seen = HashSet::new();
        for (key, _) in blocks.iter().flat_map(of) {
            if !seen.insert(key) {
                continue;
            }
            let axis = |block| of(block).iter().find(|(other, _)| other == key);
            let given: Vec<_> = blocks.iter().filter_map(axis).collect();
            let values: HashSet<&Value> = given.iter().flat_map(|(_, values)| values).collect();
            if values.len() > 1 || given.len() < blocks.len() {
                let is_whole = values.iter().all(|value| value.is_whole());
                columns.push(Column { name: key.clone(), is_whole });
            }
        }
    }
    columns
}

impl Value {
    fn is_whole(&self) -> bool {
        self.text.parse::<i64>().is_ok_and(|number| number.to_string() == self.text)
    }
}
