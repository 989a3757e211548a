//! Finds the repository's sources, which some experiments build.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of a checkout: the nearest one of the current folder and those above it, or else the one that this
/// program was built from. Without one, the error says where to get it.
pub(crate) fn find() -> Result<PathBuf, String> {
    let here = env::current_dir().unwrap_or_default();
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    nearest(&here, &built_from).ok_or_else(|| {
        format!(
            "this builds programs from Framewright's sources, and '{}' is not in a checkout of them; \
             `git clone {}`, and start the command there",
            here.display(),
            env!("CARGO_PKG_REPOSITORY")
        )
    })
}

fn nearest(here: &Path, built_from: &Path) -> Option<PathBuf> {
    let is_checkout = |folder: &&Path| {
        let packages = ["kernel", "linux", "framewright-peers"];
        packages.iter().all(|package| folder.join(package).join("Cargo.toml").is_file())
    };
    here.ancestors().chain([built_from]).find(is_checkout).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_checkout_is_used_and_there_may_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = folder.path().join("checkout");
        let below = checkout.join("linux/init");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(nearest(&below, folder.path()), None);
        for package in ["kernel", "linux", "framewright-peers"] {
            std::fs::create_dir_all(checkout.join(package)).unwrap();
            std::fs::write(checkout.join(package).join("Cargo.toml"), "").unwrap();
        }
        assert_eq!(nearest(&below, folder.path()), Some(checkout.clone()));
        assert_eq!(nearest(folder.path(), &checkout), Some(checkout));
    }
}
