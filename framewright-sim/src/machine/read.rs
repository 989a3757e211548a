//! TOML to a [`Spec`]. Errors name file, line, key and value.
//!
//! A description is read into a *draft* of its base machine, whose values it replaces. The result
//! must be complete.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::basis::Provenance;
use super::costs::{Costs, PARAMETERS};
use super::parameter::sections;
use super::plausible::{self, Implausible};
use super::presets::{COMMON, base, built_in, presets};
use super::spec::{Figure, Inherited, Spec};
use super::topology::Topology;
use crate::toml_file::{Fault, Source, TomlError, hint};

mod section;
mod topology;

use section::Sourcing;

/// The greatest size of a description in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// The longest name and description, in characters.
const LONGEST: usize = 200;

/// A machine whose description may be incomplete.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) topology: Option<Topology>,
    costs: Costs,
    /// The source of each parameter; `None` until it is given.
    provenance: Vec<Option<Provenance>>,
    /// The base machine; `None` for [`COMMON`].
    base: Option<String>,
    /// The parts that the description itself gives: topology, and parameters by index.
    own_topology: bool,
    own: BTreeSet<usize>,
}

impl Spec {
    /// The machine that the file at `path` describes.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has an error, which is named with its line, key and value.
    pub fn from_file(path: &Path) -> Result<Self, TomlError> {
        let file = path.display().to_string();
        let text = text_of(path).map_err(|error| TomlError::about(&file, error.to_string()))?;
        Self::from_toml(&file, &text)
    }

    /// The machine that `text` describes; errors name `file`.
    ///
    /// # Errors
    ///
    /// The error, with its line, key and value.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, TomlError> {
        let draft = read(file, text, None)?;
        let inherited = draft.inherited();
        let spec = Spec { inherited, ..draft.finish(file)? };
        let Some(reason) = borrowed_name(&spec) else { return Ok(spec) };
        let table = DeTable::parse(text).ok();
        let value = table.as_ref().and_then(|table| table.get_ref().get("name"));
        let fault = match value {
            Some(value) => Fault::at(value, "name", reason),
            None => Fault::new(None, "name", reason),
        };
        Err(Source { file, text }.error(fault))
    }
}

/// The text of a file. The limit of its size is far above that of any description.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    if text.len() as u64 == MOST_BYTES {
        return Err(io::Error::other("is too large to be the description of a machine"));
    }
    Ok(text)
}

impl Draft {
    /// The complete machine.
    pub(super) fn finish(self, file: &str) -> Result<Spec, TomlError> {
        let missing = |what: &str| TomlError::about(file, format!("there is no {what}"));
        let topology = self.topology.ok_or_else(|| {
            missing("[topology]: sockets, cores_per_socket, threads_per_core, nodes")
        })?;
        let mut provenance = self.provenance.into_iter();
        let parameters = PARAMETERS
            .iter()
            .map(|parameter| provenance.next().flatten().ok_or_else(|| missing(parameter.key)));
        Ok(Spec {
            provenance: parameters.collect::<Result<_, _>>()?,
            name: self.name.ok_or_else(|| missing("name"))?,
            description: self.description.unwrap_or_default(),
            topology,
            costs: self.costs,
            inherited: None,
        })
    }

    /// The parts that are inherited from the base machine.
    fn inherited(&self) -> Option<Inherited> {
        let base = self.base.clone()?;
        let parameters = PARAMETERS.iter().enumerate();
        let parameters = parameters.filter(|(index, _)| !self.own.contains(index));
        let parameters: Vec<_> = parameters.map(|(_, parameter)| parameter.key).collect();
        let topology = self.topology.is_some() && !self.own_topology;
        (topology || !parameters.is_empty()).then_some(Inherited { base, topology, parameters })
    }

    fn set(&mut self, index: usize, value: u64, provenance: Provenance) {
        PARAMETERS[index].set(&mut self.costs, value);
        self.provenance.resize(PARAMETERS.len(), None);
        self.provenance[index] = Some(provenance);
        self.own.insert(index);
    }
}

/// Reads `text` into the draft `below`, or into the draft of its base machine.
pub(super) fn read(file: &str, text: &str, below: Option<Draft>) -> Result<Draft, TomlError> {
    let source = Source { file, text };
    apply(text, below).map_err(|fault| source.error(fault))
}

fn apply(text: &str, below: Option<Draft>) -> Result<Draft, Fault> {
    let table = DeTable::parse(text)
        .map_err(|error| Fault::new(error.span(), "", error.message().to_owned()))?;
    let table = table.get_ref();
    let mut draft = match below {
        Some(draft) => draft,
        None => on_top_of(table)?,
    };
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "base" => {}
            "name" => draft.name = Some(name(value)?),
            "description" => draft.description = Some(string("description", value)?),
            "topology" => {
                draft.topology = Some(topology::read(value)?);
                draft.own_topology = true;
            }
            section if sections().any(|known| known == section) => {
                section::read(&mut draft, section, value)?;
            }
            unknown => {
                let known = ["name", "description", "base", "topology"].into_iter();
                return Err(unknown_key(key.span(), "", unknown, known.chain(sections())));
            }
        }
    }
    plausible::check(&draft.costs).map_err(|found| implausible(table, found))?;
    Ok(draft)
}

/// The error for figures that do not fit together, at the first of them that the description gives.
fn implausible(table: &DeTable<'_>, found: Implausible) -> Fault {
    let Implausible { keys, reason } = found;
    let given = |key: &&'static str| {
        let (section, name) = key.split_once('.')?;
        let value = table.get(section)?.get_ref().as_table()?.get(name)?;
        Some((*key, value))
    };
    match keys.iter().find_map(given) {
        Some((key, value)) => Fault::at(value, key, reason),
        None => Fault::new(None, keys[0], reason),
    }
}

/// The draft that the description names as its base.
fn on_top_of(table: &DeTable<'_>) -> Result<Draft, Fault> {
    match table.get("base") {
        None => draft_of(COMMON).map_err(|reason| Fault::new(None, "base", reason)),
        Some(value) => {
            let name = string("base", value)?;
            draft_of(&name).map_err(|reason| Fault::at(value, "base", reason))
        }
    }
}

fn draft_of(name: &str) -> Result<Draft, String> {
    match base(name) {
        Some(Ok(Draft { topology, costs, provenance, .. })) => {
            let base = Some(name.to_owned());
            Ok(Draft { topology, costs, provenance, base, ..Draft::default() })
        }
        // A test reads all presets, so only a new preset can cause this error.
        Some(Err(error)) => Err(error.to_string()),
        None => Err(format!("there is no such machine{}", hint(name, presets().chain([COMMON])))),
    }
}

/// The error if a machine has the name of a preset and differs from it: its results could be
/// confused with those of the preset.
fn borrowed_name(spec: &Spec) -> Option<String> {
    let original = built_in(&spec.name)?;
    let other = |(ours, theirs): (Figure<'_>, Figure<'_>)| {
        (ours.value != theirs.value).then_some(ours.parameter.key)
    };
    let what = if !spec.topology.is_laid_out_like(&original.topology) {
        "topology"
    } else {
        spec.parameters().zip(original.parameters()).find_map(other)?
    };
    Some(format!("the built-in machine of this name has another {what}: choose another name"))
}

fn name(value: &Spanned<DeValue<'_>>) -> Result<String, Fault> {
    let name = string("name", value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        let reason = "a name is letters, digits, '-', '_', '.' and ':'";
        return Err(Fault::at(value, "name", reason.into()));
    }
    Ok(name)
}

/// A short text of one line.
fn string(key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, Fault> {
    let Some(text) = value.get_ref().as_str() else {
        return Err(Fault::at(value, key, "takes a string in quotes".into()));
    };
    if text.chars().count() > LONGEST || text.chars().any(char::is_control) {
        let reason = format!("takes one line of at most {LONGEST} characters");
        return Err(Fault::at(value, key, reason));
    }
    Ok(text.to_owned())
}

/// The whole number in `value`.
fn whole(key: &str, value: &Spanned<DeValue<'_>>) -> Result<u64, Fault> {
    let number = value
        .get_ref()
        .as_integer()
        .and_then(|integer| u64::from_str_radix(integer.as_str(), integer.radix()).ok());
    number.ok_or_else(|| Fault::at(value, key, "takes a whole number, 0 or more".into()))
}

fn unknown_key<'w>(
    span: Range<usize>,
    section: &str,
    key: &str,
    known: impl Iterator<Item = &'w str> + Clone,
) -> Fault {
    let dot = if section.is_empty() { "" } else { "." };
    let reason = format!("there is no such key{}", hint(key, known));
    Fault::new(Some(span), &format!("{section}{dot}{key}"), reason)
}
