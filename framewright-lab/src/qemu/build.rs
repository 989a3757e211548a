//! Building the kernel, and what runs Linux beside it: workspaces of their own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use framewright::tuning::needs_compare;
use serde::Deserialize;

use super::QemuError;
use crate::workloads::Side;

/// Where the kernel is: beside this crate.
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel");
/// Where that is what runs Linux beside it.
const LINUX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../linux");
/// Programs for Linux are static: nothing else is in their file system.
const LINUX_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The part of cargo's messages that says what was built.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Builds the kernel, unless that has been done; where it is. What is there to compare with is in it for who
/// asks for it.
pub(super) fn kernel(sides: &[Side]) -> Result<PathBuf, QemuError> {
    let mut settings = sides.iter().flat_map(|side| &side.settings);
    let compares = settings.any(|(path, value)| needs_compare(path, value));
    let features: &[&str] = if compares { &["--features", "compare"] } else { &[] };
    cargo(KERNEL, features, None)
}

/// The same of the program that runs workloads on Linux.
pub(super) fn linux_init() -> Result<PathBuf, QemuError> {
    let what = ["-p", "framewright-linux-init", "--target", LINUX_TARGET];
    cargo(LINUX, &what, Some("-Ctarget-feature=+crt-static"))
}

/// The same of the plugin that has QEMU count instructions by address.
pub(super) fn instruction_counter() -> Result<PathBuf, QemuError> {
    cargo(LINUX, &["-p", "framewright-instruction-counter"], None)
}

fn cargo(sources: &str, what: &[&str], flags: Option<&str>) -> Result<PathBuf, QemuError> {
    let sources = Path::new(sources);
    if !sources.join("Cargo.toml").is_file() {
        return Err(QemuError::NoSources(sources.to_owned()));
    }
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--locked", "--message-format=json-render-diagnostics"])
        .args(what)
        .current_dir(sources)
        // Their own settings are in their folders; those of this build are for another target.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    if let Some(flags) = flags {
        command.env("RUSTFLAGS", flags);
    }
    let output = command.output().map_err(|error| QemuError::Start { program: "cargo", error })?;
    if !output.status.success() {
        return Err(QemuError::Build(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    built(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| QemuError::Build("cargo does not say where it is".to_owned()))
}

/// The program that cargo says it built, or else the library that others load.
fn built(messages: &str) -> Option<PathBuf> {
    let of = |line| {
        let message: Message = serde_json::from_str(line).ok()?;
        let is_library = |file: &PathBuf| file.extension().is_some_and(|end| end == "so");
        message.executable.or_else(|| message.filenames.into_iter().find(is_library))
    };
    messages.lines().rev().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_says_what_it_built() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","executable":"x/framewright-kernel"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(built(messages), Some(PathBuf::from("x/framewright-kernel")));
        let library = r#"{"executable":null,"filenames":["x/a.rlib","x/liba.so"]}"#;
        assert_eq!(built(library), Some(PathBuf::from("x/liba.so")));
        assert_eq!(built(""), None);
    }
}
