//! A fake kernel made of files: writes to it are logged, and its contents can be chosen.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::format::tests::{PAGE_ALLOC, alloc};
use super::super::names::tests::{NEWTASK, newtask};
use super::super::page::tests::{HEADER_PAGE, page};
use super::{RecordError, Session, Tracefs};
use crate::record::destination::{Files, Kernel};
use crate::record::names::{NAMING, RECORDED};
use crate::record::session::Scope;

/// A fake tracefs and a fake `/proc` in a temporary folder.
pub(super) struct Fake {
    folder: tempfile::TempDir,
    files: Arc<Watched>,
}

/// Access to it.
struct Watched {
    log: Mutex<Vec<String>>,
    /// The step that fails, and its error.
    failing: Option<(String, io::ErrorKind)>,
    /// Contents of a new instance.
    template: PathBuf,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self::with(None)
    }

    /// A kernel in which `step` fails.
    pub(super) fn failing(step: &str) -> Self {
        Self::with(Some((step.to_owned(), io::ErrorKind::OutOfMemory)))
    }

    /// A kernel that does not permit `step`.
    pub(super) fn refusing(step: &str) -> Self {
        Self::with(Some((step.to_owned(), io::ErrorKind::PermissionDenied)))
    }

    fn with(failing: Option<(String, io::ErrorKind)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &[u8]| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/zoneinfo", b"zones\n");
        put("proc/stat", b"cpu 1\ncpu0 1\ncpu1 1\n");
        put("tracing/instances/.keep", b"");
        put("tracing/events/header_page", HEADER_PAGE.as_bytes());
        for cpu in ["cpu0", "cpu1"] {
            fs::create_dir_all(folder.path().join("tracing/per_cpu").join(cpu)).unwrap();
        }
        for switch in [
            "tracing_on",
            "trace_clock",
            "buffer_size_kb",
            "free_buffer",
            "options/disable_on_free",
            "options/overwrite",
            "events/enable",
        ] {
            put(&format!("template/{switch}"), b"");
        }
        for event in RECORDED.iter().chain(NAMING) {
            let folder = Path::new("template/events").join(event.subsystem).join(event.name);
            put(folder.join("enable").to_str().unwrap(), b"0");
        }
        for (id, event) in [(1, "mm_page_free"), (2, "mm_page_pcpu_drain")] {
            let format = format!("name: {event}\nID: {id}\n");
            put(&format!("template/events/kmem/{event}/format"), format.as_bytes());
        }
        put("template/events/kmem/mm_page_alloc/format", PAGE_ALLOC.as_bytes());
        put("template/events/task/task_newtask/format", NEWTASK.as_bytes());
        let cpu0 = page(
            100_000,
            &[
                (0, &alloc(7, 0x10, 0, 0)),
                (60_000, &newtask(9, "rustc")),
                (10_000, &alloc(9, 0x12, 0, 0)),
            ],
            None,
        );
        let cpu1 = page(150_000, &[(0, &alloc(9, 0x11, 0, 0))], Some(5));
        for (cpu, pages, overrun) in [("cpu0", cpu0, 0), ("cpu1", cpu1, 5)] {
            put(&format!("template/per_cpu/{cpu}/trace_pipe_raw"), &pages);
            let stats = format!("overrun: {overrun}\ndropped events: 0\n");
            put(&format!("template/per_cpu/{cpu}/stats"), stats.as_bytes());
        }
        let template = folder.path().join("template");
        let files = Arc::new(Watched { log: Mutex::default(), failing, template });
        Self { folder, files }
    }

    pub(super) fn tracefs(&self) -> Tracefs {
        let files: Arc<dyn Files> = self.files.clone();
        Tracefs::at(&self.folder.path().join("tracing"), files)
    }

    pub(super) fn proc(&self) -> PathBuf {
        self.folder.path().join("proc")
    }

    pub(super) fn session(&self, folder: &Path) -> Result<Session, RecordError> {
        Session::start_with(&self.tracefs(), folder, Some(256 << 10), &self.proc(), &Scope::ALL)
    }

    /// All operations, in order.
    pub(super) fn log(&self) -> Vec<String> {
        self.files.log.lock().unwrap().clone()
    }

    /// The existing instances.
    pub(super) fn instances(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("tracing/instances")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.is_dir()).collect()
    }

    /// Creates an instance of another process.
    pub(super) fn plant(&self, name: &str) {
        Kernel.make_folder(&self.folder.path().join("tracing/instances").join(name)).unwrap();
    }

    /// Removes a folder from the contents of new instances.
    pub(super) fn omit(&self, name: &str) {
        fs::remove_dir_all(self.files.template.join(name)).unwrap();
    }
}

impl Watched {
    fn log(&self, step: &str) -> io::Result<()> {
        let fails = self.failing.as_ref().filter(|(failing, _)| failing == step);
        self.log.lock().unwrap().push(step.to_owned());
        fails.map_or(Ok(()), |(_, kind)| Err((*kind).into()))
    }

    /// The path relative to the instance.
    fn short(&self, path: &Path) -> String {
        let mut parts = path.iter().skip_while(|part| *part != "instances").skip(2);
        let mut short = PathBuf::new();
        parts.by_ref().for_each(|part| short.push(part));
        short.display().to_string()
    }
}

impl Files for Watched {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.log("make")?;
        copy(&self.template, path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.log("remove")?;
        fs::remove_dir_all(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.log(&format!("{}={text}", self.short(path)))?;
        Kernel.write(path, text)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        self.log(&format!("open {}", self.short(path)))?;
        Kernel.open(path)
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
