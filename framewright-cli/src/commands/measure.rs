//! `framewright machines measure`: measures this machine, and writes it as a machine file.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::Args as ArgGroup;
use framewright_lab::{
    measure::{Calibrated, Means, QUICK_ROUNDS, ROUNDS, Reading, Readings},
    report::{Measured, Metric, Report, Run, Style, Table, decimal},
};
use framewright_sim::machine::{PARAMETERS, Spec, presets};

use super::{finish, report};
use crate::args::run::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::print::{bold, paragraph, several};
use crate::{output, progress};

pub(crate) const EXAMPLES: &str = "\
Measures single operations of this machine: the clock, loads by the place of a line, atomics, lines and locks \
that change CPUs, interrupts, page faults of a small mapping, clearing, memory, the timer. Figures are medians \
over short rounds, interleaved; times of one thread are CPU times. Takes half a minute, and keeps one CPU busy, \
for moments all. The machine should be idle otherwise. No workload is run. What cannot be measured here is taken \
over from the common machine, with the reason; instruction counts and the like are inherited from it.

Examples:
  framewright machines measure -o mine.toml
      Measures, and writes a machine that the simulator runs, with --machine mine.toml.
  framewright machines mine.toml
      All its parameters with their sources.

Exit codes: 0 success, 2 bad input.";

#[derive(Debug, ArgGroup)]
pub(crate) struct MeasureArgs {
    /// Write the machine to this file, as TOML; its name becomes that of the machine
    #[arg(short, long, value_name = "FILE.toml")]
    pub(crate) output: PathBuf,
    /// Short measurement of a few seconds. Do not quote its figures
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

/// Measures, and writes the machine.
pub(crate) fn measure(args: &MeasureArgs) -> Result<Outcome, Failure> {
    let path = args.output.as_path();
    output::check_outputs(&args.files, &[("--output", Some(path))], &[])?;
    let name = machine_name(path)?;
    let means = Means::detect();
    let rounds = if args.quick { QUICK_ROUNDS } else { ROUNDS };
    let readings = progress::during("measuring", |tell| Readings::take(&means, rounds, tell));
    let common = Spec::uniform(1).map_err(Failure::bad_input)?;
    let calibrated = Calibrated::of(&means, &readings, common.costs());
    let (text, spec) = calibrated.to_toml(&name, &about(&means))?;
    output::save_text(Some(path), || text)?;
    let report = report_of(&readings, &calibrated, &spec);
    finish(&report, &args.files, &show(&readings, &calibrated, &spec, path, output::style()))
}

/// The name of the machine: that of its file.
fn machine_name(path: &Path) -> Result<String, Failure> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = stem.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    if presets().any(|preset| preset == name) {
        return Err(Failure::BadInput(format!(
            "'{name}' is a built-in machine: choose another name for the file '{}'",
            path.display()
        )));
    }
    Ok(name)
}

/// The processor, and the day of the measurement.
fn about(means: &Means) -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("this machine", |(_, model)| model.trim());
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let day = now.split('T').next().unwrap_or_default();
    format!("{model}, {}, measured on {day}", several(means.cpus.len() as u64, "CPU"))
}

fn report_of(readings: &Readings, calibrated: &Calibrated, spec: &Spec) -> Report {
    let metric =
        |reading: &Reading| Some((reading.quantity.name.to_owned(), reading.value.clone().ok()?));
    let value = |figure: framewright_sim::machine::Figure<'_>| {
        let (key, unit) = (figure.parameter.key, figure.parameter.unit.word());
        calibrated.value(key).map(|_| (key.to_owned(), format!("{} {unit}", figure.value)))
    };
    let run = Run {
        label: spec.name().to_owned(),
        settings: spec.parameters().filter_map(value).collect(),
        metrics: readings.0.iter().filter_map(metric).collect(),
        ..Run::default()
    };
    let taken = calibrated.taken_over.iter();
    let notes = taken.map(|taken| format!("{} = {}: {}", taken.key, taken.value, taken.note));
    let measured = Measured { runs: vec![run], ..Measured::default() };
    let notes = notes.collect();
    Report { notes, ..report("machines measure", spec.description().to_owned(), None, measured) }
}

/// The readings, the parameters that were taken over, and the name of the file.
fn show(
    readings: &Readings,
    calibrated: &Calibrated,
    spec: &Spec,
    path: &Path,
    style: Style,
) -> String {
    let mut text = format!("{}\n\n", spec.description());
    let header = ["measured", "median", "least", "most", "how"];
    let mut table = Table::new(header, style).left_aligned(4);
    for Reading { quantity, value } in &readings.0 {
        let [median, least, most] = match value {
            Ok(metric) => figures(metric),
            Err(_) => ["-".to_owned(), String::new(), String::new()],
        };
        let how = match value {
            Ok(_) => quantity.how.to_owned(),
            Err(reason) => format!("NOT MEASURED: {reason}"),
        };
        table.plain_row([quantity.name.to_owned(), median, least, most, how]);
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "{table}\n{}", bold("taken over, because not measured here", style));
    for taken in &calibrated.taken_over {
        text.push_str(&paragraph(&format!("{} = {}  {}", taken.key, taken.value, taken.note)));
    }
    let (measured, taken) = (calibrated.measured.len(), calibrated.taken_over.len());
    let rest = PARAMETERS.len() - measured - taken;
    let path = path.display();
    let _ = writeln!(
        text,
        "\n{path}: {} measured, {taken} taken over, {rest} inherited from \
         'common'; `framewright machines {path}` lists them",
        several(measured as u64, "parameter")
    );
    text
}

/// Median and extremes of a metric.
fn figures(metric: &Metric) -> [String; 3] {
    let decimals = if metric.median >= 1000.0 { 0 } else { metric.unit.decimals() };
    [metric.median, metric.min, metric.max].map(|value| decimal(value, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_name_of_its_file() {
        assert_eq!(machine_name(Path::new("a/mine.toml")).unwrap(), "mine");
        assert_eq!(machine_name(Path::new("my machine.toml")).unwrap(), "my-machine");
        let error = machine_name(Path::new("skx-2s-112.toml")).unwrap_err().to_string();
        assert!(error.contains("built-in") && error.contains("skx-2s-112.toml"), "{error}");
    }
}
