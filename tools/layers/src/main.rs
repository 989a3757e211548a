//! Checks that the dependencies between the modules of the library have one direction, and draws
//! the modules. A module may name only modules before itself in [`LAYERS`]. So there are no cycles
//! between modules, nor between files of different modules.
//!
//! There is an *arrow* from each module to every module that its paths name, even if the named
//! module only re-exports the item. There are two exceptions: a path through the root of the crate
//! counts for the module that defines the item, and a call of a method counts for the module with
//! the `impl`. Test code may name any module.
//!
//! The files of one module may name one another, but not in a cycle. Between files, a path counts
//! for the file that defines the item, and a file that only declares and re-exports its nested
//! modules does not name them. Calls of methods and uses of fields are not seen, because tokens do
//! not tell the type of a receiver.
//!
//! A page of documentation contains a picture of the modules between two marks. The command fails
//! if that picture differs from the sources. With `--update`, it writes the picture into the page.
//!
//! Usage: `layers [--update] SOURCES PAGE`. Exit codes: 0 all dependencies and the page are
//! correct, 1 something is wrong, 2 bad arguments.

mod cycles;
mod overview;
mod paths;
mod sources;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    process::ExitCode,
};

use sources::Arrow;

/// The modules of the library, lowest first.
const LAYERS: [&str; 17] = [
    "types",
    "sync",
    "platform",
    "observe",
    "hardening",
    "tuning",
    "buddy",
    "zone",
    "pcp",
    "core",
    "alloc",
    "tlb",
    "reclaim",
    "migrate",
    "compact",
    "memory",
    "global",
];

/// The modules that each module names, by their indices in [`LAYERS`].
type Graph = BTreeMap<usize, BTreeSet<usize>>;

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let update = arguments.first().is_some_and(|first| first == "--update");
    arguments.drain(..usize::from(update));
    let [sources, page] = arguments.as_slice() else {
        eprintln!(
            "usage: layers [--update] SOURCES PAGE, for example: layers framewright/src ARCHITECTURE.md"
        );
        return ExitCode::from(2);
    };
    match check(Path::new(sources), Path::new(page), update) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(problems) => {
            eprint!("{problems}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the graph of the modules as text, or a description of the problems.
fn check(sources: &Path, page: &Path, update: bool) -> Result<String, String> {
    let files = sources::read(sources)?;
    let arrows = sources::arrows(&files)?;
    let graph = graph(&arrows)?;
    let problems = upward(&arrows);
    if !problems.is_empty() {
        let advice = "Move the used item down, to or below the module that uses it; or define a trait in the lower \
                      module and implement it in the upper one.\n";
        return Err(list(&graph) + &problems + advice);
    }
    let inner = cycles::check(&files).map_err(|problems| {
        problems
            + "Move an item, so that no path leads back: a function to the file of its caller, a constant to the file \
               of its type, or a type that both files name into a file below both.\n"
    })?;
    overview::check_or_write(&overview::draw(&graph, sources)?, page, update)?;
    Ok(list(&graph) + &format!("arrows between files of one module: {inner}, in cycles: 0\n"))
}

/// The index of a module in [`LAYERS`].
fn layer(module: &str) -> Result<usize, String> {
    LAYERS.iter().position(|&name| name == module).ok_or_else(|| {
        format!("error: the module '{module}' is not in LAYERS of tools/layers/src/main.rs\n")
    })
}

fn graph(arrows: &[Arrow]) -> Result<Graph, String> {
    let mut graph = Graph::new();
    for arrow in arrows {
        graph.entry(layer(&arrow.from)?).or_default().insert(layer(&arrow.to)?);
    }
    Ok(graph)
}

/// A line for each module with the modules that it names, and a line with totals. `^` marks upward
/// arrows.
fn list(graph: &Graph) -> String {
    let mut text = String::new();
    for (&from, targets) in graph.iter().rev() {
        let _ = write!(text, "{:<10} ->", LAYERS[from]);
        for &to in targets.iter().rev() {
            let _ = write!(text, " {}{}", if to > from { "^" } else { "" }, LAYERS[to]);
        }
        text.push('\n');
    }
    let all: usize = graph.values().map(BTreeSet::len).sum();
    let up: usize =
        graph.iter().map(|(from, targets)| targets.iter().filter(|&to| to > from).count()).sum();
    let _ = writeln!(text, "arrows between modules: {all}, upward: {up}");
    text
}

/// The upward arrows: a line for each file and module, with one path as an example.
fn upward(arrows: &[Arrow]) -> String {
    let up = arrows.iter().filter(|arrow| layer(&arrow.from).ok() < layer(&arrow.to).ok());
    let paths: BTreeMap<_, _> = up.map(|arrow| ((&arrow.file, &arrow.to), &arrow.path)).collect();
    let mut problems = String::new();
    for ((file, module), path) in paths {
        let _ = writeln!(problems, "error: {file} names {path}, but '{module}' lies above it");
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: &str, to: &str) -> Arrow {
        let (from, to) = (from.to_string(), to.to_string());
        Arrow { file: format!("{from}/mod.rs"), path: format!("crate::{to}::X"), from, to }
    }

    #[test]
    fn only_arrows_that_run_down_pass() {
        assert_eq!(upward(&[arrow("zone", "buddy")]), "");
        let problems = upward(&[arrow("buddy", "zone"), arrow("buddy", "zone")]);
        assert_eq!(problems.lines().count(), 1, "{problems}");
        assert!(problems.contains("buddy/mod.rs names crate::zone::X"), "{problems}");
    }

    #[test]
    fn the_list_marks_what_runs_up_and_counts() {
        let text = list(&graph(&[arrow("zone", "buddy"), arrow("buddy", "zone")]).unwrap());
        assert!(text.contains("zone       -> buddy\nbuddy      -> ^zone\n"), "{text}");
        assert!(text.contains("arrows between modules: 2, upward: 1"), "{text}");
        assert!(graph(&[arrow("cellar", "buddy")]).unwrap_err().contains("'cellar'"));
    }
}
