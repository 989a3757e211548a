//! Options of every workload: seeds, amount of work, settings, and the file of the report.

use clap::Args as ArgGroup;
use framewright::{
    Tuning,
    tuning::{KEYS, TuningError},
};
use framewright_lab::{perfetto::Trace, samples::Watch, workloads::Side};
use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::failure::Failure;

/// The options for the files of the report.
#[derive(Debug, ArgGroup)]
pub(crate) struct ReportArgs {
    /// Write the result to this file, as JSON; docs/report.schema.json is its schema
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the figures to this file, as CSV: a row for each value of each figure, with its seed, side and unit
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the result to this file as a page for a browser: tables, charts, the verdict, and the differences of sides
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

impl ReportArgs {
    /// The options with the files that they name.
    pub(crate) fn all(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--json", self.json.as_deref()),
            ("--csv", self.csv.as_deref()),
            ("--html", self.html.as_deref()),
        ]
    }
}

/// The option for a trace.
#[derive(Debug, ArgGroup)]
pub(crate) struct TraceArgs {
    /// Write a trace of each run to this file, for https://ui.perfetto.dev: the activity of each CPU, the holder and the
    /// waiters of each zone lock, interrupts, counters
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
}

impl TraceArgs {
    /// The option with the file that it names.
    pub(crate) fn file(&self) -> (&'static str, Option<&Path>) {
        ("--perfetto", self.perfetto.as_deref())
    }

    /// A trace without runs, if the option was given.
    pub(crate) fn begin(&self) -> Result<Option<Trace>, Failure> {
        Ok(self.perfetto.as_deref().map(Trace::create).transpose()?)
    }
}

/// Options of all workloads.
#[derive(Debug, ArgGroup)]
pub(crate) struct RunArgs {
    /// Seed of every random choice [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=u64::MAX - 1000))]
    pub(crate) seed: Option<u64>,
    /// Simulated machines: run this many seeds, from --seed on, and show medians, 95 % confidence
    /// intervals of means (Student's t), and p-values of differences from the first column (U test
    /// of Mann and Whitney)
    #[arg(long, value_name = "K", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) seeds: u16,
    /// Short run: a fifth of the work or time; on threads a few rounds. Do not quote its figures
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) files: ReportArgs,
}

impl RunArgs {
    /// The first seed, or the only one.
    pub(crate) fn first_seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// All seeds.
    pub(crate) fn all_seeds(&self) -> Vec<u64> {
        (0..u64::from(self.seeds)).map(|more| self.first_seed() + more).collect()
    }

    /// The recordings that simulated runs make: the trace, and for the page of `--html` samples of memory.
    pub(crate) fn watch<'t>(&self, trace: Option<&'t Trace>) -> Watch<'t> {
        Watch { trace, memory: self.files.html.is_some() }
    }
}

/// One `KEY=VALUE` that the library accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    key: String,
    value: String,
}

impl Setting {
    fn apply(&self, tuning: &mut Tuning) -> Result<(), String> {
        tuning.set(&self.key, &self.value).map_err(|error| match error {
            TuningError::UnknownKey { nearest: None, .. } => {
                format!("{error}; `framewright tuning` lists all")
            }
            _ => error.to_string(),
        })
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("a setting is KEY=VALUE")?;
        let setting = Self { key: key.to_owned(), value: value.to_owned() };
        setting.apply(&mut Tuning::default())?;
        Ok(setting)
    }
}

/// The settings of the run, and of the run that it is compared with.
#[derive(Clone, Debug, Default, ArgGroup)]
pub(crate) struct Settings {
    /// Change a setting (repeatable); `framewright tuning` lists them
    #[arg(long, value_name = "K=V")]
    set: Vec<Setting>,

    /// Run the same work with this setting too (repeatable) and show both side by side
    #[arg(long, value_name = "K=V")]
    vs: Vec<Setting>,
}

impl Settings {
    /// The sides to run: one, or two with `--vs`. The first is the baseline.
    pub(crate) fn sides(&self) -> Vec<Side> {
        let base = tuning(Tuning::default(), &self.set);
        if self.vs.is_empty() {
            return vec![self.side("framewright", base)];
        }
        vec![self.side("base", base), self.side("vs", tuning(base, &self.vs))]
    }

    fn side(&self, label: &str, tuning: Tuning) -> Side {
        let is_named =
            |key: &str| self.set.iter().chain(&self.vs).any(|setting| setting.key == key);
        let settings = KEYS
            .iter()
            .filter(|key| is_named(key.path))
            .filter_map(|key| Some((key.path.to_owned(), tuning.get(key.path).ok()?.to_string())))
            .collect();
        Side { label: label.to_owned(), tuning, settings }
    }
}

fn tuning(mut tuning: Tuning, settings: &[Setting]) -> Tuning {
    for setting in settings {
        // `from_str` has already checked the setting.
        let applied = setting.apply(&mut tuning);
        debug_assert!(applied.is_ok(), "{applied:?}");
    }
    tuning
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(set: &[&str], vs: &[&str]) -> Settings {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Settings { set: parse(set), vs: parse(vs) }
    }

    #[test]
    fn without_vs_there_is_one_side() {
        let sides = settings(&["pcp.batch=31"], &[]).sides();
        assert_eq!(sides.len(), 1);
        assert_eq!(sides[0].label, "framewright");
        assert_eq!(sides[0].settings["pcp.batch"], "31");
    }

    #[test]
    fn vs_is_applied_after_set_and_both_sides_name_what_differs() {
        let sides = settings(&["pcp.batch=31"], &["hardening=off"]).sides();
        assert_eq!(sides[0].settings["hardening"], "checked");
        assert_eq!(sides[1].settings["hardening"], "off");
        assert!(sides.iter().all(|side| side.settings["pcp.batch"] == "31"));
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        let sides = settings(&["pcp.batch=31", "pcp.batch=7"], &[]).sides();
        assert_eq!(sides[0].settings["pcp.batch"], "7");
    }

    #[test]
    fn a_setting_is_refused_with_the_nearest() {
        for (text, hint) in [
            ("pcp.bach=1", "'pcp.batch'"),
            ("pcp.batch=0", "nearest valid value: 1"),
            ("nosuch=1", "there is none like it; `framewright tuning` lists all"),
            ("pcp.batch", "KEY=VALUE"),
            ("", "KEY=VALUE"),
        ] {
            let error = text.parse::<Setting>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
