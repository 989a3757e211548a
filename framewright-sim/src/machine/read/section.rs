//! The sections of parameters with their sources.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::basis::{Basis, Provenance};
use super::super::costs::PARAMETERS;
use super::super::parameter::{Parameter, find};
use super::{Draft, Fault, string, unknown_key, whole};
use crate::toml_file::hint;

/// Reads a section of parameters. Its `basis` and `note` apply to parameters that have none.
pub(super) fn read(
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

/// Reads a parameter, as in `{ cycles = 5, basis = "measured", note = "where" }`.
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

/// The source of the figures in a table.
pub(super) struct Sourcing {
    basis: Option<Basis>,
    note: Option<String>,
}

impl Sourcing {
    pub(super) const KEYS: [&str; 2] = ["basis", "note"];

    pub(super) fn of(key: &str, table: &DeTable<'_>) -> Result<Self, Fault> {
        let basis = table.get("basis").map(|value| {
            let word = string(&format!("{key}.basis"), value)?;
            Basis::of(&word).ok_or_else(|| {
                let words = Basis::ALL.map(Basis::word);
                let reason = format!("there is no such basis{}", hint(&word, words.into_iter()));
                Fault::at(value, &format!("{key}.basis"), reason)
            })
        });
        let note = table.get("note").map(|value| string(&format!("{key}.note"), value));
        Ok(Self { basis: basis.transpose()?, note: note.transpose()? })
    }

    /// This source, or else that of the section. A note belongs to the basis in the same table.
    fn or(self, section: &Self) -> Self {
        match self.basis {
            Some(_) => self,
            None => Self { basis: section.basis, note: self.note.or_else(|| section.note.clone()) },
        }
    }

    pub(super) fn provenance(
        self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Provenance, Fault> {
        let Some(basis) = self.basis else {
            let reason = "does not say where it comes from: basis is missing \
                          (\"measured\", \"fitted\" or \"estimated\")";
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
