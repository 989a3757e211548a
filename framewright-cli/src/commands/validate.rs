//! `framewright validate`: the same work on this machine and on its simulated model.

use std::{fmt::Write, path::PathBuf};

use clap::Args as ArgGroup;
use framewright_lab::{
    report::{Measured, Metric, Report, Style, Table, Tone, Unit, decimal},
    validate::{Row, Validated, Validation},
};
use framewright_sim::machine::Spec;

use super::{finish, report, reproduce::quantity};
use crate::args::run::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::print::{bold, paragraph};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
Does the same work on this machine and on the simulated one, and prints both figures with their factor: page \
faults of processes and threads, the library on threads with small lists, TLB shootdowns, waits for the kernel's \
zone lock. `machines measure` measures none of this. Counts agree up to 10 %, times up to 30 %. Scaling is judged only where there are enough \
CPUs; what cannot be measured says why. Takes less than a minute, and up to 1 GiB. The machine should be idle \
otherwise. Interrupts and waits for the zone lock are counted only as root; for the latter, the kernel's per-CPU \
lists are made small for some seconds (vm.percpu_pagelist_high_fraction), and restored in any case.

Examples:
  framewright machines measure -o mine.toml
  framewright validate mine.toml
      Measures this machine, and compares the simulated machine with it.
  framewright validate mine.toml --json result.json
      The same for programs.

Exit codes: 0 all judged rows agree, 1 a row does not, 2 bad input.";

#[derive(Debug, ArgGroup)]
pub(crate) struct ValidateArgs {
    /// The machine file that `framewright machines measure` wrote
    #[arg(value_name = "FILE.toml", default_value = "mine.toml")]
    pub(crate) machine: PathBuf,
    /// Short validation of a few seconds. Do not quote its figures
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

/// Validates a machine. The outcome says whether all judged rows agree.
pub(crate) fn validate(args: &ValidateArgs) -> Result<Outcome, Failure> {
    let path = args.machine.as_path();
    output::check_report(&args.files, &[path])?;
    let spec = Spec::from_file(path).map_err(|error| {
        let path = path.display();
        Failure::BadInput(format!("{error}; `framewright machines measure -o {path}` writes it"))
    })?;
    let machine = spec.description().to_owned();
    let validation = if args.quick { Validation::quick(spec) } else { Validation::full(spec) };
    let validated = progress::during("validating", |tell| validation.run(tell))?;
    let Measured { notes, .. } = validated.measured();
    let verdict = validated.verdict();
    let report = report("validate", machine, Some(1), validated.measured());
    let report = Report { notes, verdict, ..report };
    finish(&report, &args.files, &show(&report, &validated, output::style()))
}

/// A table per kind of work, the reasons why rows are not judged, and the verdict.
fn show(report: &Report, validated: &Validated, style: Style) -> String {
    let mut text = format!("{}\n\n", report.machine);
    let rows = &validated.rows;
    for group in rows.chunk_by(|one, other| one.work == other.work) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}\n{}", bold(group[0].work, style), table(group, style));
    }
    for note in &report.notes {
        text.push_str(&paragraph(note));
    }
    text.push_str(&paragraph(&format!("{}  {}", bold("verdict", style), report.verdict.words)));
    text
}

fn table(rows: &[Row], style: Style) -> Table {
    let header = ["figure", "measured", "least", "most", "modelled", "factor", "agrees?"];
    let mut table = Table::new(header, style).left_aligned(6);
    for row in rows {
        let (word, tone) = match row.agrees() {
            Some(true) => ("yes", Tone::Good),
            Some(false) => ("NO", Tone::Bad),
            None => ("not judged here", Tone::Plain),
        };
        let plain = |text: String| (text, Tone::Plain);
        table.row([
            plain(row.what.clone()),
            plain(figure(row.measured.as_ref(), |metric| metric.median)),
            plain(figure(row.measured.as_ref(), |metric| metric.min)),
            plain(figure(row.measured.as_ref(), |metric| metric.max)),
            plain(figure(row.modelled.as_ref(), |metric| metric.median)),
            plain(row.factor().map_or_else(|| "-".to_owned(), |factor| decimal(factor, 2))),
            (word.to_owned(), tone),
        ]);
    }
    table
}

fn figure(metric: Option<&Metric>, of: fn(&Metric) -> f64) -> String {
    match metric {
        None => "-".to_owned(),
        Some(metric) if metric.unit == Unit::Nanos => decimal(of(metric), 0),
        Some(metric) => quantity(of(metric), metric.unit),
    }
}
