//! Instructions under the zone lock per frame of a refill, counted by callgrind.
//!
//! Callgrind counts only in the function that runs under the lock. The result is the difference
//! between a longer and a shorter run, which excludes start-up and warm-up.
//!
//! The measured program is built from the source tree twice: with calls, and with inlining. The
//! builds differ in one flag only; counts and symbol sizes are compared only between them.

use indexmap::IndexMap;
use object::{Object, ObjectSymbol, SymbolKind};
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

use crate::{
    checkout,
    report::{Better, Metric, Run, Sides, Unit},
    reproduce::{Key, Results, pairs::Steps},
};

/// Bursts of the shorter run, and of the longer.
const BURSTS: [u32; 2] = [1, 3];
/// The order of frees. With random frees, the blocks of a batch are not neighbours.
const FREE_ORDER: &str = "random";
/// Number of reported steps.
pub(super) const STEPS: usize = 2 * Subject::ALL.len();
/// The source of [`Counts::RECORDED`].
pub(super) const RECORDING: &str = "a recording (rustc 1.95, x86-64)";

/// The allocators whose instructions are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// The classic design, which takes blocks one by one.
    ListBuddy,
    /// The library, which takes a batch as a whole.
    Bulk,
    /// The library, configured to take blocks one by one.
    OneByOne,
}

/// Instructions per frame taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Count {
    pub(super) outlined: f64,
    pub(super) inlined: f64,
}

/// The counts, in the order of [`Subject::ALL`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counts([Count; Subject::ALL.len()]);

impl Subject {
    pub(super) const ALL: [Self; 3] = [Self::ListBuddy, Self::Bulk, Self::OneByOne];

    /// The name of the allocator in rows.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::ListBuddy => "list-buddy",
            Self::Bulk | Self::OneByOne => "framewright",
        }
    }

    /// The name of the allocator on the command line of the measured program.
    fn argument(self) -> &'static str {
        match self {
            Self::ListBuddy => "list-buddy",
            Self::Bulk => "framewright",
            Self::OneByOne => "framewright-one-by-one",
        }
    }

    /// The function that takes a batch, from the acquisition of the lock to its release.
    fn under_lock(self) -> &'static str {
        match self {
            Self::ListBuddy => "*list_buddy::bulk::refill*",
            Self::Bulk => "*Buddy*take_ordinary*",
            Self::OneByOne => "*Buddy*take_one_by_one*",
        }
    }
}

impl Counts {
    /// The counts for the model if nothing can be counted.
    pub(super) const RECORDED: Self = Self([
        Count { outlined: 121.6, inlined: 97.7 },
        Count { outlined: 20.4, inlined: 20.1 },
        Count { outlined: 507.4, inlined: 503.1 },
    ]);

    /// Counts the instructions of all allocators.
    pub(super) fn of(builds: &Builds, steps: &mut Steps<'_, '_>) -> Result<Self, Skipped> {
        let mut counts = Self::RECORDED;
        for (subject, count) in Subject::ALL.into_iter().zip(&mut counts.0) {
            for (program, side) in
                [(builds.outlined(), &mut count.outlined), (builds.inlined(), &mut count.inlined)]
            {
                *side = per_frame(&program, subject, &builds.scratch())?;
                steps.step();
            }
        }
        Ok(counts)
    }

    pub(super) fn of_subject(&self, subject: Subject) -> Count {
        self.0[subject as usize]
    }
}

fn per_frame(program: &Path, subject: Subject, profile: &Path) -> Result<f64, Skipped> {
    let [short, long] = BURSTS.map(|bursts| count(program, subject, bursts, profile));
    let ((instructions, frames), (fewer, less)) = (long?, short?);
    Ok((instructions.saturating_sub(fewer)) as f64 / frames.saturating_sub(less).max(1) as f64)
}

/// Instructions under the lock, and frames taken.
fn count(
    program: &Path,
    subject: Subject,
    bursts: u32,
    profile: &Path,
) -> Result<(u64, u64), Skipped> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={}", subject.under_lock()))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args([subject.argument(), FREE_ORDER, &bursts.to_string()]);
    let output = valgrind.output().map_err(|error| {
        Skipped(format!("instructions are counted by valgrind, which cannot be started: {error}"))
    })?;
    let text = fs::read_to_string(profile).unwrap_or_default();
    let printed = String::from_utf8_lossy(&output.stdout);
    let frames = printed.trim().parse().ok().filter(|_| output.status.success());
    collected(&text).zip(frames).ok_or_else(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let inside = subject.under_lock();
        Skipped(format!("callgrind counted nothing inside {inside} ({}) {last}", output.status))
    })
}

/// The total number of instructions in a callgrind profile.
fn collected(profile: &str) -> Option<u64> {
    let totals = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    totals.split_whitespace().next()?.parse().ok().filter(|&count| count > 0)
}

/// Size of the code of an allocator.
pub(super) const TEXT_BYTES: &str = "text_bytes";
/// Growth of that size.
pub(super) const TEXT_GROWTH: &str = "text_growth_bytes";

/// The allocators, with a part of the paths of their functions.
const SUBJECTS: [(&str, &str); 2] =
    [("list-buddy", "framewright_peers::list_buddy::"), ("framewright", "framewright::")];

/// Bytes per function.
type Functions = IndexMap<String, u64>;

/// Stores the code sizes of both programs in rows, and the sizes of functions in runs.
pub(super) fn fill(builds: &Builds, results: &mut Results) -> Result<(), Skipped> {
    let (before, after) = (functions(&builds.outlined())?, functions(&builds.inlined())?);
    for (subject, within) in SUBJECTS {
        let all = |functions: &Functions| -> f64 {
            functions
                .iter()
                .filter(|(name, _)| name.contains(within))
                .map(|(_, &size)| size)
                .sum::<u64>() as f64
        };
        let key = Key { workload: "inlining", machine: "x86-64", subject, metric: TEXT_BYTES };
        let sides =
            Sides::paired(&[all(&before)], &[all(&after)], Unit::Bytes, Some(Better::Lower));
        results.measured(key, sides);
        let growth = Key { metric: TEXT_GROWTH, ..key };
        let sides =
            Sides::paired(&[0.0], &[all(&after) - all(&before)], Unit::Bytes, Some(Better::Lower));
        results.measured(growth, sides);
    }
    let runs = [("outlined", &before, &after), ("inlined", &after, &before)];
    results.runs.extend(runs.map(|(label, these, others)| run(label, these, others)));
    Ok(())
}

/// The functions that differ between the programs, with the sizes of one of them.
fn run(label: &str, these: &Functions, others: &Functions) -> Run {
    let ours = |name: &str| SUBJECTS.iter().any(|(_, within)| name.contains(within));
    let differs = |name: &String| ours(name) && these.get(name) != others.get(name);
    let mut names: Vec<&String> =
        these.keys().chain(others.keys()).filter(|name| differs(name)).collect();
    names.sort();
    names.dedup();
    let metric = |name: &String| {
        let bytes = these.get(name).copied().unwrap_or_default() as f64;
        (format!("{TEXT_BYTES} {name}"), Metric::once(bytes, Unit::Bytes, Some(Better::Lower)))
    };
    Run {
        label: format!("build, {label}"),
        metrics: names.into_iter().map(metric).collect(),
        ..Run::default()
    }
}

/// Sizes of all functions; several instances of one name are added up.
fn functions(program: &Path) -> Result<Functions, Skipped> {
    let unreadable =
        |why: String| Skipped(format!("the symbols of a built program cannot be read: {why}"));
    let bytes = fs::read(program).map_err(|error| unreadable(error.to_string()))?;
    let file = object::File::parse(&*bytes).map_err(|error| unreadable(error.to_string()))?;
    let mut functions = Functions::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let name = symbol.name().unwrap_or_default();
        let path = format!("{:#}", rustc_demangle::demangle(name));
        *functions.entry(path).or_default() += symbol.size();
    }
    match functions.keys().any(|name| name.contains(SUBJECTS[0].1)) {
        true => Ok(functions),
        false => Err(unreadable("none of its functions was found".into())),
    }
}

/// Number of reported steps.
pub(super) const BUILD_STEPS: usize = 2;
/// The program, an example of this package.
const PACKAGE: &str = "framewright-peers";
const PROGRAM: &str = "bulk-take";
/// Makes each package call one function that is inlined otherwise. The compiler flags of the source
/// tree are used, too.
const OUTLINED: &[&str] =
    &["--config", r#"target."cfg(all())".rustflags=["--cfg", "framewright_outlined"]"#];
/// The library as released.
const INLINED: &[&str] = &[];

/// The reason why something was not measured.
#[derive(Debug)]
pub(super) struct Skipped(pub(super) String);

/// Both builds of the program, in a folder of their own.
pub(super) struct Builds {
    folder: TempDir,
}

impl Builds {
    /// Builds the program twice.
    pub(super) fn make(steps: &mut Steps<'_, '_>) -> Result<Self, Skipped> {
        let tree = checkout::find().map_err(Skipped)?;
        let folder = tempfile::tempdir()
            .map_err(|error| Skipped(format!("no temporary folder: {error}")))?;
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

    /// The program in which the function that takes frames is called.
    pub(super) fn outlined(&self) -> PathBuf {
        self.folder.path().join("outlined")
    }

    /// The program in which the function that takes frames is inlined.
    pub(super) fn inlined(&self) -> PathBuf {
        self.folder.path().join("inlined")
    }

    /// A temporary file in the folder of the programs.
    pub(super) fn scratch(&self) -> PathBuf {
        self.folder.path().join("profile")
    }
}

/// Builds the program. Returns its path.
fn build(tree: &Path, flags: &[&str]) -> Result<PathBuf, Skipped> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(tree)
        .args(["build", "--profile=lto", "--quiet", "--message-format=json"])
        .args(["-p", PACKAGE, "--example", PROGRAM])
        .args(flags)
        // These variables would override the flags above.
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
        .ok_or_else(|| Skipped(format!("cargo did not name the file of {PROGRAM}")))
}

/// A message of cargo about an artefact.
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
    fn totals_are_read_from_a_profile() {
        assert_eq!(collected("events: Ir\n16 5\n\ntotals: 12345\n"), Some(12_345));
        assert_eq!(collected("events: Ir\ntotals: 0\n"), None);
        assert_eq!(collected(""), None);
    }

    #[test]
    fn subjects_are_numbered_in_their_order() {
        for (index, subject) in Subject::ALL.into_iter().enumerate() {
            assert_eq!(Counts::RECORDED.of_subject(subject), Counts::RECORDED.0[index]);
        }
    }

    #[test]
    fn a_missing_program_is_skipped_with_a_reason() {
        let nowhere = Path::new("/nonexistent/program");
        let Err(Skipped(why)) = per_frame(nowhere, Subject::Bulk, nowhere) else {
            panic!("nothing was counted");
        };
        assert!(why.contains("valgrind") || why.contains("callgrind"), "{why}");
    }

    fn of(functions: &[(&str, u64)]) -> Functions {
        functions.iter().map(|&(name, size)| (name.to_owned(), size)).collect()
    }

    #[test]
    fn only_functions_that_differ_are_reported() {
        let before = of(&[("framewright::take", 10), ("framewright::same", 5), ("main", 1)]);
        let after = of(&[("framewright::same", 5), ("framewright::refill", 30), ("main", 2)]);
        let run = run("inlined", &after, &before);
        let bytes: Vec<(&str, f64)> =
            run.metrics.iter().map(|(name, metric)| (&**name, metric.median)).collect();
        assert_eq!(
            bytes,
            [("text_bytes framewright::refill", 30.0), ("text_bytes framewright::take", 0.0)]
        );
    }

    #[test]
    fn a_file_that_is_no_program_is_skipped_with_a_reason() {
        let Err(Skipped(why)) = functions(Path::new(file!())) else { panic!("it is source") };
        assert!(why.contains("cannot be read"), "{why}");
    }

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
