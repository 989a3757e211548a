//! Finds tracefs, or mounts it.
//!
//! An existing mount is used. Without one, the program creates a mount that is attached to no
//! folder. That mount is invisible to other processes, and ends with the program.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{fs, io};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::destination::{Files, Kernel};
use super::lost::RecordError;

/// The usual mount points.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Prefix of the names of this program's instances, followed by the process number, and by a further
/// number if the process has opened tracefs before.
const PREFIX: &str = "framewright-";
/// The number of times that this process has opened tracefs.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// An open tracefs.
pub struct Tracefs {
    root: PathBuf,
    /// Different for each `Tracefs` of a process, so that several can be used at the same time.
    number: u32,
    pub(super) files: Arc<dyn Files>,
    /// Keeps the private mount.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds it, or mounts it for this process alone.
    ///
    /// # Errors
    /// The kernel has none, or this user may not use it.
    pub fn find() -> Result<Self, RecordError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let number = OPENED.fetch_add(1, Relaxed);
        let places = USUAL.into_iter().map(PathBuf::from).chain(mounted(&mounts));
        for root in places {
            match fs::metadata(root.join("instances")) {
                Ok(_) => return Ok(Self { root, number, files: Arc::new(Kernel), _mount: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(RecordError::refused());
                }
                Err(_) => {}
            }
        }
        let mount = mount().map_err(cannot_mount)?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { root, number, files: Arc::new(Kernel), _mount: Some(mount) })
    }

    #[cfg(test)]
    pub(super) fn at(root: &Path, files: Arc<dyn Files>) -> Self {
        Self { root: root.to_owned(), number: 0, files, _mount: None }
    }

    /// Whether it is this process's own mount.
    #[must_use]
    pub fn is_own_mount(&self) -> bool {
        self._mount.is_some()
    }

    /// A file or folder in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The path of this process's instance.
    pub(super) fn instance(&self) -> PathBuf {
        self.path("instances").join(self.instance_name())
    }

    fn instance_name(&self) -> String {
        match self.number {
            0 => format!("{PREFIX}{}", std::process::id()),
            number => format!("{PREFIX}{}-{number}", std::process::id()),
        }
    }

    /// Removes instances of killed recorders, and returns their names. The kernel refuses to remove
    /// an instance in use. Called before a recording starts.
    pub fn remove_stale(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("instances")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let stale = names.filter(|name| {
            // A new instance may not be in use yet, but its process lives.
            let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
            let maker = maker.and_then(|pid| pid.parse::<u32>().ok());
            let lives = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
            // This `Tracefs` has created no instance so far. If there is one of the same name, an older
            // process with the same number has created it.
            maker.is_some_and(|pid| *name == self.instance_name() || !lives(pid))
        });
        stale
            .filter(|name| {
                let path = self.path("instances").join(name);
                // Enabled events cost the machine a little, even without a reader.
                let _ = self.files.write(&path.join("events/enable"), "0");
                self.files.remove_folder(&path).is_ok()
            })
            .collect()
    }
}

/// The mount points of tracefs, from `/proc/self/mounts`.
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> + use<'_> {
    mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        // A blank is written as \040; such rare mounts are ignored.
        (words.next()? == "tracefs" && !place.contains('\\')).then(|| place.into())
    })
}

fn mount() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let quiet = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, quiet)
}

fn cannot_mount(error: Errno) -> RecordError {
    match error {
        Errno::PERM | Errno::ACCESS => RecordError::refused(),
        Errno::NODEV => RecordError::NoTracefs(
            "this kernel has no tracefs; it needs CONFIG_FTRACE and CONFIG_EVENT_TRACING".into(),
        ),
        error => RecordError::NoTracefs(format!(
            "tracefs is not mounted, and mounting it failed: {error}; mount it with `mount -t \
             tracefs nodev /sys/kernel/tracing`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_tracefs_are_found() {
        let mounts = "proc /proc proc rw 0 0\nnodev /sys/kernel/tracing tracefs rw 0 0\n\
                      none /odd\\040place tracefs rw 0 0\nshort\n";
        let found: Vec<_> = mounted(mounts).collect();
        assert_eq!(found, [Path::new("/sys/kernel/tracing")]);
    }

    #[test]
    fn a_failed_mount_is_one_sentence() {
        for (errno, hint) in [
            (Errno::PERM, "root"),
            (Errno::NODEV, "has no tracefs"),
            (Errno::NOSYS, "mount it with `mount -t tracefs"),
        ] {
            let text = cannot_mount(errno).to_string();
            assert!(text.contains(hint) && !text.contains('\n'), "{text}");
        }
    }
}
