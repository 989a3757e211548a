//! `framewright machines | tuning`: lists simulated machines with their parameters, and settings. `machines measure` is
//! in its own file.

use std::fmt::Write;

use clap::{Args as ArgGroup, Subcommand};
use framewright::Tuning;
use framewright::tuning::{KEYS, Key};
use framewright_lab::report::{Style, Table};
use framewright_sim::machine::{Figure, Inherited, PARAMETERS, Spec, Topology, presets};

use super::measure;
use crate::args::machine::{Machine, simulated};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::print::{bold, several};

pub(crate) const TUNING_EXAMPLES: &str = "\
Examples:
  framewright tuning                 all settings
  framewright tuning pcp             the settings of the per-CPU lists
  framewright tuning pcp.batch       this setting";

#[derive(Debug, ArgGroup)]
pub(crate) struct TuningArgs {
    /// A setting, or the first part of its name
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<String>,
}

pub(crate) const MACHINES_EXAMPLES: &str = "\
A machine is a TOML file with the topology of CPUs and memory, and the costs of operations. Every figure \
is measured (the note names the machine), fitted (the note names the target), or estimated.

Examples:
  framewright machines
      All presets; and uniform:N, a machine of N CPUs, one socket and node per 28 CPUs.
  framewright machines skx-2s-112
      One machine: every parameter with its value, unit and source.
  framewright machines skx-2s-112 --toml
      The same as a file with the meaning of each parameter: change it, name it, and run it as
      --machine FILE.toml.
  framewright machines measure -o mine.toml
      Measures the machine at hand, and writes it as such a file.";

#[derive(Debug, ArgGroup)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct MachinesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<MachinesCommand>,
    /// A preset, uniform:N, or FILE.toml
    #[arg(value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Print it as a TOML file
    #[arg(long, requires = "machine")]
    pub(crate) toml: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachinesCommand {
    /// Measure this machine, and write it as a machine file
    #[command(after_help = measure::EXAMPLES)]
    Measure(measure::MeasureArgs),
}

/// Lists all machines, or one in full; or measures this one.
pub(crate) fn machines(args: &MachinesArgs) -> Result<Outcome, Failure> {
    if let Some(MachinesCommand::Measure(args)) = &args.command {
        return measure::measure(args);
    }
    let text = match args.machine.as_deref() {
        None => show_machines(&all()?, output::style()),
        Some(name) => {
            let spec = simulated(name)
                .map_err(|error| Failure::bad_input(format!("machine '{name}': {error}")))?;
            if args.toml { spec.to_toml() } else { show_machine(&spec, output::style()) }
        }
    };
    output::print(&text)?;
    Ok(Outcome::Fine)
}

/// Prints how many parameters a machine file inherits.
pub(crate) fn note_inherited(machine: &Machine) {
    if let Machine::Simulated(spec, Some(file)) = machine
        && let Some(inherited) = spec.inherited()
    {
        let (file, inheritance) = (file.display(), inheritance(inherited));
        output::note(format_args!("{file}: {inheritance}; see `framewright machines {file}`"));
    }
}

fn all() -> Result<Vec<Spec>, Failure> {
    presets().map(|name| Spec::preset(name).map_err(Failure::bad_input)).collect()
}

/// One line per machine.
pub(crate) fn show_machines(specs: &[Spec], style: Style) -> String {
    let mut table = Table::new(["machine", "CPUs", "nodes", "memory", "MHz", "description"], style)
        .left_aligned(5);
    for spec in specs {
        table.plain_row([
            spec.name().to_owned(),
            spec.cpus().to_string(),
            spec.nodes().to_string(),
            memory(spec.topology().nodes().iter().map(|node| node.memory).sum()),
            spec.costs().clock.frequency_mhz.to_string(),
            spec.description().to_owned(),
        ]);
    }
    format!("{table}\nand uniform:N with N CPUs up to 512, and FILE.toml\n")
}

/// One machine: its topology, then every parameter with its basis.
pub(crate) fn show_machine(spec: &Spec, style: Style) -> String {
    let mut text = format!("{}  {}\n\n", bold(spec.name(), style), spec.description());
    let topology = spec.topology();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", bold("topology", style));
    let _ = writeln!(text, "  {}", sentence(spec));
    for (number, node) in topology.nodes().iter().enumerate() {
        let distances: Vec<String> =
            (0..spec.nodes()).map(|to| topology.distance(number as u8, to).to_string()).collect();
        let _ = writeln!(
            text,
            "  node {number}: socket {}, {}, distances {}",
            node.socket,
            memory(node.memory),
            distances.join(" ")
        );
    }
    let provenance = &topology.provenance;
    let _ = writeln!(text, "  {}: {}\n", provenance.basis.word(), provenance.note);
    let _ = write!(text, "{}", parameters(spec.parameters(), style));
    if let Some(inherited) = spec.inherited() {
        let _ = writeln!(text, "\n{}:", inheritance(inherited));
        let topology = inherited.topology.then_some("topology");
        for key in topology.iter().chain(&inherited.parameters) {
            let _ = writeln!(text, "  {key}");
        }
    }
    text
}

/// The number of parameters that a machine file inherits, and the machine they come from.
pub(crate) fn inheritance(inherited: &Inherited) -> String {
    let Inherited { base, topology, parameters } = inherited;
    format!(
        "{} of {} parameters{} are not in the file and inherited from '{base}'",
        parameters.len(),
        PARAMETERS.len(),
        if *topology { " and the topology" } else { "" },
    )
}

fn sentence(spec: &Spec) -> String {
    let topology: &Topology = spec.topology();
    let threads = topology.threads_per_core();
    let cores = topology.cores_per_socket();
    let each: Vec<String> = cores.iter().map(u16::to_string).collect();
    let each = if cores.iter().all(|cores| *cores == topology.cores_per_socket()[0]) {
        each[0].clone()
    } else {
        each.join("+")
    };
    format!(
        "{}: {} x {each} core{} x {}",
        several(spec.cpus(), "CPU"),
        several(cores.len() as u16, "socket"),
        if cores[0] == 1 { "" } else { "s" },
        several(threads, "thread"),
    )
}

fn parameters<'s>(figures: impl Iterator<Item = Figure<'s>>, style: Style) -> Table {
    let header = ["parameter", "value", "unit", "basis", "source"];
    let mut table = Table::new(header, style).left_aligned(2).left_aligned(3).left_aligned(4);
    for figure in figures {
        table.plain_row([
            figure.parameter.key.to_owned(),
            figure.value.to_string(),
            figure.parameter.unit.word().to_owned(),
            figure.provenance.basis.word().to_owned(),
            figure.provenance.note.clone(),
        ]);
    }
    table
}

fn memory(bytes: u64) -> String {
    let mebibytes = bytes >> 20;
    if mebibytes.is_multiple_of(1024) {
        format!("{} GiB", mebibytes >> 10)
    } else {
        format!("{mebibytes} MiB")
    }
}

/// Lists all settings, those of a group, or one.
pub(crate) fn tuning(args: &TuningArgs) -> Result<Outcome, Failure> {
    let keys = match args.key.as_deref() {
        None => KEYS.iter().collect(),
        Some(name) => named(name)?,
    };
    output::print(&show_tuning(&keys, output::style()))?;
    Ok(Outcome::Fine)
}

/// The setting called `name`, or all settings whose names start with it.
fn named(name: &str) -> Result<Vec<&'static Key>, Failure> {
    if let Some(key) = KEYS.iter().find(|key| key.path == name) {
        return Ok(vec![key]);
    }
    let matching: Vec<_> = KEYS.iter().filter(|key| key.path.starts_with(name)).collect();
    if !name.is_empty() && !matching.is_empty() {
        return Ok(matching);
    }
    // The library's error names the nearest key.
    let error = Tuning::default().get(name).err().map(|error| error.to_string());
    let hint = "`framewright tuning` lists all";
    Err(Failure::BadInput(format!("{}; {hint}", error.unwrap_or_default())))
}

/// One paragraph per setting.
pub(crate) fn show_tuning(keys: &[&Key], style: Style) -> String {
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
