//! The list of all unsafe functions, and of all public functions with frames, tokens, ranges,
//! batches or captured blocks in their signatures. Each line says why the function is sound.
//!
//! Each line has three columns: the function, the public type or trait that makes the function
//! sound, and the reason. The second column is `value` if the function only computes with numbers,
//! and `unsafe` if the caller must prove soundness.

use std::collections::{BTreeMap, BTreeSet};

/// Types that represent frames, or the right to use them.
const HANDLED: [&str; 14] = [
    "BatchSlot",
    "Block",
    "Blocks",
    "Captured",
    "Claims",
    "CpuToken",
    "Extent",
    "FlushBatch",
    "Flushed",
    "FrameRange",
    "IsolatedBlock",
    "Move",
    "Pfn",
    "Unmapping",
];

/// Methods of traits of the standard library that change no owner.
const NOT_LISTED: [&str; 3] = ["drop", "fmt", "size_hint"];

/// The functions to list, and whether each is unsafe. These are all unsafe functions, and all
/// functions with types of [`HANDLED`] in their signatures. The name of a function consists of its
/// type, trait or module and its own name, because a type may have several paths.
pub(crate) fn functions(lines: &BTreeSet<String>) -> BTreeMap<String, bool> {
    let functions = lines.iter().filter_map(|line| {
        let (before, signature) = line.split_once("fn ")?;
        let is_unsafe = before.split_whitespace().any(|word| word == "unsafe");
        let name = name(signature);
        let is_excluded = NOT_LISTED.iter().any(|method| name.ends_with(&format!("::{method}")));
        let is_listed =
            is_unsafe || words(signature).any(|word| HANDLED.contains(&word)) && !is_excluded;
        is_listed.then_some((name, is_unsafe))
    });
    functions.collect()
}

/// The names of types and traits.
pub(crate) fn types(lines: &BTreeSet<String>) -> BTreeSet<String> {
    let types = lines.iter().filter_map(|line| {
        let kinds = ["struct ", "enum ", "trait "];
        let path = kinds.into_iter().find_map(|kind| Some(line.split_once(kind)?.1))?;
        path_of(path).rsplit("::").next().map(str::to_owned)
    });
    types.collect()
}

/// The problems of the file. It must list `functions` with owners among `types`.
pub(crate) fn problems(
    text: &str,
    functions: &BTreeMap<String, bool>,
    types: &BTreeSet<String>,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for (nth, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let problem = match line.split('\t').collect::<Vec<_>>()[..] {
            [function, owner, why] => {
                if !listed.insert(function.to_owned()) {
                    Some(format!("{function} is listed twice"))
                } else {
                    problem(function, owner, why, functions, types)
                }
            }
            _ => Some("the line does not have three columns: function, owner, reason".to_owned()),
        };
        problems.extend(problem.map(|problem| format!("line {}: {problem}", nth + 1)));
    }
    let missing = functions.keys().filter(|&function| !listed.contains(function));
    problems.extend(missing.map(|function| {
        format!("{function} is missing: add its owner and the reason why it is sound")
    }));
    problems
}

fn problem(
    function: &str,
    owner: &str,
    why: &str,
    functions: &BTreeMap<String, bool>,
    types: &BTreeSet<String>,
) -> Option<String> {
    let Some(&is_unsafe) = functions.get(function) else {
        return Some(format!("{function} is not public, or handles no frames: remove the line"));
    };
    if is_unsafe != (owner == "unsafe") {
        let what = if is_unsafe { "unsafe" } else { "not unsafe" };
        return Some(format!("{function} is {what}, but its owner is '{owner}'"));
    }
    if !["unsafe", "value"].contains(&owner) && !types.contains(owner) {
        return Some(format!("the owner of {function}, '{owner}', is no public type or trait"));
    }
    why.trim().is_empty().then(|| format!("{function} has no reason"))
}

/// The file with a new line for each missing function, and without functions that no longer exist.
pub(crate) fn updated(text: &str, functions: &BTreeMap<String, bool>) -> String {
    let is_comment = |line: &&str| line.starts_with('#');
    let function = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    let mut rows: BTreeMap<String, String> = text
        .lines()
        .filter(|line| !is_comment(line))
        .map(|line| (function(line), line.to_owned()))
        .filter(|(name, _)| functions.contains_key(name))
        .collect();
    for name in functions.keys() {
        rows.entry(name.clone()).or_insert_with(|| format!("{name}\t?\t"));
    }
    let comments = text.lines().filter(is_comment).map(str::to_owned);
    comments.chain(rows.into_values()).map(|line| line + "\n").collect()
}

/// The last two parts of the path of a function, from its signature.
fn name(signature: &str) -> String {
    let path = path_of(signature);
    let mut parts = path.rsplit("::");
    let (function, of) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{of}::{function}")
}

/// The path at the start of a text, without generics.
fn path_of(text: &str) -> String {
    let is_of_path = |&c: &char| c.is_alphanumeric() || c == '_' || c == ':';
    let path: String = without_generics(text).chars().take_while(is_of_path).collect();
    path.trim_end_matches(':').to_owned()
}

/// The text without angle brackets and their contents.
fn without_generics(text: &str) -> String {
    let mut depth = 0;
    let is_kept = |&c: &char| {
        depth += i32::from(c == '<');
        let is_kept = depth == 0;
        depth -= i32::from(c == '>');
        is_kept
    };
    text.replace("->", "").chars().filter(is_kept).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface() -> BTreeSet<String> {
        let lines = [
            "pub struct framewright::CpuToken<'a, 'm, P: framewright::platform::Platform>",
            "pub unsafe trait framewright::platform::Platform: core::marker::Sized",
            "#[non_exhaustive] pub enum framewright::RangeError",
            "pub fn framewright::CpuToken<'a, 'm, P>::free(&mut self, framewright::Block<'m>) -> bool",
            "pub fn framewright::CpuToken<'a, 'm, P>::fmt(&self, &mut core::fmt::Formatter<'_>)",
            "pub const fn framewright::platform::poison_word(framewright::Pfn) -> u64",
            "pub unsafe fn framewright::Memory<'m, P>::flusher(&self)",
            "pub fn framewright::Layout::bytes(&self) -> usize",
        ];
        lines.map(str::to_owned).into()
    }

    fn problems_of(text: &str) -> Vec<String> {
        problems(text, &functions(&surface()), &types(&surface()))
    }

    const RIGHT: &str = "# A comment.\n\
        CpuToken::free\tCpuToken\tit is used up\n\
        platform::poison_word\tvalue\ta number\n\
        Memory::flusher\tunsafe\tno translation remains\n";

    #[test]
    fn functions_that_handle_frames_and_unsafe_ones_are_listed() {
        let listed = functions(&surface());
        let all = [
            ("CpuToken::free", false),
            ("Memory::flusher", true),
            ("platform::poison_word", false),
        ];
        assert_eq!(listed, all.map(|(name, is)| (name.to_owned(), is)).into());
        assert_eq!(
            types(&surface()),
            ["CpuToken", "Platform", "RangeError"].map(str::to_owned).into()
        );
        assert_eq!(problems_of(RIGHT), [""; 0]);
    }

    #[test]
    fn each_problem_is_named() {
        for (line, with, problem) in [
            ("CpuToken::free\tCpuToken\tit is used up\n", "", "CpuToken::free is missing"),
            ("\tCpuToken\t", "\tToken\t", "'Token', is no public type"),
            ("\tCpuToken\t", "\tunsafe\t", "CpuToken::free is not unsafe"),
            ("\tunsafe\t", "\tFlusher\t", "Memory::flusher is unsafe"),
            ("it is used up", " ", "CpuToken::free has no reason"),
            ("\tit is used up", "", "line 2: the line does not have three columns"),
            ("# A comment.", "Old::one\tvalue\tx", "line 1: Old::one is not public"),
            ("# A comment.", "CpuToken::free\tvalue\tx", "line 2: CpuToken::free is listed twice"),
        ] {
            let found = problems_of(&RIGHT.replace(line, with));
            assert!(found.iter().any(|one| one.contains(problem)), "{problem}: {found:?}");
        }
    }

    #[test]
    fn an_update_keeps_reasons_and_asks_for_new_ones() {
        let text = RIGHT.replace("CpuToken::free", "CpuToken::gone");
        let text = updated(&text, &functions(&surface()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["# A comment.", "CpuToken::free\t?\t"]);
        assert_eq!(lines[2..].len(), 2);
        assert!(problems_of(&text)[0].contains("'?', is no public type"));
    }
}
