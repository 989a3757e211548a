//! Machines: threads of this process, simulated ones, or emulated ones.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use framewright_lab::qemu::QemuSpec;
use framewright_sim::{
    machine::{Spec, presets},
    toml_file::nearest,
};

use super::values::{Memory, whole};

/// The maximum number of threads. Each thread is a CPU of the allocator, with its own lists.
const MOST_THREADS: u16 = 4096;

/// The machine that a workload runs on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Machine {
    /// Threads of this process.
    Host(Host),
    /// A simulated machine, and its file if it came from one.
    Simulated(Box<Spec>, Option<PathBuf>),
    /// An emulated machine, which boots a kernel.
    Qemu(Qemu),
}

/// An emulated machine, as in `qemu:CPUS[,MEMORY[,NODES]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qemu(pub(crate) QemuSpec);

impl FromStr for Qemu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |what: String| {
            format!("qemu:CPUS[,MEMORY[,NODES]] takes {what}, as in qemu:4 or qemu:8,1GiB,2")
        };
        let mut parts = text.strip_prefix("qemu:").unwrap_or_default().split(',');
        let cpus = parts.next().and_then(whole);
        let Some(cpus @ 1..=QemuSpec::MOST_CPUS) = cpus else {
            return Err(bad(format!("1 to {} CPUs", QemuSpec::MOST_CPUS)));
        };
        let mib = match parts.next() {
            None => QemuSpec::MIB,
            Some(size) => {
                // The message describes valid sizes, so the kind of error does not matter.
                let mib = size.parse::<Memory>().map_or(0, |memory| memory.frames() >> 8);
                let is_fit = mib >= QemuSpec::LEAST_MIB && mib.is_multiple_of(2);
                is_fit.then_some(mib).ok_or_else(|| {
                    let least = QemuSpec::LEAST_MIB;
                    bad(format!("{least} MiB of memory or more, in steps of 2 MiB, not '{size}'"))
                })?
            }
        };
        let most = QemuSpec::MOST_NODES.min(cpus);
        let nodes = match parts.next().map(whole) {
            None => 1,
            Some(Some(nodes)) if (1..=most).contains(&nodes) => nodes,
            Some(_) => return Err(bad(format!("1 to {most} nodes for {cpus} CPUs"))),
        };
        match parts.next() {
            None => Ok(Self(QemuSpec { cpus, mib, nodes })),
            Some(more) => Err(bad(format!("nothing after nodes; remove '{more}'"))),
        }
    }
}

impl Machine {
    /// The machine's file, if it came from one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Host(_) | Self::Qemu(_) => None,
            Self::Simulated(_, file) => file.as_deref(),
        }
    }
}

/// Threads of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Number of threads; `None`: one for each CPU of this machine.
    threads: Option<u16>,
}

impl Host {
    /// Number of CPUs of the machine.
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
        if text.starts_with("qemu:") {
            return text.parse().map(Self::Qemu);
        }
        let spec = simulated_or(text, &["host", "host:N", "qemu:N"])?;
        let is_built_in = text.starts_with("uniform:") || presets().any(|preset| preset == text);
        Ok(Self::Simulated(Box::new(spec), (!is_built_in).then(|| text.into())))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "host:{}", host.cpus()),
            Self::Simulated(spec, _) => f.write_str(spec.name()),
            Self::Qemu(qemu) => qemu.0.fmt(f),
        }
    }
}

/// A machine for a command that runs on simulated machines only. Other machines are refused with
/// the reason, and error messages do not propose them.
pub(crate) fn simulated_machine(text: &str) -> Result<Machine, String> {
    let other = text == "host" || ["host:", "qemu:"].iter().any(|kind| text.starts_with(kind));
    if !other {
        simulated_or(text, &[])?;
    }
    text.parse()
}

/// The simulated machine that `text` names: `uniform:N`, a preset, or a file.
pub(crate) fn simulated(text: &str) -> Result<Spec, String> {
    simulated_or(text, &[])
}

/// As [`simulated`], with `others` named in error messages, too.
fn simulated_or(text: &str, others: &[&'static str]) -> Result<Spec, String> {
    if let Some(cpus) = text.strip_prefix("uniform:") {
        // Text that is not a number becomes 0, which is refused with the valid range.
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
    let nearest = nearest(text, presets().chain(shapes.clone()))
        .map_or_else(String::new, |name| format!("; the nearest name is '{name}'"));
    let shapes: Vec<&str> = shapes.collect();
    Err(format!(
        "there is no such machine{nearest}. Valid: {}, FILE.toml, and the names that \
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
    fn emulated_machines_have_cpus_memory_and_nodes() {
        for (text, shown) in [
            ("qemu:4", "qemu:4,512MiB,1"),
            ("qemu:32,2GiB", "qemu:32,2048MiB,1"),
            ("qemu:2,128M,2", "qemu:2,128MiB,2"),
        ] {
            assert_eq!(machine(text).to_string(), shown);
        }
        for (text, why) in [
            ("qemu:", "1 to 32 CPUs"),
            ("qemu:33", "1 to 32 CPUs"),
            ("qemu:4,much", "64 MiB of memory or more, in steps of 2 MiB, not 'much'"),
            ("qemu:4,32M", "64 MiB of memory or more"),
            ("qemu:4,1GiB,5", "1 to 4 nodes"),
            ("qemu:4,1GiB,2,1", "remove '1'"),
        ] {
            assert!(refused(text).contains(why), "{text}: {}", refused(text));
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
            assert!(refused(text).starts_with("there is no such machine. Valid: host, host:N"));
        }
    }

    #[test]
    fn threads_are_not_proposed_to_commands_that_refuse_them() {
        for text in ["host", "host:2", "hos", ""] {
            let error = simulated(text).unwrap_err();
            assert!(error.contains("Valid: uniform:N") && !error.contains("'host"), "{error}");
        }
    }

    #[test]
    fn a_command_for_simulated_machines_proposes_no_other() {
        let error = simulated_machine("hos").unwrap_err();
        assert!(error.contains("Valid: uniform:N") && !error.contains("'host"), "{error}");
        assert!(matches!(simulated_machine("uniform:2"), Ok(Machine::Simulated(..))));
        assert!(
            matches!(simulated_machine("host:2"), Ok(Machine::Host(_))),
            "refused with a reason"
        );
    }

    #[test]
    fn a_path_is_taken_as_a_file() {
        for text in ["nowhere.toml", "./nowhere"] {
            assert!(refused(text).starts_with(&format!("{text}: No such file")), "{text}");
        }
    }
}
