//! Counts the shootdown interrupts that this process's own threads receive.
//!
//! `/proc/interrupts` counts the shootdowns of the whole system. The event `tlb:tlb_flush` names
//! the interrupted task; a tracing instance with that event for this process counts them.
//!
//! A tracing instance has buffers and settings of its own. It is created with tracing off, and
//! removed at the end, on any error, and while a panic unwinds. If the program is killed, the
//! kernel closes its files. One of them is `free_buffer`: closing it frees the buffer and
//! (`disable_on_free`) stops tracing. An empty instance remains, which the next recording removes.
//! No child process inherits that file.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    destination::{self, Files},
    lost::RecordError,
    names::Wanted,
    tracefs::Tracefs,
};

/// A received interrupt: the kernel's `TLB_REMOTE_SHOOTDOWN`.
const RECEIVED: &str = "reason == 1";
/// Buffer size for each CPU. Events are counted, not stored.
const BUFFER: u64 = 64 << 10;
const EVENT: Wanted = Wanted { subsystem: "tlb", name: "tlb_flush", needed: true };

/// Counts from its creation until it is dropped.
pub struct Shootdowns {
    instance: Instance,
    _tracefs: Tracefs,
}

impl Shootdowns {
    /// Counts for this process, including future threads.
    ///
    /// # Errors
    ///
    /// [`RecordError`]: tracing needs root, or this kernel lacks something.
    pub fn count() -> Result<Self, RecordError> {
        let tracefs = Tracefs::find()?;
        tracefs.remove_stale();
        let instance = Instance::create(&tracefs.files, tracefs.instance(), BUFFER)?;
        instance.only_own_tasks()?;
        let event = format!("events/{}/{}", EVENT.subsystem, EVENT.name);
        instance.set(&format!("{event}/filter"), RECEIVED)?;
        if !instance.enable(&EVENT)? {
            return Err(RecordError::NoEvent("tlb:tlb_flush"));
        }
        instance.trace(true)?;
        Ok(Self { instance, _tracefs: tracefs })
    }

    /// The count so far.
    ///
    /// # Errors
    ///
    /// [`RecordError`]: the kernel's statistics cannot be read.
    pub fn so_far(&self) -> Result<u64, RecordError> {
        let folder = self.instance.path("per_cpu");
        let mut sum = 0;
        for cpu in cpus(&folder)? {
            let path = folder.join(format!("cpu{cpu}/stats"));
            match destination::read(&path) {
                Ok(text) => sum += events(&text),
                Err(error) if destination::has_no_buffer(&error) => {}
                Err(reason) => return Err(RecordError::kernel("reading", &path, reason)),
            }
        }
        Ok(sum)
    }
}

/// Events of a buffer, including overwritten and dropped ones.
fn events(stats: &str) -> u64 {
    let counts = ["entries", "overrun", "dropped events"];
    let of = |line: &str| {
        let (name, value) = line.split_once(':')?;
        if counts.contains(&name.trim()) { value.trim().parse::<u64>().ok() } else { None }
    };
    stats.lines().filter_map(of).sum()
}

/// One clock for all CPUs, so that their events can be ordered; as cheap as the default.
const CLOCK: &str = "mono";

/// An existing instance.
pub(super) struct Instance {
    files: Arc<dyn Files>,
    path: PathBuf,
    free_buffer: Option<File>,
    removed: bool,
}

impl Instance {
    /// Creates the instance `path`, with tracing off and a buffer of `buffer` bytes for each CPU.
    pub(super) fn create(
        files: &Arc<dyn Files>,
        path: PathBuf,
        buffer: u64,
    ) -> Result<Self, RecordError> {
        let fail = |reason| RecordError::kernel("making the instance", &path, reason);
        files.make_folder(&path).map_err(fail)?;
        let files = Arc::clone(files);
        let mut instance = Self { files, path, free_buffer: None, removed: false };
        instance.set("tracing_on", "0")?;
        instance.set("options/disable_on_free", "1")?;
        instance.free_buffer = Some(instance.open("free_buffer")?);
        instance.set("options/overwrite", "1")?;
        instance.set("trace_clock", CLOCK)?;
        let size = instance.path("buffer_size_kb");
        let kib = buffer.div_ceil(1024).to_string();
        let no_buffer = |reason: io::Error| match reason.kind() {
            io::ErrorKind::PermissionDenied => RecordError::refused(),
            _ => RecordError::Buffer { bytes: buffer, reason },
        };
        instance.files.write(&size, &kib).map_err(no_buffer)?;
        Ok(instance)
    }

    /// A file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file in it for non-blocking reads.
    pub(super) fn open(&self, name: &str) -> Result<File, RecordError> {
        let path = self.path(name);
        self.files.open(&path).map_err(|reason| RecordError::kernel("opening", &path, reason))
    }

    /// Enables an event, or all of its subsystem. Returns whether the kernel has it.
    pub(super) fn enable(&self, event: &Wanted) -> Result<bool, RecordError> {
        let path = self.path("events").join(event.subsystem).join(event.name).join("enable");
        match self.files.write(&path, "1") {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(reason) => Err(RecordError::kernel("enabling", &path, reason)),
        }
    }

    /// Limits the events to those of this process's threads, and of the threads and processes that
    /// they will make.
    pub(super) fn only_own_tasks(&self) -> Result<(), RecordError> {
        let threads: Vec<String> = fs::read_dir("/proc/self/task")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        self.set("options/event-fork", "1")?;
        self.set("set_event_pid", &threads.join(" "))
    }

    /// Switches tracing on or off.
    pub(super) fn trace(&self, on: bool) -> Result<(), RecordError> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Removes the instance. No file in it may be open. The error is a message: the instance still
    /// exists.
    pub(super) fn remove(mut self) -> Result<(), String> {
        let removed = self.take_down();
        removed.map_err(|reason| {
            format!("the tracing instance '{}' could not be removed: {reason}", self.path.display())
        })
    }

    /// Writes to a file in it.
    pub(super) fn set(&self, name: &str, value: &str) -> Result<(), RecordError> {
        let path = self.path(name);
        self.files
            .write(&path, value)
            .map_err(|reason| RecordError::kernel("setting", &path, reason))
    }

    /// Every step is tried, even if earlier ones failed.
    fn take_down(&mut self) -> io::Result<()> {
        if self.removed {
            return Ok(());
        }
        self.removed = true;
        let _ = self.set("tracing_on", "0");
        let _ = self.set("events/enable", "0");
        self.free_buffer = None;
        self.files.remove_folder(&self.path)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The instance is dropped after an error, which was already reported.
        let _ = self.take_down();
    }
}

/// The CPUs that have a buffer in `folder`, in order.
pub(super) fn cpus(folder: &Path) -> Result<Vec<u16>, RecordError> {
    let fail = |reason| RecordError::kernel("reading", folder, reason);
    let mut cpus = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let number = |name: &str| name.strip_prefix("cpu")?.parse::<u16>().ok();
        cpus.extend(name.to_str().and_then(number));
    }
    cpus.sort_unstable();
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwritten_events_count() {
        let stats = "entries: 120\noverrun: 30\ncommit overrun: 4\nbytes: 4096\n\
                     oldest event ts:  5157.5\nnow ts: 5158.0\ndropped events: 2\nread events: 0\n";
        assert_eq!(events(stats), 152);
    }
}
