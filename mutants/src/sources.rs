//! The sources of the library, original or with a seeded bug.

use crate::items::{Place, places};
use crate::rule::{Edit, Match, Rule};
use crate::tokens::{Token, tokens};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources by path.
#[derive(Debug)]
pub(crate) struct Sources(BTreeMap<PathBuf, Source>);

#[derive(Debug)]
struct Source {
    code: String,
    tokens: Vec<Token>,
    places: Vec<Place>,
}

impl Source {
    fn parse(code: String) -> Result<Self, String> {
        let places = places(&code).map_err(|why| why.to_string())?;
        let tokens = tokens(&code).map_err(|why| why.to_string())?;
        Ok(Self { code, tokens, places })
    }
}

impl Sources {
    /// Reads all Rust files of a directory.
    pub(crate) fn read(directory: impl AsRef<Path>) -> Result<Self, String> {
        let mut files = Vec::new();
        read(directory.as_ref(), &mut files)?;
        Self::new(files)
    }

    /// Files, by path and content.
    pub(crate) fn new(files: Vec<(PathBuf, String)>) -> Result<Self, String> {
        let parse = |(path, code): (PathBuf, String)| match Source::parse(code) {
            Ok(source) => Ok((path, source)),
            Err(why) => Err(format!("{}: {why}", path.display())),
        };
        files.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the name of an item, file or directory contains `part`.
    pub(crate) fn name(&self, part: &str) -> bool {
        let here = |(path, source): (&PathBuf, &Source)| {
            path.to_string_lossy().contains(part)
                || source.places.iter().any(|item| item.is_named(part))
        };
        self.0.iter().any(here)
    }

    /// The changed files of a rule, with their new content. Each edit of the rule must match once.
    pub(crate) fn mutated(&self, rule: &Rule) -> Result<Vec<(PathBuf, String)>, String> {
        let name = &rule.name;
        let mut edits = BTreeMap::<&Path, Vec<(Match, &Edit)>>::new();
        for edit in &rule.edits {
            let (path, found) = self.only_match(edit).map_err(|why| format!("{name}: {why}"))?;
            edits.entry(path).or_default().push((found, edit));
        }
        let mutate = |(path, mut edits): (&Path, Vec<(Match, &Edit)>)| {
            edits.sort_by_key(|(found, _)| found.bytes.start);
            let code = self.0[path].code.clone();
            let code =
                edits.iter().rev().fold(code, |code, (found, edit)| edit.apply(&code, found));
            let here =
                |why| format!("{name}: the result for {} is not valid Rust: {why}", path.display());
            syn::parse_file(&code).map_err(here)?;
            Ok((path.to_path_buf(), code))
        };
        edits.into_iter().map(mutate).collect()
    }

    fn only_match(&self, edit: &Edit) -> Result<(&Path, Match), String> {
        let mut found = Vec::new();
        for (path, source) in &self.0 {
            let here = edit.matches(&source.tokens, &source.places);
            found.extend(here.into_iter().map(|here| (path.as_path(), here)));
        }
        if found.len() > 1 {
            let places = found.iter().map(|(path, here)| self.line(path, here));
            return Err(format!(
                "matches more than once: {}",
                places.collect::<Vec<_>>().join(", ")
            ));
        }
        found.pop().ok_or_else(|| format!("matches nowhere: {}", edit.pattern()))
    }

    fn line(&self, path: &Path, found: &Match) -> String {
        let line = self.0[path].code[..found.bytes.start].lines().count().max(1);
        format!("{}:{line}", path.display())
    }
}

fn read(directory: &Path, files: &mut Vec<(PathBuf, String)>) -> Result<(), String> {
    let at = |why: std::io::Error| format!("{}: {why}", directory.display());
    for entry in fs::read_dir(directory).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.is_dir() {
            read(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = fs::read_to_string(&path).map_err(at)?;
            files.push((path, code));
        }
    }
    Ok(())
}
