//! Linux, for comparison with the kernel of `kernel/`: a distribution's own kernel, booted on the
//! same emulated machine, with a static program (`linux/init`) that runs the same workload by
//! system calls.
//!
//! If that is impossible (no package, no toolchain for static programs), the result is a
//! [`Skipped`] with the reason, and the run continues without Linux.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::NamedTempFile;

use super::{
    Clock, QemuSpec, Work,
    boot::{self, System},
    groups::{Counter, Names},
};
use crate::{Error, report::Run};

/// The reason why Linux does not run.
#[derive(Debug, thiserror::Error)]
#[error("the run of Linux is skipped: {0}")]
pub(super) struct Skipped(String);

impl Skipped {
    /// Linux did not finish, because of this error.
    pub(super) fn because(error: &Error) -> Self {
        Self(error.to_string().trim_end().to_owned())
    }
}

/// The command line of Linux for a fair comparison: no mitigations, pages cleared once and by
/// words, small pages, and no output but the result. `clearcpuid` hides the processor's fast string
/// instructions.
const WORDS: &str = "console=ttyS0 quiet panic=-1 nokaslr mitigations=off init_on_alloc=0 \
                     clearcpuid=297,580 transparent_hugepage=never";

/// A Linux that can be booted.
pub(super) struct Linux {
    kernel: PathBuf,
    image: tempfile::NamedTempFile,
}

impl Linux {
    /// Collects everything: the kernel at `given`, or that of the distribution's package.
    pub(super) fn prepare(given: Option<&Path>, work: &Work) -> Result<Self, Skipped> {
        let package = match given {
            Some(kernel) => Package::of_file(kernel),
            None => fetch()?,
        };
        let init = boot::linux_init().map_err(|error| {
            Skipped(format!("its program cannot be built as a static one: {error}"))
        })?;
        let needs_disk = work.workload == "mmap-read";
        let image = make(&init, needs_disk.then_some(&package))?;
        Ok(Self { kernel: package.kernel, image })
    }

    /// Runs the boot of `work` that counts instructions, or else its first boot. With `counter`,
    /// instructions are also counted by group.
    pub(super) fn run(
        &self,
        spec: &QemuSpec,
        work: &Work,
        counter: Option<&Counter>,
        tell: &mut dyn FnMut(f64),
    ) -> Result<Run, Error> {
        let counts = |(clock, _): &&(Clock, Vec<String>)| *clock == Clock::Instructions;
        let Some((clock, words)) = work.boots.iter().find(counts).or(work.boots.first()) else {
            return Ok(Run::default());
        };
        let mut line = vec![WORDS.to_owned(), format!("workload={}", work.workload)];
        line.extend(words.iter().cloned());
        let counter = counter.filter(|_| *clock == Clock::Instructions);
        let mut more = Vec::new();
        if let Some(counter) = counter {
            line.push("symbols".to_owned());
            more = counter.arguments();
        }
        let guest = System { kernel: &self.kernel, image: Some(self.image.path()), more };
        let report = boot::boot(spec, &guest, *clock, &line, tell)?;
        let mut run = report.runs.into_iter().next().unwrap_or_default();
        if let Some(counter) = counter {
            counter.add_groups(&mut run, Names::OfLinux);
        }
        Ok(run)
    }
}

/// Runs a program that must exist and succeed.
fn tool(program: &str, arguments: &[&str], folder: &Path) -> Result<String, Skipped> {
    let failed =
        |why: String| Skipped(format!("`{program} {}` failed: {why}", arguments.join(" ")));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().rev().find(|line| !line.trim().is_empty());
        return Err(failed(last.unwrap_or("without a message").trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The contents of a file.
fn read(path: &Path) -> Result<Vec<u8>, Skipped> {
    fs::read(path).map_err(|error| Skipped(format!("cannot read '{}': {error}", path.display())))
}

/// Size of the disk. Its files consist of holes, so they always fit.
const DISK: &str = "2M";
/// A regular file that all users may execute.
const MODE: u32 = 0o100_755;

/// Makes the initramfs, a cpio archive, with a disk for the kernel of `disk_for`.
fn make(init: &Path, disk_for: Option<&Package>) -> Result<NamedTempFile, Skipped> {
    let failed = |error| Skipped(format!("its file system cannot be written: {error}"));
    let mut files = vec![("init", read(init)?)];
    if let Some(package) = disk_for {
        let folder = tempfile::tempdir().map_err(failed)?;
        // The disk is too small for a journal.
        let options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-b", "4096", "disk", DISK];
        tool("mke2fs", &options, folder.path())
            .or_else(|_| tool("/sbin/mke2fs", &options, folder.path()))?;
        files.push(("disk.img", read(&folder.path().join("disk"))?));
        files.push(("brd.ko", read(&package.module("brd.ko")?)?));
    }
    let mut image = NamedTempFile::new().map_err(failed)?;
    image.write_all(&archive(&files)).map_err(failed)?;
    Ok(image)
}

fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, (name, contents)) in (1..).zip(files) {
        add(&mut all, number, MODE, name, contents);
    }
    add(&mut all, 0, 0, "TRAILER!!!", &[]);
    all
}

/// Adds a file in the format `newc`: a header of hexadecimal numbers, its name, its contents, both
/// padded to four bytes.
fn add(all: &mut Vec<u8>, number: u32, mode: u32, name: &str, contents: &[u8]) {
    let (length, name_length) = (contents.len() as u32, name.len() as u32 + 1);
    let header = [number, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0];
    all.extend(b"070701");
    header.iter().for_each(|number| all.extend(format!("{number:08X}").bytes()));
    all.extend(name.bytes());
    all.push(0);
    all.resize(all.len().next_multiple_of(4), 0);
    all.extend(contents);
    all.resize(all.len().next_multiple_of(4), 0);
}

/// Packages of Debian and Ubuntu that depend on the newest kernel. The first that exists is used.
const NEWEST: [&str; 3] = ["linux-image-cloud-amd64", "linux-image-amd64", "linux-image-virtual"];

/// A kernel, and the folder of its modules if it is known.
struct Package {
    kernel: PathBuf,
    unpacked: Option<PathBuf>,
}

impl Package {
    /// A kernel that the user names; it has no modules.
    fn of_file(kernel: &Path) -> Self {
        Self { kernel: kernel.to_owned(), unpacked: None }
    }

    /// A module of it.
    fn module(&self, name: &str) -> Result<PathBuf, Skipped> {
        let unpacked = self.unpacked.as_ref().ok_or_else(|| {
            Skipped(format!("mmap-read needs the kernel's module {name}: leave --linux out"))
        })?;
        find(unpacked, name)
            .filter(|path| path.file_name().is_some_and(|found| found == name))
            .ok_or_else(|| Skipped(format!("its package has no uncompressed module {name}")))
    }
}

/// Downloads and unpacks the package, unless an earlier run has.
fn fetch() -> Result<Package, Skipped> {
    let mut last = Skipped("no package of a kernel".to_owned());
    for newest in NEWEST {
        match depends_on(newest).and_then(|name| unpack(&name)) {
            Ok(package) => return Ok(package),
            Err(why) => last = why,
        }
    }
    Err(Skipped(format!("no kernel from the distribution's packages: {}", last.0)))
}

/// The package of a kernel that another package depends on.
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
        // The folder gets its name when it is complete: an interrupted run leaves no incomplete
        // folder of that name.
        tool("dpkg-deb", &["-x", &package, "unpacking"], &folder)?;
        // A folder without a kernel would prevent the rename.
        let _ = fs::remove_dir_all(&unpacked);
        fs::rename(folder.join("unpacking"), &unpacked).map_err(failed)?;
    }
    let kernel = find(&unpacked, "vmlinuz");
    let kernel = kernel.ok_or_else(|| Skipped(format!("{name} has no vmlinuz")))?;
    Ok(Package { kernel, unpacked: Some(unpacked) })
}

/// The folder for downloaded packages.
fn cache() -> PathBuf {
    let home_cache = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home_cache);
    folder.unwrap_or_else(env::temp_dir).join("framewright/linux")
}

/// A file below a folder whose name begins with `begin`.
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
    fn an_archive_is_padded_to_four_bytes_and_has_a_trailer() {
        let bytes = archive(&[("init", b"12345".to_vec())]);
        assert!(bytes.starts_with(b"07070100000001000081ED"));
        assert_eq!(
            &bytes[110..124],
            b"init\0\0".iter().chain(b"12345\0\0\0").copied().collect::<Vec<_>>()
        );
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }

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
