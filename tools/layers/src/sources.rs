//! The files of a crate, and the arrows between its modules.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use proc_macro2::TokenStream;

use crate::paths::{self, Found, Method};

/// An arrow: a file of one module names another module.
#[derive(Debug)]
pub(crate) struct Arrow {
    /// The file, relative to the folder of the sources.
    pub(crate) file: String,
    /// The module of the file.
    pub(crate) from: String,
    /// The named module.
    pub(crate) to: String,
    /// The path in the file, or the called method.
    pub(crate) path: String,
}

/// A file of the crate.
pub(crate) struct File {
    /// Its path, relative to the folder of the sources.
    pub(crate) name: String,
    /// The path of its module; empty for the root.
    pub(crate) module: Vec<String>,
    pub(crate) found: Found,
}

impl File {
    /// The module of the root that contains the file; empty for the root.
    pub(crate) fn top(&self) -> &str {
        self.module.first().map_or("", String::as_str)
    }
}

/// All files of the crate with its sources in `root`. The root is the first.
///
/// # Errors
///
/// A file cannot be read or parsed.
pub(crate) fn read(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    collect(root, &[], &mut files)?;
    Ok(files)
}

/// Adds the file of a module, and those of its nested modules.
fn collect(root: &Path, module: &[String], files: &mut Vec<File>) -> Result<(), String> {
    let file = file_of(root, module);
    let unusable = |why: String| format!("error: {}: {why}\n", file.display());
    let text = std::fs::read_to_string(&file).map_err(|error| unusable(error.to_string()))?;
    let tokens: TokenStream =
        text.parse().map_err(|error: proc_macro2::LexError| unusable(error.to_string()))?;
    let found = paths::find(tokens, module);
    let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
    let children = found.children.clone();
    files.push(File { name, module: module.to_vec(), found });
    for child in children {
        collect(root, &[module, &[child]].concat(), files)?;
    }
    Ok(())
}

fn file_of(root: &Path, module: &[String]) -> PathBuf {
    if module.is_empty() {
        return root.join("lib.rs");
    }
    let base = root.join(module.iter().collect::<PathBuf>());
    let alone = base.with_extension("rs");
    if alone.exists() { alone } else { base.join("mod.rs") }
}

/// All arrows between different modules of the crate.
///
/// # Errors
///
/// A path leads to nothing.
pub(crate) fn arrows(files: &[File]) -> Result<Vec<Arrow>, String> {
    let (root, files) = files.split_first().ok_or("error: there are no sources\n")?;
    let mut arrows = Vec::new();
    for file in files {
        let imports = file.found.imports.iter().map(|import| &import.path);
        for path in file.found.paths.iter().chain(imports) {
            let to = target(&root.found, path).ok_or_else(|| {
                format!(
                    "error: {} names crate::{}, which the root lacks\n",
                    file.name,
                    path.join("::")
                )
            })?;
            if to != file.top() {
                let (file, from, to) = (file.name.clone(), file.top().to_string(), to.clone());
                arrows.push(Arrow { file, from, to, path: format!("crate::{}", path.join("::")) });
            }
        }
    }
    arrows.extend(calls(files));
    Ok(arrows)
}

/// The module of the root to which a path leads.
fn target<'t>(root: &'t Found, path: &'t [String]) -> Option<&'t String> {
    let first = path.first()?;
    let reexported = || root.imports.iter().find(|import| import.name == *first)?.path.first();
    if root.children.contains(first) { Some(first) } else { reexported() }
}

/// The arrows of method calls. If a module adds a method to a type of another module, no path at
/// the call names that module. The types of receivers are not known here, so methods are ignored if
/// several modules define the same name.
fn calls(files: &[File]) -> Vec<Arrow> {
    let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut definers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        for name in &file.found.types {
            types.entry(name).or_default().insert(file.top());
        }
        for method in &file.found.methods {
            definers.entry(&method.name).or_default().insert(file.top());
        }
    }
    let is_added = |method: &&Method, module: &str| {
        let own = types.get(method.of.as_str()).is_none_or(|types| types.contains(module));
        !own && definers[method.name.as_str()].len() == 1
    };
    let mut added: BTreeMap<&str, &str> = BTreeMap::new();
    for file in files {
        let methods = file.found.methods.iter().filter(|method| is_added(method, file.top()));
        added.extend(methods.map(|method| (method.name.as_str(), file.top())));
    }
    let arrows = files.iter().flat_map(|file| {
        let names: BTreeSet<&str> = file.found.calls.iter().map(String::as_str).collect();
        let called = names.into_iter().filter_map(|name| Some((name, *added.get(name)?)));
        called.filter(|(_, to)| *to != file.top()).map(|(name, to)| Arrow {
            file: file.name.clone(),
            from: file.top().to_string(),
            to: to.to_string(),
            path: format!("the method {name} of crate::{to}"),
        })
    });
    arrows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module: &str, source: &str) -> File {
        let module = [module.to_string()];
        let found = paths::find(source.parse().unwrap(), &module);
        File { name: format!("{}/mod.rs", module[0]), module: module.to_vec(), found }
    }

    #[test]
    fn a_call_of_a_method_that_another_module_adds_is_an_arrow() {
        let zone = file("zone", "struct Zone; fn f(z: &Zone) { z.scan(); z.free(); }");
        let alloc = file("alloc", "impl Zone { fn scan(&self) {} fn free(&self) {} }");
        let memory = file("memory", "struct M; impl M { fn free(&self) {} }");
        let arrows = calls(&[zone, alloc, memory]);
        let [arrow] = &arrows[..] else { panic!("{arrows:?}") };
        assert_eq!((arrow.from.as_str(), arrow.to.as_str()), ("zone", "alloc"));
        assert_eq!(arrow.path, "the method scan of crate::alloc");
    }
}
