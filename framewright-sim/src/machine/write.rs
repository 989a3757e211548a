//! Writes a [`Spec`] as TOML, as a template for other machines. The file is complete: it needs no
//! base.

use std::fmt::{self, Write};

use super::basis::Provenance;
use super::parameter::sections;
use super::spec::Spec;
use super::topology::{Node, Topology};

impl Spec {
    /// The whole machine as TOML, which [`from_toml`](Self::from_toml) reads again.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "name = {}", quoted(&self.name))?;
        writeln!(text, "description = {}\n", quoted(&self.description))?;
        write_topology(text, &self.topology)?;
        for section in sections() {
            writeln!(text, "\n[{section}]")?;
            for figure in self.parameters().filter(|figure| figure.parameter.section() == section) {
                let parameter = figure.parameter;
                writeln!(text, "# {}", parameter.meaning)?;
                let (name, unit) = (parameter.name(), parameter.unit.word());
                let sourcing = sourcing(figure.provenance, ", ");
                writeln!(text, "{name} = {{ {unit} = {}, {sourcing} }}", figure.value)?;
            }
        }
        Ok(())
    }
}

fn write_topology(text: &mut String, topology: &Topology) -> fmt::Result {
    let cores = topology.cores_per_socket();
    writeln!(text, "[topology]")?;
    writeln!(text, "sockets = {}", cores.len())?;
    match cores {
        [first, rest @ ..] if rest.iter().all(|cores| cores == first) => {
            writeln!(text, "cores_per_socket = {first}")?;
        }
        _ => writeln!(text, "cores_per_socket = {cores:?}")?,
    }
    writeln!(text, "threads_per_core = {}", topology.threads_per_core())?;
    writeln!(text, "nodes = [")?;
    for Node { socket, memory } in topology.nodes() {
        let (amount, unit) = match memory >> 20 {
            mebibytes if mebibytes.is_multiple_of(1024) => (mebibytes >> 10, "GiB"),
            mebibytes => (mebibytes, "MiB"),
        };
        writeln!(text, "    {{ socket = {socket}, memory = \"{amount}{unit}\" }},")?;
    }
    writeln!(text, "]\ndistances = [")?;
    let nodes = topology.nodes().len() as u8;
    for from in 0..nodes {
        let row: Vec<u8> = (0..nodes).map(|to| topology.distance(from, to)).collect();
        writeln!(text, "    {row:?},")?;
    }
    writeln!(text, "]\n{}", sourcing(&topology.provenance, "\n"))
}

fn sourcing(provenance: &Provenance, between: &str) -> String {
    let basis = quoted(provenance.basis.word());
    if provenance.note.is_empty() {
        return format!("basis = {basis}");
    }
    format!("basis = {basis}{between}note = {}", quoted(&provenance.note))
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
