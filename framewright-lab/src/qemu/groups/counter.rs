//! Instruction counts: QEMU with the plugin, and the file that the plugin writes.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use super::{ByAddress, Names};
use crate::qemu::{
    boot::{self, QEMU},
    groups,
};
use crate::report::{Better, Metric, Run, Unit};

/// Runs QEMU with a plugin that counts instructions by address.
pub(in crate::qemu) struct Counter {
    plugin: PathBuf,
    folder: TempDir,
}

impl Counter {
    /// Builds the plugin, and checks that its requirements are installed.
    ///
    /// # Errors
    ///
    /// The reason why there are no groups, as a message.
    pub(in crate::qemu) fn build() -> Result<Self, String> {
        if Command::new("addr2line").arg("--version").output().is_err() {
            return Err("addr2line (of binutils) is not installed".to_owned());
        }
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| format!("no temporary folder: {error}"))?;
        let plugin = boot::instruction_counter();
        let plugin = plugin.map_err(|error| format!("cannot build QEMU's plugin: {error}"))?;
        let counter = Self { plugin, folder };
        counter.is_loaded_by(QEMU).map(|()| counter)
    }

    /// Checks that this QEMU loads the plugin, which is for QEMU 7 and 8: starts an empty machine
    /// with it, and ends the machine.
    fn is_loaded_by(&self, qemu: &str) -> Result<(), String> {
        let child = Command::new(qemu)
            .args(["-M", "none", "-accel", "tcg", "-nodefaults", "-display", "none", "-S"])
            .args(["-monitor", "stdio", "-plugin", &self.option()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let ended = child.and_then(|mut child| {
            // A QEMU that has already refused the plugin does not read.
            let _ = child.stdin.take().map(|mut to| to.write_all(b"quit\n"));
            child.wait_with_output()
        });
        match ended {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                let why = errors.lines().find(|line| !line.trim().is_empty());
                Err(format!("this QEMU does not load the plugin: {}", why.unwrap_or("no reason")))
            }
            Err(error) => Err(format!("QEMU does not start: {error}")),
        }
    }

    fn option(&self) -> String {
        format!("file={},out={}", self.plugin.display(), self.counts().display())
    }

    fn counts(&self) -> PathBuf {
        self.folder.path().join("counts")
    }

    fn symbols(&self) -> PathBuf {
        self.folder.path().join("symbols")
    }

    /// Options of QEMU: the plugin, and a port for the symbols.
    pub(in crate::qemu) fn arguments(&self) -> Vec<String> {
        let symbols = format!("file,id=symbols,path={}", self.symbols().display());
        let port = "isa-debugcon,iobase=0xe9,chardev=symbols";
        ["-plugin", &self.option(), "-chardev", &symbols, "-device", port]
            .map(str::to_owned)
            .to_vec()
    }

    /// Adds to a run the instructions of each group per page, from its last boot; adds nothing if
    /// they are unknown.
    pub(in crate::qemu) fn add_groups(&self, run: &mut Run, names: Names<'_>) {
        let counts = counts(&fs::read_to_string(self.counts()).unwrap_or_default());
        let groups = match names {
            Names::OfLinux => {
                groups::by_symbol(&counts, &fs::read_to_string(self.symbols()).unwrap_or_default())
            }
            Names::OfLines(kernel) => {
                groups::by_line(&counts, &groups::source_lines(kernel, &counts))
            }
        };
        let Some(pages) = run.metrics.get("pages").map(|pages| pages.median) else { return };
        for (group, instructions) in groups {
            let metric =
                Metric::once(instructions as f64 / pages, Unit::Ratio, Some(Better::Lower));
            run.metrics.insert(group.to_owned(), metric);
        }
    }
}

/// Parses counts by address.
pub(super) fn counts(text: &str) -> ByAddress {
    let count = |line: &str| {
        let (at, count) = line.split_once(' ')?;
        Some((u64::from_str_radix(at, 16).ok()?, count.parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of the check for a QEMU that runs `script`.
    fn loaded_by(script: &str) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let qemu = folder.path().join("qemu");
        fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        let counter = Counter { plugin: "x.so".into(), folder: tempfile::tempdir().unwrap() };
        counter.is_loaded_by(qemu.to_str().unwrap())
    }

    #[test]
    fn a_qemu_that_refuses_the_plugin_is_no_failure() {
        assert_eq!(loaded_by("cat >/dev/null"), Ok(()));
        let why = loaded_by("echo 'plugin requires API version 1' >&2; exit 1").unwrap_err();
        assert_eq!(why, "this QEMU does not load the plugin: plugin requires API version 1");
    }
}
