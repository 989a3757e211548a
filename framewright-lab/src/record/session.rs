//! Control of the kernel's tracing, from start to end of a recording.
//!
//! The order matters. At the start: buffers, events, readers, then the tables, then tracing on. The
//! recording thus has no events of the preparations, and the tables match its start. At the end:
//! tracing off, then the tables, then everything else.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::capture::{Capture, ReaderThreads, Source, Tally};
use super::destination;
use super::format::Format;
use super::lost::{Lost, RecordError};
use super::names::{self, NAMING, Names, RECORDED, Wanted};
use super::page::Layout;
use super::shootdowns::{self, Instance};
use super::{Destination, Tracefs};

/// The largest default buffer of a CPU; machines with little memory have smaller ones.
const LARGEST: u64 = 64 << 20;
const LEAST: u64 = 1 << 20;
/// By default, all buffers together take at most this fraction (1/`PART`) of memory, unless each takes only `LEAST`.
const PART: u64 = 32;

/// The tracepoints and tasks of a recording.
pub(super) struct Scope {
    events: &'static [Wanted],
    /// Whether only events of this process's tasks, and of tasks that they will create, are recorded.
    own_tasks: bool,
}

impl Scope {
    /// All events of a recording, of all tasks.
    pub(super) const ALL: Self = Self { events: RECORDED, own_tasks: false };
}

/// A running recording.
pub struct Session {
    // Dropped in this order: readers have files of the instance open.
    threads: ReaderThreads,
    instance: Instance,
    layout: Layout,
    formats: Vec<Format>,
    names: Names,
    cpus: Vec<u16>,
    before: String,
    began: Instant,
    buffer: u64,
}

impl Session {
    /// Starts recording with `buffer` bytes for each CPU, or a default that suits the machine.
    /// Events that are read meanwhile are stored in the folder of `destination`, in files without a
    /// name.
    ///
    /// # Errors
    /// Tracing is not permitted or not supported. The kernel's settings are unchanged then.
    pub fn start(
        tracefs: &Tracefs,
        destination: &Destination,
        buffer: Option<u64>,
    ) -> Result<Self, RecordError> {
        Self::start_with(tracefs, destination.folder(), buffer, Path::new("/proc"), &Scope::ALL)
    }

    /// Starts recording some events of this process's own tasks, and of tasks that they will create.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub(crate) fn start_own(
        tracefs: &Tracefs,
        destination: &Destination,
        buffer: u64,
        events: &'static [Wanted],
    ) -> Result<Self, RecordError> {
        let scope = Scope { events, own_tasks: true };
        let (folder, proc) = (destination.folder(), Path::new("/proc"));
        Self::start_with(tracefs, folder, Some(buffer), proc, &scope)
    }

    pub(super) fn start_with(
        tracefs: &Tracefs,
        folder: &Path,
        buffer: Option<u64>,
        proc: &Path,
        scope: &Scope,
    ) -> Result<Self, RecordError> {
        let cpus = shootdowns::cpus(&tracefs.path("per_cpu"))?;
        let buffer = buffer.unwrap_or_else(|| suitable(proc, cpus.len()));
        let instance = Instance::create(&tracefs.files, tracefs.instance(), buffer)?;
        let layout = page_layout(tracefs)?;
        let mut formats = Vec::new();
        if scope.own_tasks {
            instance.only_own_tasks()?;
        }
        for event in scope.events.iter().chain(NAMING) {
            if instance.enable(event)? {
                read_formats(&instance.path("events"), event, &mut formats)?;
            } else if event.needed {
                return Err(RecordError::NoEvent(event.name));
            }
        }
        let mut names = Names::new(&formats);
        let mut sources = Vec::new();
        for &cpu in &cpus {
            let raw = instance.open(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"))?;
            sources.push(Source { cpu, raw });
        }
        let threads = ReaderThreads::start(sources, layout, folder, &names.events())?;
        let before = names::read(proc)?;
        if names::proc_uses_initial_pid_namespace() {
            names.learn(proc);
        }
        instance.trace(true)?;
        let began = Instant::now();
        Ok(Self { threads, instance, layout, formats, names, cpus, before, began, buffer })
    }

    /// Its progress.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.threads.tally()
    }

    /// The time since its start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Buffer size of each CPU, in bytes.
    #[must_use]
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    /// Ends it and restores the kernel's settings.
    ///
    /// # Errors
    /// Events could not be read or stored: there is no recording.
    pub fn stop(self) -> Result<Capture, RecordError> {
        self.stop_with(Path::new("/proc"))
    }

    pub(super) fn stop_with(self, proc: &Path) -> Result<Capture, RecordError> {
        self.instance.trace(false)?;
        let after = names::read(proc)?;
        let elapsed = self.began.elapsed();
        let recordings = self.threads.finish()?;
        let mut lost = Lost::default();
        for cpu in &self.cpus {
            let stats = self.instance.path(&format!("per_cpu/cpu{cpu}/stats"));
            match destination::read(&stats) {
                Ok(stats) => lost.add(Lost::parse(&stats)),
                Err(error) if destination::has_no_buffer(&error) => {}
                Err(reason) => return Err(RecordError::kernel("reading", &stats, reason)),
            }
        }
        Ok(Capture {
            leftover: self.instance.remove().err(),
            recordings,
            layout: self.layout,
            formats: self.formats,
            names: self.names,
            before: self.before,
            after,
            cpus: online(proc).unwrap_or(self.cpus.len()),
            lost,
            elapsed,
        })
    }
}

pub(super) fn page_layout(tracefs: &Tracefs) -> Result<Layout, RecordError> {
    let file = tracefs.path("events/header_page");
    let text =
        destination::read(&file).map_err(|reason| RecordError::kernel("reading", &file, reason))?;
    Layout::parse(&text).ok_or_else(|| RecordError::Malformed {
        file,
        reason: "describes an unknown kind of page".into(),
    })
}

/// Reads the description of an event, or of all in its subsystem.
pub(super) fn read_formats(
    events: &Path,
    wanted: &Wanted,
    formats: &mut Vec<Format>,
) -> Result<(), RecordError> {
    let subsystem = events.join(wanted.subsystem);
    let fail = |reason| RecordError::kernel("reading", &subsystem, reason);
    let mut folders = Vec::new();
    if wanted.name.is_empty() {
        for entry in fs::read_dir(&subsystem).map_err(fail)? {
            folders.push(entry.map_err(fail)?.path());
        }
    } else {
        folders.push(subsystem.join(wanted.name));
    }
    for folder in folders {
        let file = folder.join("format");
        // A subsystem has further files besides its events.
        let Ok(text) = destination::read(&file) else { continue };
        formats.push(Format::parse(&text).ok_or_else(|| RecordError::Malformed {
            file,
            reason: "is not the description of an event".into(),
        })?);
    }
    Ok(())
}

/// The default buffer size for each CPU.
fn suitable(proc: &Path, cpus: usize) -> u64 {
    let memory = fs::read_to_string(proc.join("meminfo")).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    let memory = memory.map_or(0, |kib| kib.saturating_mul(1024));
    (memory / PART / cpus.max(1) as u64).clamp(LEAST, LARGEST)
}

/// Number of online CPUs.
fn online(proc: &Path) -> Option<usize> {
    let text = fs::read_to_string(proc.join("stat")).ok()?;
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    Some(text.lines().filter(is_cpu).count()).filter(|&cpus| cpus > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_suit_the_machine() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(suitable(proc.path(), 4), LEAST);
        for (kib, cpus, expected) in [
            (24 << 20, 2, LARGEST),
            (24 << 20, 64, 12 << 20),
            (1 << 20, 2, 16 << 20),
            (64 << 10, 256, LEAST),
        ] {
            fs::write(proc.path().join("meminfo"), format!("MemTotal: {kib} kB\nx: 1 kB\n"))
                .unwrap();
            assert_eq!(suitable(proc.path(), cpus), expected);
        }
    }

    #[test]
    fn cpus_are_counted_as_the_kernel_lists_them() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(online(proc.path()), None);
        fs::write(proc.path().join("stat"), "cpu  1 2\ncpu0 1\ncpu2 2\nintr 5\n").unwrap();
        assert_eq!(online(proc.path()), Some(2));
    }
}
