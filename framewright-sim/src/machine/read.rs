//! TOML to a [`Spec`]. Whatever is wrong is named with its file, line, key and value.
//!
//! A description is read on top of a *draft*: the machine that it builds upon. What it says replaces
//! what the draft says; the result must be complete.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::basis::{Basis, Provenance};
use super::costs::Costs;
use super::error::{MachineError, nearest};
use super::parameter::{PARAMETERS, Parameter, find, sections};
use super::presets::{COMMON, base, presets};
use super::spec::Spec;
use super::topology::Topology;

mod source;
mod topology;

use source::{Fault, Source};

/// The most bytes of a description.
const MOST_BYTES: u64 = 1 << 20;
/// The longest name and description, in characters.
const LONGEST: usize = 200;

/// A machine that may still lack something.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) topology: Option<Topology>,
    costs: Costs,
    /// Of each parameter; nothing before it was given.
    provenance: Vec<Option<Provenance>>,
}

impl Spec {
    /// The machine that the file at `path` describes.
    ///
    /// # Errors
    ///
    /// Why the file cannot be read, or what is wrong in it, with its line, key and value.
    pub fn from_file(path: &Path) -> Result<Self, MachineError> {
        let file = path.display().to_string();
        let text = text_of(path).map_err(|error| MachineError::about(&file, error.to_string()))?;
        Self::from_toml(&file, &text)
    }

    /// The machine that `text` describes; errors name `file`.
    ///
    /// # Errors
    ///
    /// What is wrong, with its line, key and value.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, MachineError> {
        read(file, text, None)?.finish(file)
    }
}

/// The text of a file; no description is nearly as long as what it may be.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    if text.len() as u64 == MOST_BYTES {
        return Err(io::Error::other("is too large to be the description of a machine"));
    }
    Ok(text)
}

impl Draft {
    /// The machine, if nothing is missing.
    pub(super) fn finish(self, file: &str) -> Result<Spec, MachineError> {
        let missing = |what: &str| MachineError::about(file, format!("there is no {what}"));
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
        })
    }

    fn set(&mut self, index: usize, value: u64, provenance: Provenance) {
        PARAMETERS[index].set(&mut self.costs, value);
        self.provenance.resize(PARAMETERS.len(), None);
        self.provenance[index] = Some(provenance);
    }
}

/// Reads `text` on top of `below`, or of what the text itself builds upon.
pub(super) fn read(file: &str, text: &str, below: Option<Draft>) -> Result<Draft, MachineError> {
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
            "topology" => draft.topology = Some(topology::read(value)?),
            section if sections().any(|known| known == section) => {
                read_section(&mut draft, section, value)?;
            }
            unknown => {
                let known = ["name", "description", "base", "topology"].into_iter();
                return Err(unknown_key(key.span(), "", unknown, known.chain(sections())));
            }
        }
    }
    Ok(draft)
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
        Some(Ok(draft)) => Ok(Draft { name: None, description: None, ..draft }),
        // Presets are compiled in, and a test reads them all: this is for whoever writes one.
        Some(Err(error)) => Err(error.to_string()),
        None => {
            let hint = nearest(name, presets().chain([COMMON])).unwrap_or(COMMON);
            Err(format!("there is no such machine; the nearest there is: '{hint}'"))
        }
    }
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
    known: impl Iterator<Item = &'w str>,
) -> Fault {
    let hint = nearest(key, known).unwrap_or_default();
    let dot = if section.is_empty() { "" } else { "." };
    let reason = format!("there is no such key; the nearest there is: '{hint}'");
    Fault::new(Some(span), &format!("{section}{dot}{key}"), reason)
}

/// A section of parameters. `basis` and `note` beside them are those of each that has none.
fn read_section(
    draft: &mut Draft,
    section: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<(), Fault> {
    let Some(table) = value.get_ref().as_table() else {
        return Err(Fault::at(value, section, format!("is a section: write [{section}]")));
    };
    let common = Sourcing::of(section, table)?;
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        if Sourcing::KEYS.contains(&name) {
            continue;
        }
        let path = format!("{section}.{name}");
        let Some((index, parameter)) = find(&path) else {
            let siblings = PARAMETERS.iter().filter(|parameter| parameter.section() == section);
            let known = siblings.map(Parameter::name).chain(Sourcing::KEYS);
            return Err(unknown_key(key.span(), section, name, known));
        };
        let (figure, provenance) = read_parameter(parameter, value, &common)?;
        draft.set(index, figure, provenance);
    }
    Ok(())
}

/// `{ cycles = 5, basis = "measured", note = "where" }`.
fn read_parameter(
    parameter: &Parameter,
    value: &Spanned<DeValue<'_>>,
    section: &Sourcing,
) -> Result<(u64, Provenance), Fault> {
    let (key, unit) = (parameter.key, parameter.unit.word());
    let Some(table) = value.get_ref().as_table() else {
        let reason = format!(
            "says neither its unit nor where it comes from: write \
             {{ {unit} = N, basis = \"measured\", note = \"where\" }}"
        );
        return Err(Fault::at(value, key, reason));
    };
    for (inner, _) in table {
        let name = inner.get_ref().as_ref();
        if name != unit && !Sourcing::KEYS.contains(&name) {
            let reason = format!("has no '{name}'; it takes {unit}, basis and note");
            return Err(Fault::new(Some(inner.span()), key, reason));
        }
    }
    let Some(number) = table.get(unit) else {
        return Err(Fault::at(value, key, format!("does not say how many: {unit} = N is missing")));
    };
    let key = format!("{key}.{unit}");
    let figure = whole(&key, number)?;
    let range = parameter.unit.range();
    if !range.contains(&figure) {
        let reason = format!("takes {} to {}", range.start(), range.end());
        return Err(Fault::at(number, &key, reason));
    }
    let own = Sourcing::of(parameter.key, table)?;
    let provenance = own.or(section).provenance(parameter.key, value)?;
    Ok((figure, provenance))
}

/// What a table says of where its figures come from.
struct Sourcing {
    basis: Option<Basis>,
    note: Option<String>,
}

impl Sourcing {
    const KEYS: [&str; 2] = ["basis", "note"];

    fn of(key: &str, table: &DeTable<'_>) -> Result<Self, Fault> {
        let basis = table.get("basis").map(|value| {
            let word = string(&format!("{key}.basis"), value)?;
            Basis::of(&word).ok_or_else(|| {
                let words = Basis::ALL.map(Basis::word);
                let hint = nearest(&word, words.into_iter()).unwrap_or_default();
                let reason = format!("is one of {}; the nearest is '{hint}'", words.join(", "));
                Fault::at(value, &format!("{key}.basis"), reason)
            })
        });
        let note = table.get("note").map(|value| string(&format!("{key}.note"), value));
        Ok(Self { basis: basis.transpose()?, note: note.transpose()? })
    }

    /// This, or what the section says: a note belongs to the basis beside it.
    fn or(self, section: &Self) -> Self {
        match self.basis {
            Some(_) => self,
            None => Self { basis: section.basis, note: self.note.or_else(|| section.note.clone()) },
        }
    }

    fn provenance(self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Provenance, Fault> {
        let Some(basis) = self.basis else {
            let reason = "does not say where it comes from: basis is missing \
                          (\"measured\", \"fitted\" or \"guessed\")";
            return Err(Fault::at(value, key, reason.into()));
        };
        let note = self.note.unwrap_or_default();
        if basis.wants_note() && note.is_empty() {
            let what = if basis == Basis::Fitted { "to what" } else { "where" };
            let reason = format!("is {}, and note does not say {what}", basis.word());
            return Err(Fault::at(value, key, reason));
        }
        Ok(Provenance { basis, note })
    }
}
