//! Arrows between the files of one module, and their cycles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{paths::Import, sources::File};

/// For each file, the files of its module that it names, each with one path as an example.
type Graph<'f> = BTreeMap<&'f str, BTreeMap<&'f str, String>>;

/// Returns the number of arrows, or a description of the cycles.
pub(crate) fn check(files: &[File]) -> Result<usize, String> {
    let graph = graph(files);
    let problems = describe(&graph);
    if problems.is_empty() { Ok(graph.values().map(BTreeMap::len).sum()) } else { Err(problems) }
}

fn graph(files: &[File]) -> Graph<'_> {
    let all = Crate { files: files.iter().map(|file| (&file.module[..], file)).collect() };
    let mut graph = Graph::new();
    for file in files {
        let targets = graph.entry(file.name.as_str()).or_default();
        for path in all.named(file) {
            let to = all.definer(&path);
            if to.top() == file.top() && to.name != file.name {
                targets.entry(to.name.as_str()).or_insert_with(|| path.join("::"));
            }
        }
    }
    graph
}

/// The files by the paths of their modules.
struct Crate<'f> {
    files: BTreeMap<&'f [String], &'f File>,
}

impl<'f> Crate<'f> {
    /// The absolute paths that a file names. A file may import names of its nested modules only for
    /// others, so these count where its code uses them. So do names in an imported module.
    fn named(&self, file: &File) -> Vec<Vec<String>> {
        let mut named = file.found.paths.clone();
        for import in &file.found.imports {
            let is_glob = import.name == "*";
            let is_module = !is_glob && self.files.contains_key(&import.path[..]);
            if is_glob || !is_module && !import.path.starts_with(&file.module) {
                named.push(import.path.clone());
            }
            let uses = file.found.locals.iter().filter(|path| path[0] == import.name);
            let uses = uses.filter(|path| path.len() > 1 || !is_module);
            named.extend(uses.map(|path| [&import.path, &path[1..]].concat()));
        }
        let of_child =
            |path: &&Vec<String>| path.len() > 1 && file.found.children.contains(&path[0]);
        let of_children = file.found.locals.iter().filter(of_child);
        named.extend(of_children.map(|path| [&file.module, &path[..]].concat()));
        named
    }

    /// The file that defines what a path names.
    fn definer(&self, path: &[String]) -> &'f File {
        let mut path = path.to_vec();
        let mut followed = BTreeSet::new();
        loop {
            let file_at = |depth| Some((depth, *self.files.get(&path[..depth])?));
            let (depth, file) = (0..=path.len()).rev().find_map(file_at).expect("a root");
            let is_named = |import: &&Import| path.get(depth) == Some(&import.name);
            match file.found.imports.iter().find(is_named) {
                Some(import) if followed.insert(path.clone()) => {
                    path = [&import.path, &path[depth + 1..]].concat();
                }
                _ => return file,
            }
        }
    }
}

/// For each set of files that reach one another, a line for each arrow between two of them.
fn describe(graph: &Graph<'_>) -> String {
    let reached: BTreeMap<_, _> = graph.keys().map(|&file| (file, reached(graph, file))).collect();
    let mut told = BTreeSet::new();
    let mut problems = String::new();
    for (&file, all) in &reached {
        if !all.contains(file) || told.contains(file) {
            continue;
        }
        let cycle: BTreeSet<&str> =
            all.iter().filter(|other| reached[*other].contains(file)).copied().collect();
        let _ = writeln!(problems, "error: {} files use one another in a cycle:", cycle.len());
        for from in &cycle {
            for (to, path) in graph[from].iter().filter(|(to, _)| cycle.contains(*to)) {
                let _ = writeln!(problems, "    {from} names crate::{path} of {to}");
            }
        }
        told.extend(cycle);
    }
    problems
}

/// The files to which arrows lead from `file`, over any number of files.
fn reached<'f>(graph: &Graph<'f>, file: &str) -> BTreeSet<&'f str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = graph[file].keys().copied().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(graph[next].keys());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    /// The files of the module `zone`. Each has the name of its nested module, or none for `mod.rs`.
    fn files(sources: &[(&str, &str)]) -> Vec<File> {
        let root = ("", vec![], "pub use zone::Zone; mod zone; mod buddy;");
        let buddy = ("buddy/mod.rs", vec!["buddy"], "pub use crate::zone::Zone;");
        let zone = sources.iter().map(|&(name, source)| {
            let module = if name == "mod" { vec!["zone"] } else { vec!["zone", name] };
            (name, module, source)
        });
        let file = |(name, module, source): (&str, Vec<&str>, &str)| {
            let module: Vec<_> = module.into_iter().map(String::from).collect();
            let found = paths::find(source.parse().unwrap(), &module);
            File { name: name.to_string(), module, found }
        };
        [root, buddy].into_iter().chain(zone).map(file).collect()
    }

    /// The arrows between files of the module `zone`.
    fn arrows(sources: &[(&str, &str)]) -> Vec<String> {
        let files = files(sources);
        let graph = graph(&files);
        let arrows =
            graph.iter().flat_map(|(from, to)| to.keys().map(move |to| format!("{from} -> {to}")));
        arrows.collect()
    }

    #[test]
    fn files_are_named_by_path_and_by_reexport() {
        let zone = "mod a; mod b; mod c; pub(crate) use a::A; pub(crate) use c::C as D;";
        let a = "use super::b; struct A; fn f() { b::g() }";
        let b = "fn g(d: super::D) -> crate::zone::c::E {}";
        let c = "use crate::{Pfn, buddy::Bundle}; struct C; fn h() { b::f() }";
        assert_eq!(arrows(&[("mod", zone), ("a", a), ("b", b), ("c", c)]), ["a -> b", "b -> c"]);
        assert_eq!(
            arrows(&[("mod", zone), ("a", ""), ("b", "use super::*;"), ("c", "")]),
            ["b -> mod"]
        );
        // A path through another module or through the root leads back.
        let a = "use crate::buddy::Zone as Z; struct A;";
        let zone = "mod a; mod b; pub use b::Zone;";
        assert_eq!(arrows(&[("mod", zone), ("a", a), ("b", "struct Zone;")]), ["a -> b"]);
    }

    #[test]
    fn a_file_names_items_of_nested_modules_only_where_its_code_does() {
        let a = ("a", "struct A; impl super::Zone { fn f() {} }");
        let only_reexports = "mod a; pub use a::A; use a::A as B; struct Zone;";
        assert_eq!(arrows(&[("mod", only_reexports), a]), ["a -> mod"]);
        for code in
            ["struct Zone(A);", "struct Zone(B);", "struct Zone(a::A);", "fn f() { A::new() }"]
        {
            let zone = only_reexports.replace("struct Zone;", code);
            assert_eq!(arrows(&[("mod", &zone), a]), ["a -> mod", "mod -> a"], "{code}");
        }
        let zone = only_reexports.replace("use a::A as B;", "use a::*;");
        assert_eq!(arrows(&[("mod", &zone), a]), ["a -> mod", "mod -> a"]);
        // A field and a local variable are no module.
        let zone = only_reexports.replace("struct Zone;", "fn f() { let a = 1; x.A + a }");
        assert_eq!(arrows(&[("mod", &zone), a]), ["a -> mod"]);
    }

    #[test]
    fn a_cycle_is_told_with_its_arrows_only() {
        let a = ("a", "use super::b::B; use super::d::D;");
        let b = ("b", "use super::c::C;");
        let d = ("d", "");
        let open = files(&[("mod", "mod a; mod b; mod c; mod d;"), a, b, ("c", ""), d]);
        assert_eq!(check(&open), Ok(3));
        let closed =
            files(&[("mod", "mod a; mod b; mod c; mod d;"), a, b, ("c", "use super::a::A;"), d]);
        let problems = check(&closed).unwrap_err();
        assert_eq!(
            problems,
            "error: 3 files use one another in a cycle:\n    a names crate::zone::b::B of b\n    \
             b names crate::zone::c::C of c\n    c names crate::zone::a::A of a\n"
        );
    }

    #[test]
    fn two_cycles_are_told_apart() {
        let pairs =
            [("a", "use super::b::X;"), ("b", "use super::a::X;"), ("c", "use super::d::X;")];
        let d = ("d", "use super::c::X; use super::b::X as Y;");
        let files = files(&[&[("mod", "mod a; mod b; mod c; mod d;")], &pairs[..], &[d]].concat());
        let problems = check(&files).unwrap_err();
        assert_eq!(problems.matches("error: 2 files").count(), 2, "{problems}");
    }
}
