//! The threads that read the kernel's buffers, and the conversion of a finished recording into
//! files.
//!
//! During the recording, one thread for each CPU does as little as possible: it copies a page,
//! counts its events, and compresses it. The conversion to text follows after the recording.
//! Threads poll their buffers at fixed intervals, so that nothing has to wake them.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Write},
    ops::ControlFlow,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    Destination,
    destination::has_no_buffer,
    format::Format,
    lost::{Lost, RecordError},
    merge::{Merge, Spool, SpoolWriter, Turn},
    names::Names,
    page::Layout,
    text,
};
use crate::trace::zstd;

/// Approximate size of the text of a zstd frame. Longer frames do not make the file smaller.
const PIECE: usize = 256 << 10;
/// Interval of progress reports, in events.
const PROGRESS_EVERY: u64 = 1 << 16;

/// A recording that has ended and is to be written.
#[derive(Debug)]
pub struct Capture {
    pub(super) recordings: Vec<CpuRecording>,
    pub(super) layout: Layout,
    pub(super) formats: Vec<Format>,
    pub(super) names: Names,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) cpus: usize,
    pub(super) lost: Lost,
    pub(super) elapsed: Duration,
    pub(super) leftover: Option<String>,
}

/// The properties of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Events in the recording.
    pub events: u64,
    /// Events that the kernel lost.
    pub lost: Lost,
    /// Its duration.
    pub elapsed: Duration,
    /// CPUs that were online at its end.
    pub cpus: usize,
    /// Bytes of its compressed text.
    pub bytes: u64,
}

impl Capture {
    /// A message if the tracing instance could not be removed, because another process has one of
    /// its files open. Tracing in it has ended anyway.
    #[must_use]
    pub fn leftover(&self) -> Option<&str> {
        self.leftover.as_deref()
    }

    /// Writes the recording to `destination`. `progress` gets the finished part, 0 to 1, and may
    /// abort the writing.
    ///
    /// # Errors
    /// The recorded data is malformed, or cannot be written. Files at the destination are
    /// unchanged.
    pub fn write(
        self,
        mut destination: Destination,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Summary, RecordError> {
        let events = self.recordings.iter().map(|recording| recording.events).sum();
        let path = destination.files().text;
        let folder = destination.folder().to_owned();
        let fail = |reason: io::Error| RecordError::output(&path, &reason);
        let mut writer = Writer {
            formats: self.formats.iter().map(|format| (format.id, format)).collect(),
            pid: common(&self.formats, "common_pid"),
            flags: common(&self.formats, "common_flags"),
            counts: common(&self.formats, "common_preempt_count"),
            names: self.names,
            text: Vec::with_capacity(2 * PIECE),
            lines: 0,
        };
        let output = destination.part();
        text::header(events, events + self.lost.total(), self.cpus, &mut writer.text);
        let mut merge = Merge::new(self.recordings, self.layout, &folder)?;
        while merge.next(|turn| writer.line(&turn))? {
            if writer.text.len() >= PIECE {
                output.write_all(&zstd::compress(&writer.text)).map_err(fail)?;
                writer.text.clear();
            }
            if writer.lines.is_multiple_of(PROGRESS_EVERY) {
                let part = writer.lines as f64 / events.max(1) as f64;
                if progress(part).is_break() {
                    return Err(RecordError::Aborted);
                }
            }
        }
        output.write_all(&zstd::compress(&writer.text)).map_err(fail)?;
        let bytes = output.metadata().map_err(fail)?.len();
        if progress(1.0).is_break() {
            return Err(RecordError::Aborted);
        }
        destination.finish(&self.before, &self.after)?;
        Ok(Summary { events, lost: self.lost, elapsed: self.elapsed, cpus: self.cpus, bytes })
    }
}

/// A field that all events share.
fn common<'f>(formats: &'f [Format], name: &str) -> Option<&'f super::format::Field> {
    formats.iter().find_map(|format| format.field(name))
}

/// Converts events into lines.
struct Writer<'f> {
    formats: HashMap<u16, &'f Format>,
    pid: Option<&'f super::format::Field>,
    flags: Option<&'f super::format::Field>,
    counts: Option<&'f super::format::Field>,
    names: Names,
    text: Vec<u8>,
    lines: u64,
}

impl Writer<'_> {
    #[inline]
    fn line(&mut self, turn: &Turn<'_>) -> Result<(), RecordError> {
        let (event, id) = (turn.bytes, id(turn.bytes));
        if let Some(lost) = turn.lost {
            text::lost(turn.cpu, lost, &mut self.text);
        }
        if self.names.note(id, event) {
            return Ok(());
        }
        let Some(format) = self.formats.get(&id) else {
            let reason = "an event that was not enabled";
            return Err(RecordError::Page { cpu: turn.cpu, reason });
        };
        let common =
            |field: Option<&super::format::Field>| field.map_or(0, |field| field.number(event));
        let pid = common(self.pid) as i32;
        let head = text::Head {
            task: self.names.of(pid),
            pid,
            cpu: turn.cpu,
            context: (common(self.flags) as u8, common(self.counts) as u8),
            nanos: turn.nanos,
            event: &format.name,
        };
        text::head(&head, &mut self.text);
        format.print(event, &mut self.text);
        self.text.push(b'\n');
        self.lines += 1;
        Ok(())
    }
}

/// Sleep of a reader whose buffer is empty. A buffer of 64 MiB lasts for half a second on a CPU
/// that only allocates and frees.
const PAUSE: Duration = Duration::from_millis(20);

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events recorded so far.
    pub events: u64,
    /// Bytes read from the kernel so far.
    pub bytes: u64,
    /// A reader failed. The caller must end the recording; this returns the error.
    pub failed: bool,
}

/// State shared by the readers and the session.
#[derive(Default)]
struct Shared {
    events: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicBool,
    stop: AtomicBool,
}

/// The buffer of a CPU.
pub(super) struct Source {
    pub(super) cpu: u16,
    /// Its `trace_pipe_raw`, in non-blocking mode.
    pub(super) raw: File,
}

/// The recorded events of a CPU.
#[derive(Debug)]
pub(super) struct CpuRecording {
    pub(super) cpu: u16,
    pub(super) spool: Spool,
    /// Number of its events that the recording counts.
    pub(super) events: u64,
}

/// The reader threads.
pub(super) struct ReaderThreads {
    shared: Arc<Shared>,
    readers: Vec<JoinHandle<Result<CpuRecording, RecordError>>>,
}

impl ReaderThreads {
    /// Starts a reader for each of `sources`, with temporary files in `folder`. Events of the kinds
    /// in `uncounted` are kept but not counted.
    pub(super) fn start(
        sources: Vec<Source>,
        layout: Layout,
        folder: &Path,
        uncounted: &[u16],
    ) -> Result<Self, RecordError> {
        let mut threads = Self { shared: Arc::default(), readers: Vec::new() };
        for source in sources {
            let fail = |reason| RecordError::Spool { folder: folder.to_owned(), reason };
            let reader = Reader {
                layout,
                page: vec![0; layout.size],
                spool: SpoolWriter::new(folder).map_err(fail)?,
                folder: folder.to_owned(),
                uncounted: uncounted.to_owned(),
                events: 0,
                shared: Arc::clone(&threads.shared),
                source,
            };
            let name = format!("record-cpu{}", reader.source.cpu);
            let thread = thread::Builder::new().name(name).spawn(move || reader.run());
            threads.readers.push(thread.map_err(fail)?);
        }
        Ok(threads)
    }

    /// Their progress.
    pub(super) fn tally(&self) -> Tally {
        Tally {
            events: self.shared.events.load(Ordering::Relaxed),
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
        }
    }

    /// Makes the readers read the rest, and ends them. Tracing has already stopped.
    pub(super) fn finish(mut self) -> Result<Vec<CpuRecording>, RecordError> {
        let ended = self.end();
        ended.map(|reader| reader.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    }

    /// Ends them, one after the other.
    fn end(&mut self) -> impl Iterator<Item = thread::Result<Result<CpuRecording, RecordError>>> {
        self.shared.stop.store(true, Ordering::Release);
        self.readers.drain(..).map(JoinHandle::join)
    }
}

impl Drop for ReaderThreads {
    /// Ends the readers, which closes all files of the kernel.
    fn drop(&mut self) {
        self.end().for_each(drop);
    }
}

/// One reader thread.
struct Reader {
    source: Source,
    layout: Layout,
    page: Vec<u8>,
    spool: SpoolWriter,
    folder: PathBuf,
    uncounted: Vec<u16>,
    events: u64,
    shared: Arc<Shared>,
}

impl Reader {
    fn run(mut self) -> Result<CpuRecording, RecordError> {
        loop {
            // Read before the buffer: events that arrive afterwards are read in the next round.
            let last = self.shared.stop.load(Ordering::Acquire);
            if let Err(error) = self.empty() {
                self.shared.failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
            if last {
                break;
            }
            thread::sleep(PAUSE);
        }
        let spool = self.spool.finish();
        let spool = spool.map_err(|reason| RecordError::Spool { folder: self.folder, reason })?;
        Ok(CpuRecording { cpu: self.source.cpu, spool, events: self.events })
    }

    /// Reads until the buffer is empty.
    fn empty(&mut self) -> Result<(), RecordError> {
        loop {
            match self.source.raw.read(&mut self.page) {
                Ok(0) => return Ok(()),
                Ok(read) => self.keep(read)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if has_no_buffer(&error) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(reason) => {
                    let file = format!("per_cpu/cpu{}/trace_pipe_raw", self.source.cpu);
                    return Err(RecordError::kernel("reading", Path::new(&file), reason));
                }
            }
        }
    }

    fn keep(&mut self, read: usize) -> Result<(), RecordError> {
        let bytes = &self.page[..read];
        let used = &bytes[..self.layout.used(bytes)];
        let events = count(self.layout, used, &self.uncounted)
            .map_err(|reason| RecordError::Page { cpu: self.source.cpu, reason })?;
        self.spool
            .push(used)
            .map_err(|reason| RecordError::Spool { folder: self.folder.clone(), reason })?;
        self.events += events;
        self.shared.events.fetch_add(events, Ordering::Relaxed);
        self.shared.bytes.fetch_add(used.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// The number of events in a page of the buffer, without those of the kinds in `uncounted`.
fn count(layout: Layout, bytes: &[u8], uncounted: &[u16]) -> Result<u64, &'static str> {
    let mut page = layout.open(bytes)?;
    let mut events = 0;
    while let Some((_, event)) = page.next(bytes)? {
        events += u64::from(!uncounted.contains(&id(&bytes[event])));
    }
    Ok(events)
}

/// The number of an event's kind: its first two bytes on every kernel.
#[inline]
pub(super) fn id(event: &[u8]) -> u16 {
    event.first_chunk().map_or(0, |&id| u16::from_ne_bytes(id))
}
