//! The kernel that the distribution ships, from its package: downloaded once, unpacked, never installed.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::{Skipped, tool};

/// Packages that stand for the newest kernel, of Debian and of Ubuntu; the first that there is.
const NEWEST: [&str; 3] = ["linux-image-cloud-amd64", "linux-image-amd64", "linux-image-virtual"];

/// A kernel, and the folder of its modules if that is known.
pub(super) struct Package {
    pub(super) kernel: PathBuf,
    unpacked: Option<PathBuf>,
}

impl Package {
    /// A kernel that somebody has: it comes without modules.
    pub(super) fn of_file(kernel: &Path) -> Self {
        Self { kernel: kernel.to_owned(), unpacked: None }
    }

    /// A module of it.
    pub(super) fn module(&self, name: &str) -> Result<PathBuf, Skipped> {
        let unpacked = self.unpacked.as_ref().ok_or_else(|| {
            Skipped(format!("mmap-read needs the kernel's module {name}: leave --linux out"))
        })?;
        find(unpacked, name)
            .filter(|path| path.file_name().is_some_and(|found| found == name))
            .ok_or_else(|| Skipped(format!("its package has no module {name}, uncompressed")))
    }
}

/// Downloads and unpacks it, unless that has been done.
pub(super) fn fetch() -> Result<Package, Skipped> {
    let mut last = Skipped("there is no package of a kernel".to_owned());
    for newest in NEWEST {
        match depends_on(newest).and_then(|name| unpack(&name)) {
            Ok(package) => return Ok(package),
            Err(why) => last = why,
        }
    }
    Err(Skipped(format!("no kernel could be had from the distribution's packages: {}", last.0)))
}

/// The package of a kernel that another stands for.
fn depends_on(newest: &str) -> Result<String, Skipped> {
    let text = tool("apt-cache", &["depends", "--important", newest], Path::new("/"))?;
    let mut names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let name = names.find(|name| name.starts_with("linux-image-"));
    name.map(str::to_owned).ok_or_else(|| Skipped(format!("{newest} names no kernel")))
}

fn unpack(name: &str) -> Result<Package, Skipped> {
    let folder = cache().join(name);
    let failed = |error| Skipped(format!("cannot write to '{}': {error}", folder.display()));
    let unpacked = folder.join("unpacked");
    if find(&unpacked, "vmlinuz").is_none() {
        fs::create_dir_all(&folder).map_err(failed)?;
        tool("apt-get", &["download", "-qq", name], &folder)?;
        let package = fs::read_dir(&folder).map_err(failed)?.flatten().map(|entry| entry.path());
        let package =
            package.filter(|path| path.extension().is_some_and(|end| end == "deb")).last();
        let package = package.ok_or_else(|| Skipped(format!("there is no package {name}")))?;
        let package = package.to_string_lossy();
        // Whoever is ended in the middle leaves no half of it behind.
        tool("dpkg-deb", &["-x", &package, "unpacking"], &folder)?;
        // One that has lost its kernel is in the way.
        let _ = fs::remove_dir_all(&unpacked);
        fs::rename(folder.join("unpacking"), &unpacked).map_err(failed)?;
    }
    let kernel = find(&unpacked, "vmlinuz");
    let kernel = kernel.ok_or_else(|| Skipped(format!("{name} has no vmlinuz")))?;
    Ok(Package { kernel, unpacked: Some(unpacked) })
}

/// Where what was downloaded stays.
fn cache() -> PathBuf {
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    folder.unwrap_or_else(env::temp_dir).join("framewright/linux")
}

/// A file below a folder whose name begins so.
fn find(folder: &Path, begin: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder {
            if let Some(found) = find(&path, begin) {
                return Some(found);
            }
        } else if entry.file_name().to_string_lossy().starts_with(begin) {
            return Some(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_below_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("brd.ko"), "").unwrap();
        assert_eq!(find(folder.path(), "brd.ko"), Some(deep.join("brd.ko")));
        assert_eq!(find(folder.path(), "vmlinuz"), None);
    }

    #[test]
    fn a_kernel_that_was_given_has_no_modules() {
        let package = Package::of_file(Path::new("/boot/vmlinuz"));
        let why = package.module("brd.ko").unwrap_err().to_string();
        assert!(why.contains("leave --linux out"), "{why}");
    }
}
