//! The machine file of a measured machine.

use std::fmt::{self, Write};

use framewright_sim::machine::{PARAMETERS, Spec};

use super::{Calibrated, topology::Topology};
use crate::Error;

/// The longest note that a machine file may have.
const LONGEST: usize = 200;
/// Characters that are left out of texts, so that no text in the file needs an escape.
const UNQUOTABLE: [char; 2] = ['"', '\\'];

impl Calibrated {
    /// The machine as a file, and as the simulator reads it. `name` is its name; `about` says which
    /// machine was measured, and when.
    ///
    /// # Errors
    ///
    /// If the simulator refuses the file: its message.
    pub fn to_toml(&self, name: &str, about: &str) -> Result<(String, Spec), Error> {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, name, about);
        let spec = Spec::from_toml("the measured machine", &text);
        let spec = spec.map_err(|error| Error::broken(format_args!("{error}")))?;
        Ok((text, spec))
    }

    fn write(&self, text: &mut String, name: &str, about: &str) -> fmt::Result {
        writeln!(
            text,
            "# Written by `framewright machines measure`. What is missing here is inherited"
        )?;
        writeln!(
            text,
            "# from the base: `framewright machines FILE.toml` lists all with their sources."
        )?;
        writeln!(text, "name = {}", quoted(name))?;
        writeln!(text, "description = {}", quoted(about))?;
        writeln!(text, "base = \"common\"\n")?;
        write_topology(text, &self.topology)?;
        let mut section = "";
        for parameter in PARAMETERS {
            let measured = self.measured.iter().find(|value| value.key == parameter.key);
            let taken = self.taken_over.iter().find(|taken| taken.key == parameter.key);
            let (value, basis, note) = match (measured, taken) {
                (Some(value), _) => (value.value, "measured", &value.note),
                (None, Some(taken)) => (taken.value, "estimated", &taken.note),
                (None, None) => continue,
            };
            if parameter.section() != section {
                section = parameter.section();
                writeln!(text, "\n[{section}]")?;
            }
            let (key, unit, note) = (parameter.name(), parameter.unit.word(), quoted(note));
            writeln!(text, "{key} = {{ {unit} = {value}, basis = \"{basis}\", note = {note} }}")?;
        }
        Ok(())
    }
}

fn write_topology(text: &mut String, topology: &Topology) -> fmt::Result {
    let Topology { cores, threads, nodes, distances, simplified } = topology;
    writeln!(text, "[topology]\nsockets = {}", cores.len())?;
    writeln!(text, "cores_per_socket = {cores:?}\nthreads_per_core = {threads}")?;
    writeln!(text, "nodes = [")?;
    for (socket, bytes) in nodes {
        writeln!(text, "    {{ socket = {socket}, memory = \"{}MiB\" }},", bytes >> 20)?;
    }
    writeln!(text, "]")?;
    if !distances.is_empty() {
        writeln!(text, "distances = {distances:?}")?;
    }
    let (basis, note) = match simplified.as_str() {
        "" => ("measured", "/sys/devices/system, the CPUs that the process may use"),
        simplified => ("estimated", simplified),
    };
    writeln!(text, "basis = \"{basis}\"\nnote = {}", quoted(note))
}

/// A TOML string of one line, shortened if it is too long.
fn quoted(text: &str) -> String {
    let plain = |c: &char| !c.is_control() && !UNQUOTABLE.contains(c);
    format!("\"{}\"", text.chars().filter(plain).take(LONGEST).collect::<String>())
}
