//! Simulated machines.

use std::fmt::Write;

use framewright_lab::report::{Style, Table};
use framewright_sim::machine::{Figure, Inherited, PARAMETERS, Spec, Topology};

use super::{bold, several};

/// One line per machine.
pub(crate) fn machines(specs: &[Spec], style: Style) -> String {
    let mut table = Table::new(["machine", "CPUs", "nodes", "memory", "MHz", "what it is"], style)
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

/// One machine: where things are, then every parameter with its basis.
pub(crate) fn machine(spec: &Spec, style: Style) -> String {
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

/// How many parameters a machine file inherits, and from which machine.
pub(crate) fn inheritance(inherited: &Inherited) -> String {
    let Inherited { base, topology, parameters } = inherited;
    format!(
        "{} of {} parameters{} are not in the file and taken over from '{base}'",
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
    let header = ["parameter", "value", "unit", "basis", "where, to what, or why"];
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
