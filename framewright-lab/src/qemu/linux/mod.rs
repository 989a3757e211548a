//! Linux beside the kernel: a distribution's own kernel, booted on the same emulated machine, with a
//! static program (`linux/init`) that runs the same workload by system calls.
//!
//! Where that cannot be had (no package, no toolchain for static programs), there is a [`Skipped`] with
//! the reason, and the rest goes on without.
//!
//! | module | job |
//! |---|---|
//! | `package` | the kernel, from the distribution's package |
//! | `image` | its file system in memory, and the disk |

mod image;
mod package;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use thiserror::Error;

use super::{
    Clock, QemuError, QemuSpec, Work,
    boot::{self, Guest},
    build,
    groups::{Counter, Names},
};
use crate::report::Run;

/// Why there is no Linux beside.
#[derive(Debug, Error)]
#[error("Linux beside it is skipped: {0}")]
pub(super) struct Skipped(String);

impl Skipped {
    /// It did not come to its end.
    pub(super) fn because(error: &QemuError) -> Self {
        Self(error.to_string().trim_end().to_owned())
    }
}

/// What Linux is booted with, so that it does what our kernel does: no mitigations, pages cleared once
/// and by words (`clearcpuid` hides that bytes were as fast), small pages, and nothing said but the result.
const WORDS: &str = "console=ttyS0 quiet panic=-1 nokaslr mitigations=off init_on_alloc=0 \
                     clearcpuid=297,580 transparent_hugepage=never";

/// A Linux that can be booted.
pub(super) struct Linux {
    kernel: PathBuf,
    image: tempfile::NamedTempFile,
}

impl Linux {
    /// Gets everything together: the kernel at `given`, or that of the distribution's package.
    pub(super) fn prepare(given: Option<&Path>, work: &Work) -> Result<Self, Skipped> {
        let package = match given {
            Some(kernel) => package::Package::of_file(kernel),
            None => package::fetch()?,
        };
        let init = build::linux_init().map_err(|error| {
            Skipped(format!("its program cannot be built as a static one: {error}"))
        })?;
        let needs_disk = work.workload == "mmap-read";
        let image = image::make(&init, needs_disk.then_some(&package))?;
        Ok(Self { kernel: package.kernel, image })
    }

    /// Runs the boot of `work` that counts, or the only one. `counter`: where instructions are counted,
    /// they are also told by group.
    pub(super) fn run(
        &self,
        spec: &QemuSpec,
        work: &Work,
        counter: Option<&Counter>,
        tell: &mut dyn FnMut(f64),
    ) -> Result<Run, QemuError> {
        let counts = |(clock, _): &&(Clock, Vec<String>)| *clock == Clock::Instructions;
        let Some((clock, words)) = work.boots.iter().find(counts).or(work.boots.first()) else {
            return Ok(Run::default());
        };
        let mut line = vec![WORDS.to_owned(), format!("workload={}", work.workload)];
        line.extend(words.iter().cloned());
        let counter = counter.filter(|_| *clock == Clock::Instructions);
        let mut more = Vec::new();
        if let Some(counter) = counter {
            line.push("symbols".to_owned());
            more = counter.arguments();
        }
        let guest = Guest { kernel: &self.kernel, image: Some(self.image.path()), more };
        let report = boot::boot(spec, &guest, *clock, &line, tell)?;
        let mut run = report.runs.into_iter().next().unwrap_or_default();
        if let Some(counter) = counter {
            counter.add_groups(&mut run, Names::OfLinux);
        }
        Ok(run)
    }
}

/// Runs a program that has to be there for this, and has to succeed.
fn tool(program: &str, arguments: &[&str], folder: &Path) -> Result<String, Skipped> {
    let failed =
        |why: String| Skipped(format!("`{program} {}` failed: {why}", arguments.join(" ")));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        return Err(failed(last.unwrap_or("it says nothing").trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A file's contents, or why not.
fn read(path: &Path) -> Result<Vec<u8>, Skipped> {
    fs::read(path).map_err(|error| Skipped(format!("cannot read '{}': {error}", path.display())))
}
