//! Checks that the modules of the library depend on each other in one direction.
//!
//! A module may name modules below itself in [`LAYERS`], and no others. So there is no cycle of modules, and
//! none of files of different modules. A path counts as it is written: a path through a re-export is an arrow
//! to the module that re-exports. A call of a method that one module alone defines, for a type of another module,
//! is an arrow to the module that defines the method. Code for tests alone may name anything.
//!
//! Arrows that still run upward are listed in a file, one `FILE MODULE` to a line. An upward arrow that is not
//! listed is an error, and so is a listed one that no longer exists: the list can only shrink.
//!
//! Usage: `layers SOURCES KNOWN`. Exit code: 0 the direction holds, 1 it does not, 2 the arguments are wrong.

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

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [sources, known] = arguments.as_slice() else {
        eprintln!(
            "usage: layers SOURCES KNOWN, for example: layers framewright/src .ci/layers.known"
        );
        return ExitCode::from(2);
    };
    match check(Path::new(sources), Path::new(known)) {
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

/// The graph of the modules as text, or what is wrong with it.
fn check(sources: &Path, known: &Path) -> Result<String, String> {
    let list = std::fs::read_to_string(known)
        .map_err(|error| format!("error: cannot read {}: {error}\n", known.display()))?;
    let arrows = sources::arrows(sources)?;
    let graph = graph(&arrows)?;
    let upward = upward(&arrows);
    let problems = compare(&upward, &parse_known(&list)?, known);
    if problems.is_empty() {
        return Ok(graph);
    }
    let advice = "Move the value down, or have the lower module define a trait.\n";
    Err(graph + &problems + advice)
}

/// The place of a module among the layers.
fn layer(module: &str) -> Result<usize, String> {
    LAYERS.iter().position(|&name| name == module).ok_or_else(|| {
        format!("error: the module '{module}' is not in LAYERS of tools/layers/src/main.rs\n")
    })
}

/// A line for each module with the modules that it names, and the sums. Upward arrows are marked with `^`.
fn graph(arrows: &[Arrow]) -> Result<String, String> {
    let mut modules: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for arrow in arrows {
        modules.entry(layer(&arrow.from)?).or_default().insert(layer(&arrow.to)?);
    }
    let mut text = String::new();
    for (&from, targets) in modules.iter().rev() {
        let _ = write!(text, "{:<10} ->", LAYERS[from]);
        for &to in targets.iter().rev() {
            let _ = write!(text, " {}{}", if to > from { "^" } else { "" }, LAYERS[to]);
        }
        text.push('\n');
    }
    let all: usize = modules.values().map(BTreeSet::len).sum();
    let up: usize =
        modules.iter().map(|(from, targets)| targets.iter().filter(|&to| to > from).count()).sum();
    let files = upward(arrows).len();
    let _ = writeln!(
        text,
        "arrows between modules: {all}, upward: {up}; upward from a file to a module: {files}"
    );
    Ok(text)
}

/// The upward arrows, each with one path that makes it.
fn upward(arrows: &[Arrow]) -> BTreeMap<(String, String), String> {
    let up = arrows.iter().filter(|arrow| layer(&arrow.from).ok() < layer(&arrow.to).ok());
    up.map(|arrow| ((arrow.file.clone(), arrow.to.clone()), arrow.path.clone())).collect()
}

/// The listed arrows: file and module.
fn parse_known(list: &str) -> Result<BTreeSet<(String, String)>, String> {
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [file, module] => Ok((file.into(), module.into())),
            _ => Err(format!("error: the list has a line that is not FILE MODULE: {line}\n")),
        })
        .collect()
}

/// The differences between the upward arrows that exist and those that are listed.
fn compare(
    upward: &BTreeMap<(String, String), String>,
    known: &BTreeSet<(String, String)>,
    list: &Path,
) -> String {
    let mut problems = String::new();
    for ((file, module), path) in upward {
        if !known.contains(&(file.clone(), module.clone())) {
            let _ = writeln!(problems, "error: {file} names {path}, but '{module}' lies above it");
        }
    }
    for (file, module) in known {
        if !upward.contains_key(&(file.clone(), module.clone())) {
            let _ = writeln!(
                problems,
                "error: {file} names nothing of '{module}' any more: remove the line from {}",
                list.display()
            );
        }
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

    fn problems(arrows: &[Arrow], known: &str) -> String {
        compare(&upward(arrows), &parse_known(known).unwrap(), Path::new("LIST"))
    }

    #[test]
    fn only_arrows_that_run_down_or_are_listed_pass() {
        assert_eq!(problems(&[arrow("zone", "buddy")], ""), "");
        let up = [arrow("buddy", "zone")];
        assert!(problems(&up, "").contains("buddy/mod.rs names crate::zone::X"));
        assert_eq!(problems(&up, "buddy/mod.rs zone # why"), "");
        assert!(
            problems(&up, "buddy/take.rs zone").contains("buddy/take.rs names nothing of 'zone'")
        );
        assert!(problems(&[], "buddy/mod.rs zone").contains("remove the line from LIST"));
    }

    #[test]
    fn the_graph_marks_what_runs_up_and_counts() {
        let text = graph(&[arrow("zone", "buddy"), arrow("buddy", "zone")]).unwrap();
        assert!(text.contains("zone       -> buddy\nbuddy      -> ^zone\n"), "{text}");
        assert!(text.contains("arrows between modules: 2, upward: 1"), "{text}");
        assert!(graph(&[arrow("cellar", "buddy")]).unwrap_err().contains("'cellar'"));
    }

    #[test]
    fn a_line_that_is_no_arrow_is_refused() {
        assert!(parse_known("a b c").unwrap_err().contains("a b c"));
    }
}
