//! Building the kernel, which is a workspace of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use super::QemuError;

/// Where the kernel is: beside this crate.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel");

/// The part of cargo's messages that says what was built.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// Builds it, unless that has been done; where it is.
pub(super) fn kernel() -> Result<PathBuf, QemuError> {
    let sources = Path::new(SOURCES);
    if !sources.join("Cargo.toml").is_file() {
        return Err(QemuError::NoSources(sources.to_owned()));
    }
    let output = Command::new("cargo")
        .args(["build", "--release", "--locked", "--message-format=json-render-diagnostics"])
        .current_dir(sources)
        // Its own settings are in its folder; those of this build are for another target.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .map_err(|error| QemuError::Start { program: "cargo", error })?;
    if !output.status.success() {
        return Err(QemuError::Build(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| QemuError::Build("cargo does not say where it is".to_owned()))
}

fn executable(messages: &str) -> Option<PathBuf> {
    let built = |line| serde_json::from_str::<Message>(line).ok()?.executable;
    messages.lines().filter_map(built).last()
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
        assert_eq!(executable(messages), Some(PathBuf::from("x/framewright-kernel")));
        assert_eq!(executable(""), None);
    }
}
