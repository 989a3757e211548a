//! Machines: threads of this process, or simulated ones.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::number::whole;
use framewright_sim::machine::{Spec, nearest_name, presets};

/// Every CPU has lists of its own; more of them than this no machine has.
const MOST_THREADS: u16 = 4096;

/// What a workload runs on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Machine {
    /// Threads of this process.
    Host(Host),
    /// A simulated machine, and the file that describes it.
    Simulated(Box<Spec>, Option<PathBuf>),
}

impl Machine {
    /// The file that describes it, if one does.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Host(_) => None,
            Self::Simulated(_, file) => file.as_deref(),
        }
    }
}

/// Threads of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// How many; `None` for as many as this machine has CPUs.
    threads: Option<u16>,
}

impl Host {
    /// How many CPUs the machine has.
    pub(crate) fn cpus(self) -> u16 {
        self.threads.unwrap_or_else(|| {
            let available = std::thread::available_parallelism().map_or(1, usize::from);
            u16::try_from(available).unwrap_or(MOST_THREADS).min(MOST_THREADS)
        })
    }
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "host" {
            return Ok(Self::Host(Host { threads: None }));
        }
        if let Some(threads) = text.strip_prefix("host:") {
            return match whole(threads) {
                Some(threads @ 1..=MOST_THREADS) => Ok(Self::Host(Host { threads: Some(threads) })),
                _ => Err(format!("host:N takes 1 to {MOST_THREADS} threads, as in host:2")),
            };
        }
        let spec = simulated_or(text, &["host", "host:N"])?;
        let is_built_in = text.starts_with("uniform:") || presets().any(|preset| preset == text);
        Ok(Self::Simulated(Box::new(spec), (!is_built_in).then(|| text.into())))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "host:{}", host.cpus()),
            Self::Simulated(spec, _) => f.write_str(spec.name()),
        }
    }
}

/// The simulated machine that `text` names: `uniform:N`, a preset, or a file.
pub(crate) fn simulated(text: &str) -> Result<Spec, String> {
    simulated_or(text, &[])
}

/// The same where `others` would do, too.
fn simulated_or(text: &str, others: &[&'static str]) -> Result<Spec, String> {
    if let Some(cpus) = text.strip_prefix("uniform:") {
        // What is no number of CPUs is refused as zero is: with what there is.
        return Spec::uniform(whole(cpus).unwrap_or(0)).map_err(|error| error.reason);
    }
    if presets().any(|preset| preset == text) {
        return Spec::preset(text).map_err(|error| error.to_string());
    }
    let path = Path::new(text);
    if text.contains('/') || path.extension().is_some_and(|extension| extension == "toml") {
        return Spec::from_file(path).map_err(|error| error.to_string());
    }
    let shapes = others.iter().copied().chain(["uniform:N"]);
    let nearest = nearest_name(text, presets().chain(shapes.clone()))
        .map_or_else(String::new, |name| format!("; the nearest there is: '{name}'"));
    let shapes: Vec<&str> = shapes.collect();
    Err(format!(
        "there is no such machine{nearest}. There are {}, FILE.toml, and what \
         `framewright machines` lists",
        shapes.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(text: &str) -> Machine {
        text.parse().unwrap()
    }

    fn refused(text: &str) -> String {
        text.parse::<Machine>().unwrap_err()
    }

    #[test]
    fn host_has_as_many_cpus_as_asked() {
        assert_eq!(machine("host:3"), Machine::Host(Host { threads: Some(3) }));
        assert_eq!(machine("host:3").to_string(), "host:3");
        assert!(matches!(machine("host"), Machine::Host(host) if host.cpus() >= 1));
        for text in ["host:", "host:0", "host:-1", "host:+1", "host:5000", "host:many", "host:2:2"]
        {
            assert!(refused(text).contains("1 to 4096"), "{text}");
        }
    }

    #[test]
    fn simulated_machines_have_names() {
        for name in presets().chain(["uniform:1", "uniform:512"]) {
            assert_eq!(machine(name).to_string(), name);
        }
        for text in
            ["uniform:", "uniform:0", "uniform:+4", "uniform:513", "uniform:x", "uniform:99999"]
        {
            assert!(refused(text).contains("uniform:N takes 1 to 512 CPUs"), "{text}");
        }
    }

    #[test]
    fn refusals_name_the_nearest() {
        for (text, nearest) in [
            ("hots", "'host'"),
            ("hos", "'host'"),
            ("skx-2s-11", "'skx-2s-112'"),
            ("unifrm:64", "'uniform:N'"),
            ("laptop", "'laptop-8'"),
            ("skx", "'skx-"),
        ] {
            let error = refused(text);
            assert!(error.contains(nearest) && error.contains("uniform:N, FILE.toml"), "{error}");
        }
        for text in ["", "nothing like it"] {
            assert!(refused(text).starts_with("there is no such machine. There are host, host:N"));
        }
    }

    #[test]
    fn where_threads_will_not_do_they_are_not_named() {
        for text in ["host", "host:2", "hos", ""] {
            let error = simulated(text).unwrap_err();
            assert!(error.contains("There are uniform:N") && !error.contains("'host"), "{error}");
        }
    }

    #[test]
    fn what_looks_like_a_file_is_one() {
        for text in ["nowhere.toml", "./nowhere"] {
            assert!(refused(text).starts_with(&format!("{text}: No such file")), "{text}");
        }
    }
}
