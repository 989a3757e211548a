//! Bytes of text, function by function, read from the symbols of both programs.

use std::{fs, path::Path};

use indexmap::IndexMap;
use object::{Object, ObjectSymbol, SymbolKind};

use super::builds::{Builds, Skipped};
use crate::{
    report::{Better, Metric, Run, Sides, Unit},
    reproduce::{Key, Results},
};

/// Text of an allocator in all.
pub(super) const TEXT_BYTES: &str = "text_bytes";
/// How much longer it has become.
pub(super) const TEXT_GROWTH: &str = "text_growth_bytes";

/// An allocator, and what the paths of its functions have in them.
const SUBJECTS: [(&str, &str); 2] =
    [("list-buddy", "framewright_peers::list_buddy::"), ("framewright", "framewright::")];

/// Bytes per function.
type Functions = IndexMap<String, u64>;

/// Puts both programs' text into rows, function by function into runs.
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

/// The functions in which both programs differ, as they are in one of them.
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

/// Sizes of all functions; what is generated several times under one name is added up.
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
        false => Err(unreadable("none of its functions is there".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(functions: &[(&str, u64)]) -> Functions {
        functions.iter().map(|&(name, size)| (name.to_owned(), size)).collect()
    }

    #[test]
    fn only_functions_that_differ_are_told() {
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
    fn what_is_no_program_is_skipped_with_a_reason() {
        let Err(Skipped(why)) = functions(Path::new(file!())) else { panic!("it is source") };
        assert!(why.contains("cannot be read"), "{why}");
    }
}
