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

/// All arrows between different modules of the crate with its sources in `root`.
///
/// # Errors
///
/// A file cannot be read or parsed.
pub(crate) fn arrows(root: &Path) -> Result<Vec<Arrow>, String> {
    let top = read(&root.join("lib.rs"), &[])?;
    let reexports = reexports(&top);
    let mut sources =
        Sources { root, modules: &top.children, reexports, arrows: Vec::new(), files: Vec::new() };
    for module in &top.children {
        sources.collect(std::slice::from_ref(module))?;
    }
    let calls = calls(&sources.files);
    Ok(sources.arrows.into_iter().chain(calls).collect())
}

/// The arrows of method calls. If a module adds a method to a type of another module, no path at
/// the call names that module. The types of receivers are not known here, so methods are ignored if
/// several modules define the same name.
fn calls(files: &[File]) -> Vec<Arrow> {
    let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut definers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        for name in &file.found.types {
            types.entry(name).or_default().insert(&file.module);
        }
        for method in &file.found.methods {
            definers.entry(&method.name).or_default().insert(&file.module);
        }
    }
    let is_added = |method: &&Method, module: &str| {
        let own = types.get(method.of.as_str()).is_none_or(|types| types.contains(module));
        !own && definers[method.name.as_str()].len() == 1
    };
    let mut added: BTreeMap<&str, &str> = BTreeMap::new();
    for file in files {
        let methods = file.found.methods.iter().filter(|method| is_added(method, &file.module));
        added.extend(methods.map(|method| (method.name.as_str(), file.module.as_str())));
    }
    let arrows = files.iter().flat_map(|file| {
        let names: BTreeSet<&str> = file.found.calls.iter().map(String::as_str).collect();
        let called = names.into_iter().filter_map(|name| Some((name, *added.get(name)?)));
        called.filter(|(_, to)| *to != file.module).map(|(name, to)| Arrow {
            file: file.name.clone(),
            from: file.module.clone(),
            to: to.to_string(),
            path: format!("the method {name} of crate::{to}"),
        })
    });
    arrows.collect()
}

/// The re-exported names of the root, and the module of each.
fn reexports(top: &Found) -> BTreeMap<String, String> {
    let names = top.paths.iter().filter_map(|path| match &path[..] {
        [module, .., name] if top.children.contains(module) => Some((name.clone(), module.clone())),
        _ => None,
    });
    names.collect()
}

/// A file of the crate.
struct File {
    /// Its path, relative to the folder of the sources.
    name: String,
    /// The module of the file.
    module: String,
    found: Found,
}

/// The crate that is being read.
struct Sources<'s> {
    root: &'s Path,
    /// The modules of the root, without nested modules.
    modules: &'s [String],
    reexports: BTreeMap<String, String>,
    arrows: Vec<Arrow>,
    files: Vec<File>,
}

impl Sources<'_> {
    /// Adds the arrows from a module and its nested modules.
    fn collect(&mut self, module: &[String]) -> Result<(), String> {
        let file = self.file_of(module);
        let found = read(&file, module)?;
        let name = file.strip_prefix(self.root).unwrap_or(&file).display().to_string();
        for path in &found.paths {
            let to = self.target(path).ok_or_else(|| {
                format!("error: {name} names crate::{}, which the root lacks\n", path.join("::"))
            })?;
            let (from, to) = (module[0].clone(), to.clone());
            if from != to {
                let path = format!("crate::{}", path.join("::"));
                self.arrows.push(Arrow { file: name.clone(), from, to, path });
            }
        }
        for child in &found.children {
            self.collect(&[module, std::slice::from_ref(child)].concat())?;
        }
        self.files.push(File { name, module: module[0].clone(), found });
        Ok(())
    }

    /// The module of a path.
    fn target<'t>(&'t self, path: &'t [String]) -> Option<&'t String> {
        let first = path.first()?;
        if self.modules.contains(first) { Some(first) } else { self.reexports.get(first) }
    }

    fn file_of(&self, module: &[String]) -> PathBuf {
        let base = self.root.join(module.iter().collect::<PathBuf>());
        let alone = base.with_extension("rs");
        if alone.exists() { alone } else { base.join("mod.rs") }
    }
}

fn read(file: &Path, module: &[String]) -> Result<Found, String> {
    let unusable = |why: String| format!("error: {}: {why}\n", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
    // The root names its modules without `crate`.
    let text = if module.is_empty() { text.replace("pub use ", "pub use crate::") } else { text };
    let tokens: TokenStream =
        text.parse().map_err(|error: proc_macro2::LexError| unusable(error.to_string()))?;
    Ok(paths::find(tokens, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module: &str, source: &str) -> File {
        let module = [module.to_string()];
        let found = paths::find(source.parse().unwrap(), &module);
        File { name: format!("{}/mod.rs", module[0]), module: module[0].clone(), found }
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
