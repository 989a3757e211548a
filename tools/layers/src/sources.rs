//! The files of a crate, and the arrows between its modules.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proc_macro2::TokenStream;

use crate::paths::{self, Found};

/// A file of one module names another module.
#[derive(Debug)]
pub(crate) struct Arrow {
    /// The file, from the folder of the sources on.
    pub(crate) file: String,
    /// The module that the file belongs to.
    pub(crate) from: String,
    /// The module that it names.
    pub(crate) to: String,
    /// The path by which it does.
    pub(crate) path: String,
}

/// All arrows between different modules of the crate whose sources are in `root`.
///
/// # Errors
///
/// A file that could not be read or parsed.
pub(crate) fn arrows(root: &Path) -> Result<Vec<Arrow>, String> {
    let top = read(&root.join("lib.rs"), &[])?;
    let reexports = reexports(&top);
    let mut sources = Sources { root, modules: &top.children, reexports, arrows: Vec::new() };
    for module in &top.children {
        sources.collect(std::slice::from_ref(module))?;
    }
    Ok(sources.arrows)
}

/// The names that the root re-exports, and the module that each is taken from.
fn reexports(top: &Found) -> BTreeMap<String, String> {
    let names = top.paths.iter().filter_map(|path| match &path[..] {
        [module, .., name] if top.children.contains(module) => Some((name.clone(), module.clone())),
        _ => None,
    });
    names.collect()
}

/// The crate that is read.
struct Sources<'s> {
    root: &'s Path,
    /// Its modules, without those inside them.
    modules: &'s [String],
    reexports: BTreeMap<String, String>,
    arrows: Vec<Arrow>,
}

impl Sources<'_> {
    /// Adds the arrows from a module and from those inside it.
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
        for child in found.children {
            self.collect(&[module, &[child]].concat())?;
        }
        Ok(())
    }

    /// The module that a path names.
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
