//! A recording as a stream of events.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use super::error::{LineProblem, TraceError, Warning};
use super::event::{Event, RecentFlags};
use super::lines::Lines;
use super::prefix::{self, RecentTasks};
use super::source::Source;
use super::usual;

/// Maximum number of event names that are stored. A kernel has some 3000.
const MOST_NAMES: usize = 1 << 16;

/// One event of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its line, counted from 1.
    pub line: u64,
    /// The CPU that ran it.
    pub cpu: u16,
    /// Its time, in nanoseconds of the recorded machine's clock.
    pub nanos: u64,
    /// The event.
    pub event: Event,
}

/// The text of an event that [`Record`] leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'l> {
    task: &'l [u8],
    gfp_flags: &'l [u8],
}

impl<'l> Origin<'l> {
    /// The task that caused the event: the name of its process, and its number.
    #[must_use]
    pub fn task(self) -> &'l [u8] {
        self.task
    }

    /// The flags of a request as the kernel prints them; for other events those of an earlier request.
    #[must_use]
    pub fn gfp_flags(self) -> &'l [u8] {
        self.gfp_flags
    }
}

/// ftrace's header. `perf script` prints none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Events that were in the kernel's buffer when it was saved.
    pub entries_in_buffer: Option<u64>,
    /// Events that the kernel wrote into its buffer.
    pub entries_written: Option<u64>,
    /// CPUs of the machine (`#P:`).
    pub cpus: Option<u16>,
}

/// Reads a recording event by event.
///
/// ```
/// use framewright_lab::trace::{Event, TraceReader};
///
/// let text = b"bash-1 [002] d..1. 7.000001: mm_page_free: page=1 pfn=0x40 order=3\n";
/// let mut reader = TraceReader::from_bytes("example", text.to_vec())?;
/// let record = reader.next_record()?.expect("one event");
/// assert_eq!((record.cpu, record.event), (2, Event::Free { pfn: 0x40, order: 3 }));
/// assert!(reader.next_record()?.is_none());
/// # Ok::<(), framewright_lab::trace::TraceError>(())
/// ```
pub struct TraceReader {
    lines: Lines,
    header: Header,
    events: u64,
    others: BTreeMap<Box<[u8]>, u64>,
    last_nanos: u64,
    /// The number of lost events, the number of notes about losses, and the line of the first note.
    lost: Option<(u64, u64, u64)>,
    /// The number of lines that go back in time, and the first of these lines.
    out_of_order: Option<(u64, u64)>,
    /// The last line, if it has no newline, and whether it was used.
    cut_line: Option<(u64, bool)>,
    finished: bool,
    flags: RecentFlags,
    tasks: RecentTasks,
}

impl TraceReader {
    /// Opens a recording, plain or zstd, independent of its name.
    ///
    /// # Errors
    /// The file cannot be read, is empty, or is in another format than text or zstd.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Source::open(path).map(Self::new)
    }

    /// Reads a recording from memory; messages name it `name`.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, TraceError> {
        let size = bytes.len() as u64;
        Source::new(name.to_owned(), Box::new(io::Cursor::new(bytes)), Some(size)).map(Self::new)
    }

    /// Reads a recording from any source, such as standard input; messages name it `name`.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_reader(name: &str, input: impl Read + Send + 'static) -> Result<Self, TraceError> {
        Source::new(name.to_owned(), Box::new(input), None).map(Self::new)
    }

    fn new(source: Source) -> Self {
        Self {
            lines: Lines::new(source),
            header: Header::default(),
            events: 0,
            others: BTreeMap::new(),
            last_nanos: 0,
            lost: None,
            out_of_order: None,
            cut_line: None,
            finished: false,
            flags: RecentFlags::default(),
            tasks: RecentTasks::default(),
        }
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// A line is malformed or impossible, the file cannot be read further, or it ends without an
    /// event. After an error, nothing more should be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        self.next_with(|_, _| ())
    }

    /// As [`TraceReader::next_record`]. Calls `hear` with the event and its origin before it returns the event.
    ///
    /// # Errors
    /// As [`TraceReader::next_record`].
    #[inline]
    pub fn next_with(
        &mut self,
        hear: impl FnOnce(&Record, Origin<'_>),
    ) -> Result<Option<Record>, TraceError> {
        loop {
            let Some(line) = self.lines.next()? else {
                self.finished = true;
                return if self.events == 0 { Err(self.no_events()) } else { Ok(None) };
            };
            let (number, whole) = (line.number, line.whole);
            match classify(line.text, &mut self.flags, &mut self.tasks) {
                Ok(LineKind::Event(line, event)) => {
                    self.events += 1;
                    if !whole {
                        self.cut_line = Some((number, true));
                    }
                    if event == Event::Other && !count(&mut self.others, line.name) {
                        let expected = "at most 65536 different names in a recording";
                        let problem = LineProblem::new("event name", line.name, expected);
                        let file = self.lines.source().file().to_owned();
                        return Err(TraceError::Line { file, line: number, problem });
                    }
                    let record = Record { line: number, cpu: line.cpu, nanos: line.nanos, event };
                    hear(&record, Origin { task: line.task, gfp_flags: self.flags.last() });
                    self.note_time(&record);
                    return Ok(Some(record));
                }
                Ok(LineKind::Nothing) => {}
                Ok(LineKind::Header(header)) => self.header = header,
                Ok(LineKind::Lost(events)) => self.note_lost(number, events),
                // The last line has no newline and is malformed: the recording was cut inside it.
                Err(_) if !whole && self.events > 0 => {
                    self.cut_line = Some((number, false));
                }
                Err(problem) => {
                    let file = self.lines.source().file().to_owned();
                    return Err(TraceError::Line { file, line: number, problem });
                }
            }
        }
    }

    /// The recording's name in messages.
    #[must_use]
    pub fn file(&self) -> &str {
        self.lines.source().file()
    }

    /// The header, as far as it has been read: it precedes the first event.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Events read so far, of every kind.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// For each event that the reader does not decode ([`Event::Other`]): its name, and the number
    /// of such events.
    pub fn other_events(&self) -> impl Iterator<Item = (&str, u64)> {
        // Names are checked to be ASCII.
        self.others.iter().map(|(name, &n)| (std::str::from_utf8(name).unwrap_or("?"), n))
    }

    /// The finished part of the file, from 0 to 1, if its size is known.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        self.lines.source().fraction()
    }

    /// Problems of the recording that are not errors: lost events, a cut file, lines out of order.
    /// The list is complete after [`TraceReader::next_record`] has returned `None`.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let (Some(kept), Some(written)) =
            (self.header.entries_in_buffer, self.header.entries_written)
        {
            if written > kept {
                warnings.push(Warning::Overrun { written, kept });
            }
            if self.finished && kept > self.events {
                warnings.push(Warning::Shortened { announced: kept, found: self.events });
            }
        }
        if self.lines.stream_is_cut() {
            warnings.push(Warning::CutStream);
        }
        warnings.extend(self.cut_line.map(|(line, used)| Warning::CutLine { line, used }));
        warnings.extend(self.lost.map(|(events, notes, line)| Warning::Lost {
            events,
            notes,
            line,
        }));
        warnings.extend(self.out_of_order.map(|(lines, line)| Warning::OutOfOrder { lines, line }));
        warnings
    }

    #[inline]
    fn note_time(&mut self, record: &Record) {
        if record.nanos < self.last_nanos {
            self.out_of_order.get_or_insert((0, record.line)).0 += 1;
        }
        self.last_nanos = record.nanos;
    }

    fn note_lost(&mut self, line: u64, lost: u64) {
        let (events, notes, _) = self.lost.get_or_insert((0, 0, line));
        *events = events.saturating_add(lost);
        *notes += 1;
    }

    #[cold]
    fn no_events(&self) -> TraceError {
        let reason = if self.lines.stream_is_cut() {
            "the compressed file is cut before the first event"
        } else {
            "has no events: was tracing on, and were kmem events enabled?"
        };
        TraceError::Unusable { file: self.lines.source().file().to_owned(), reason: reason.into() }
    }
}

/// The kind of a line.
enum LineKind<'l> {
    /// A comment, a blank line, a call chain of `perf script`.
    Nothing,
    /// The header's line of numbers.
    Header(Header),
    /// This number of events was lost here.
    Lost(u64),
    /// An event.
    Event(prefix::Line<'l>, Event),
}

#[inline]
fn classify<'l>(
    text: &'l [u8],
    flags: &mut RecentFlags,
    tasks: &mut RecentTasks,
) -> Result<LineKind<'l>, LineProblem> {
    match text {
        [] | [b'\t', ..] => return Ok(LineKind::Nothing),
        [b'#', comment @ ..] => {
            return Ok(header(comment)?.map_or(LineKind::Nothing, LineKind::Header));
        }
        [b'C', b'P', b'U', b':', note @ ..] => {
            if let Some(lost) = lost_note(note) {
                return Ok(LineKind::Lost(lost));
            }
        }
        _ => {}
    }
    let line = match prefix::parse(text, tasks) {
        Err(_) if text.trim_ascii().is_empty() => return Ok(LineKind::Nothing),
        result => result?,
    };
    if line.name == b"PERF_RECORD_LOST" {
        let lost = line.body.strip_prefix(b"lost ").and_then(crate::trace::number::decimal);
        return Ok(LineKind::Lost(lost.unwrap_or(1)));
    }
    let event = match usual::parse(line.kind, line.body, flags) {
        Some(event) => event,
        None => Event::parse(line.kind, line.body, flags)?,
    };
    Ok(LineKind::Event(line, event))
}

/// `entries-in-buffer/entries-written: 514485/514485   #P:2`
fn header(comment: &[u8]) -> Result<Option<Header>, LineProblem> {
    const KEY: &[u8] = b"entries-in-buffer/entries-written:";
    let Some(values) = comment.trim_ascii().strip_prefix(KEY) else {
        return Ok(None);
    };
    let bad = || LineProblem::new("header", values.trim_ascii(), "`KEPT/WRITTEN #P:CPUS`");
    let mut words = values.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let counts = words.next().ok_or_else(bad)?;
    let slash = memchr::memchr(b'/', counts).ok_or_else(bad)?;
    let number = super::number::number;
    Ok(Some(Header {
        entries_in_buffer: Some(number("entries-in-buffer", &counts[..slash])?),
        entries_written: Some(number("entries-written", &counts[slash + 1..])?),
        cpus: match words.next() {
            Some(word) => Some(super::number::cpu(word.strip_prefix(b"#P:").ok_or_else(bad)?)?),
            None => None,
        },
    }))
}

/// `CPU:1 [LOST 123 EVENTS]`, here without `CPU:`; a note without a number counts as one.
fn lost_note(note: &[u8]) -> Option<u64> {
    let open = memchr::memchr(b'[', note)?;
    super::number::decimal(note[..open].trim_ascii_end())?;
    let inside = note[open + 1..].strip_suffix(b"]")?.strip_prefix(b"LOST ")?;
    if inside == b"EVENTS" {
        return Some(1);
    }
    super::number::decimal(inside.strip_suffix(b" EVENTS")?)
}

/// Counts a name, without allocating if it is known. Returns `false` if there are too many names.
fn count(counts: &mut BTreeMap<Box<[u8]>, u64>, name: &[u8]) -> bool {
    if let Some(count) = counts.get_mut(name) {
        *count += 1;
        return true;
    }
    counts.len() < MOST_NAMES && counts.insert(name.into(), 1).is_none()
}
