//! Finding tracefs, the kernel's own window on its events.
//!
//! Where it is mounted, that is used. Where it is not, the program makes a mount of its own that
//! is attached to no folder: nobody else sees it, and it is gone with the program, however that
//! ends. The machine's mounts are its administrator's.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::destination::{Files, Kernel};
use super::lost::RecordError;

/// Where administrators look for it.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Instances of this program are called this and the number of its process.
const PREFIX: &str = "framewright-";

/// An open tracefs.
pub struct Tracefs {
    root: PathBuf,
    pub(super) files: Arc<dyn Files>,
    /// Keeps a mount of our own.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds it, or mounts it for this process alone.
    ///
    /// # Errors
    /// The kernel has none, or not for this user.
    pub fn find() -> Result<Self, RecordError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = USUAL.into_iter().map(PathBuf::from).chain(mounted(&mounts));
        for root in places {
            match fs::metadata(root.join("instances")) {
                Ok(_) => return Ok(Self { root, files: Arc::new(Kernel), _mount: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(RecordError::refused());
                }
                Err(_) => {}
            }
        }
        let mount = mount().map_err(cannot_mount)?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { root, files: Arc::new(Kernel), _mount: Some(mount) })
    }

    #[cfg(test)]
    pub(super) fn at(root: &Path, files: Arc<dyn Files>) -> Self {
        Self { root: root.to_owned(), files, _mount: None }
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

    /// Where this process's instance goes.
    pub(super) fn instance(&self) -> PathBuf {
        self.path("instances").join(format!("{PREFIX}{}", std::process::id()))
    }

    /// Removes instances that recorders left which were killed, and names them. The kernel does not
    /// let go of one that is in use. To be called before a recording is started.
    pub fn remove_stale(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("instances")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let stale = names.filter(|name| {
            // One that has just been made is not in use yet, but its maker lives.
            let maker = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
            let lives = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
            // This process has made none so far: its number was another's.
            maker.is_some_and(|pid| pid == std::process::id() || !lives(pid))
        });
        stale
            .filter(|name| {
                let path = self.path("instances").join(name);
                // Its events cost the machine a little, even if nobody takes them.
                let _ = self.files.write(&path.join("events/enable"), "0");
                self.files.remove_folder(&path).is_ok()
            })
            .collect()
    }
}

/// Where tracefs is mounted, from `/proc/self/mounts`.
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> + use<'_> {
    mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        // A blank is written as \040: rare enough to leave such a mount alone.
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
    fn what_keeps_from_mounting_is_one_sentence() {
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
