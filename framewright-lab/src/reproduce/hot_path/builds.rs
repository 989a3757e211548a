//! The measuring program, built from the source tree: once with calls, once without.
//!
//! Both builds are the same but for one flag; what callgrind counts and what the symbol table
//! says is compared between them alone.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;
use tempfile::TempDir;

use crate::reproduce::pairs::Steps;

/// Steps that it reports.
pub(super) const STEPS: usize = 2;
/// The program, an example of this package.
const PACKAGE: &str = "framewright-peers";
const PROGRAM: &str = "bulk-take";
/// Makes both packages call what they inline otherwise. The compiler's flags of the source tree hold besides.
const OUTLINED: &[&str] =
    &["--config", r#"target."cfg(all())".rustflags=["--cfg", "framewright_outlined"]"#];

/// The library as it comes.
const INLINED: &[&str] = &[];

/// Why something was not measured.
#[derive(Debug)]
pub(super) struct Skipped(pub(super) String);

/// Both programs, in a folder of their own.
pub(super) struct Builds {
    folder: TempDir,
}

impl Builds {
    /// Builds both.
    pub(super) fn make(steps: &mut Steps<'_, '_>) -> Result<Self, Skipped> {
        let tree = source_tree()?;
        let folder = tempfile::tempdir()
            .map_err(|error| Skipped(format!("there is no temporary folder: {error}")))?;
        let builds = Self { folder };
        for (flags, program) in [(OUTLINED, builds.outlined()), (INLINED, builds.inlined())] {
            let built = build(&tree, flags)?;
            fs::copy(&built, program).map_err(|error| {
                Skipped(format!("'{}' cannot be copied: {error}", built.display()))
            })?;
            steps.step();
        }
        Ok(builds)
    }

    /// The program in which the functions that take frames call one another.
    pub(super) fn outlined(&self) -> PathBuf {
        self.folder.path().join("outlined")
    }

    /// The program in which they are inlined.
    pub(super) fn inlined(&self) -> PathBuf {
        self.folder.path().join("inlined")
    }

    /// A file beside them.
    pub(super) fn scratch(&self) -> PathBuf {
        self.folder.path().join("profile")
    }
}

/// The nearest folder upwards that has the program's source.
fn source_tree() -> Result<PathBuf, Skipped> {
    let here = env::current_dir().unwrap_or_default();
    let source = Path::new(PACKAGE).join("examples").join(PROGRAM).with_extension("rs");
    let found = here.ancestors().find(|folder| folder.join(&source).is_file());
    found.map(Path::to_owned).ok_or_else(|| {
        Skipped(format!(
            "both programs are built from Framewright's source, and '{}' is not in it; start the \
             command in the source tree",
            here.display()
        ))
    })
}

/// Where the program is once it is built.
fn build(tree: &Path, flags: &[&str]) -> Result<PathBuf, Skipped> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(tree)
        .args(["build", "--release", "--quiet", "--message-format=json"])
        .args(["-p", PACKAGE, "--example", PROGRAM])
        .args(flags)
        // They would take the place of the flags above.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output =
        cargo.output().map_err(|error| Skipped(format!("cargo cannot be started: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(Skipped(format!("cargo could not build {PROGRAM}: {last}")));
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Skipped(format!("cargo did not say where {PROGRAM} is")))
}

/// What cargo says of an artefact, as far as it matters.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// The executable among cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    parsed.filter_map(|message| message.executable).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_messages() {
        let messages = "\
{\"reason\":\"compiler-artifact\",\"executable\":null}
{\"reason\":\"compiler-artifact\",\"executable\":\"/x/bulk-take\"}
not json
{\"reason\":\"build-finished\",\"success\":true}";
        assert_eq!(executable(messages), Some(PathBuf::from("/x/bulk-take")));
        assert_eq!(executable("{\"reason\":\"build-finished\"}"), None);
    }
}
