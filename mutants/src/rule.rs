//! Rules: tokens to find, and code to replace them.

use crate::items::Place;
use crate::tokens::{Token, tokens};
use std::collections::HashMap;
use std::ops::Range;
use toml::Table;

/// A seeded bug, with the name of its table in `rules.toml`.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    /// The test program, as arguments of `cargo test -p framewright --features compare`. A `--cfg NAME`
    /// before them is for the compiler.
    pub(crate) program: String,
    /// The filter for the tests that must fail with the bug. Empty for all tests of the program.
    pub(crate) filter: String,
    pub(crate) edits: Vec<Edit>,
}

/// One replacement.
#[derive(Debug)]
pub(crate) struct Edit {
    /// The end of the path of the item that contains the tokens.
    within: Option<String>,
    replace: Vec<Token>,
    with: String,
}

impl Rule {
    /// Refuses a filter that names no item and no file. Such a filter selects no test, and a test program
    /// that runs no test passes.
    pub(crate) fn has_test(&self, exists: impl Fn(&str) -> bool) -> Result<(), String> {
        match self.filter.split("::").find(|part| !exists(part)) {
            Some(part) => Err(format!("{}: no test has '{part}' in its path", self.name)),
            None => Ok(()),
        }
    }
}

/// The rules of a file, in its order, or the error in it.
pub(crate) fn rules(text: &str) -> Result<Vec<Rule>, String> {
    let table: Table = text.parse().map_err(|why| format!("{why}"))?;
    let rule = |(name, value): (String, toml::Value)| {
        let rule = value.as_table().ok_or("is not a table".to_string());
        rule.and_then(|rule| parse(&name, rule)).map_err(|why| format!("{name}: {why}"))
    };
    table.into_iter().map(rule).collect()
}

fn parse(name: &str, rule: &Table) -> Result<Rule, String> {
    known(rule, &["why", "caught_by", "in", "replace", "with", "also"])?;
    text(rule, "why")?;
    let mut edits = vec![edit(rule)?];
    if let Some(also) = rule.get("also") {
        let also = also.as_table().ok_or("'also' is not a table")?;
        known(also, &["in", "replace", "with"])?;
        edits.push(edit(also)?);
    }
    let (program, filter) = test(text(rule, "caught_by")?)?;
    Ok(Rule { name: name.to_string(), program, filter, edits })
}

/// Program and filter of `[--cfg NAME] --lib|--test NAME [FILTER]`.
fn test(caught_by: &str) -> Result<(String, String), String> {
    let words: Vec<&str> = caught_by.split(' ').collect();
    let flag = if words[0] == "--cfg" { 2 } else { 0 };
    let program = match words.get(flag) {
        Some(&"--lib") => flag + 1,
        Some(&"--test") if words.len() > flag + 1 => flag + 2,
        _ => {
            return Err("'caught_by' is not '[--cfg NAME] --lib|--test NAME [FILTER]'".to_string());
        }
    };
    Ok((words[..program].join(" "), words[program..].join(" ")))
}

fn edit(table: &Table) -> Result<Edit, String> {
    let within = table.get("in").map(|_| text(table, "in")).transpose()?.map(str::to_string);
    let replace = text(table, "replace")?;
    let replace = tokens(replace).map_err(|why| format!("'replace': {why}"))?;
    if replace.is_empty() {
        return Err("'replace' is empty: it needs at least one token to search for".to_string());
    }
    Ok(Edit { within, replace, with: text(table, "with")?.to_string() })
}

fn text<'t>(table: &'t Table, key: &str) -> Result<&'t str, String> {
    let value = table.get(key).ok_or_else(|| format!("'{key}' is missing"))?;
    value.as_str().ok_or_else(|| format!("'{key}' is not a string"))
}

fn known(table: &Table, keys: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key '{key}': known are {}", keys.join(", "))),
        None => Ok(()),
    }
}

/// A match of an edit: its bytes, and the bytes that its placeholders match.
#[derive(Debug)]
pub(crate) struct Match {
    pub(crate) bytes: Range<usize>,
    holes: HashMap<String, Range<usize>>,
}

impl Edit {
    /// All matches in a file.
    pub(crate) fn matches(&self, source: &[Token], places: &[Place]) -> Vec<Match> {
        let found = (0..source.len()).filter_map(|at| self.matches_at(source, at));
        let within = |found: &Match| match &self.within {
            Some(path) => places.iter().any(|place| place.has(path, &found.bytes)),
            None => true,
        };
        found.filter(within).collect()
    }

    /// `$name` matches one token, or one group with its brackets.
    fn matches_at(&self, source: &[Token], first: usize) -> Option<Match> {
        let mut holes = HashMap::new();
        let mut at = first;
        let mut pattern = self.replace.iter();
        while let Some(want) = pattern.next() {
            let token = source.get(at)?;
            if want.text == "$" {
                let next = token.next;
                let bytes = token.bytes.start..source[next - 1].bytes.end;
                holes.insert(pattern.next()?.text.clone(), bytes);
                at = next;
            } else if want.text == token.text {
                at += 1;
            } else {
                return None;
            }
        }
        Some(Match { bytes: source[first].bytes.start..source[at - 1].bytes.end, holes })
    }

    /// The searched tokens and their item, for messages.
    pub(crate) fn pattern(&self) -> String {
        let replace = self.replace.iter().map(|token| token.text.as_str());
        let replace = replace.collect::<Vec<_>>().join(" ");
        match &self.within {
            Some(path) => format!("in {path}: {replace}"),
            None => replace,
        }
    }

    /// `code` with the replacement at a match.
    pub(crate) fn apply(&self, code: &str, found: &Match) -> String {
        let mut with = self.with.clone();
        for (name, bytes) in &found.holes {
            with = with.replace(&format!("${name}"), &code[bytes.clone()]);
        }
        format!("{}{with}{}", &code[..found.bytes.start], &code[found.bytes.end..])
    }
}
