//! The first reading of a recording: its validity, and the machine that it needs.
//!
//! A malformed line near the end is reported before any work is done. The events are kept, so that
//! a replay need not read the file again, unless it is very long.

use framewright::{
    MigrateType,
    frame::{PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER},
};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    census::Census,
    kept::{Kept, Resolved},
    ledger::{Ledger, Step},
    plan::MOST_FRAMES,
    requests::Requests,
};
use crate::Error;
use crate::trace::{Event, Record, TraceError, TraceReader, Warning, read_stream};

/// Interval of progress reports, in events: a multiple of [`BATCH`].
const PROGRESS_EVERY: u64 = 1 << 16;
/// The maximum number of events that are read before their frames are looked up.
const BATCH: usize = 64;

/// Properties of a whole recording.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The recording's name in messages.
    pub file: String,
    /// Events of every kind.
    pub events: u64,
    /// CPUs: the number that the header announces, or the highest number of a CPU plus one if that
    /// is more.
    pub cpus: u16,
    /// Time of the first event, in nanoseconds of the recorded clock.
    pub first_nanos: u64,
    /// Time of the last event.
    pub last_nanos: u64,
    /// Events that the replay does not use, by name.
    pub others: BTreeMap<String, u64>,
    /// The recorded requests.
    pub requests: Requests,
    /// Problems of the recording that are not errors: lost events, a cut file, lines out of order.
    /// The caller prints them.
    pub warnings: Vec<Warning>,
    /// Frames with a recorded free and no recorded allocation.
    pub unseen_frames: u64,
    /// The maximum number of frames in use, counted from 0 at the start.
    pub(super) peak: i64,
    /// The state of the recorded frames at the start.
    pub(super) census: Census,
    /// The events, for replays.
    pub(super) kept: Kept,
}

impl Survey {
    /// Reads a recording from beginning to end.
    ///
    /// # Errors
    /// The recording cannot be read, has a malformed or impossible line, or contains frames of more
    /// pageblocks than a replay supports.
    pub fn of(recording: &Recording, progress: &mut dyn FnMut(f64)) -> Result<Self, Error> {
        Self::within((MOST_FRAMES / PAGEBLOCK) as usize, recording, progress)
    }

    /// As [`Survey::of`], for a recording with frames of at most `limit` pageblocks.
    fn within(
        limit: usize,
        recording: &Recording,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, Error> {
        let mut reader = recording.reader()?;
        let mut requests = Requests::default();
        let (mut tally, mut batch) = (Tally::default(), Vec::with_capacity(BATCH));
        let mut is_more = true;
        while is_more {
            let result = read(&mut reader, &mut requests, &mut batch);
            // Errors are in the order of their lines.
            tally.add_all(limit, &batch, reader.file())?;
            is_more = result?;
            batch.clear();
            if reader.events().is_multiple_of(PROGRESS_EVERY) {
                progress(reader.fraction().unwrap_or(0.0));
            }
        }
        progress(1.0);
        requests.finish();
        if requests.all() == 0 && tally.census.pageblocks.is_empty() {
            return Err(Error::input(format_args!(
                "{}: no event of this recording allocates or frees memory: were the events of kmem enabled?",
                reader.file()
            )));
        }
        Ok(Self {
            file: reader.file().to_owned(),
            events: reader.events(),
            cpus: tally.cpus.max(reader.header().cpus.unwrap_or(1)).max(1),
            first_nanos: tally.first_nanos.unwrap_or(0),
            last_nanos: tally.last_nanos,
            others: reader.other_events().map(|(name, n)| (name.to_owned(), n)).collect(),
            requests,
            warnings: reader.warnings(),
            unseen_frames: tally.unseen_frames,
            peak: tally.peak,
            census: tally.census,
            kept: tally.kept,
        })
    }

    /// Whether the recording was cut: it ends before the kernel stopped recording.
    #[must_use]
    pub fn ends_early(&self) -> bool {
        let cut = |warning: &Warning| {
            matches!(
                warning,
                Warning::Shortened { .. } | Warning::CutStream | Warning::CutLine { .. }
            )
        };
        self.warnings.iter().any(cut)
    }

    /// The duration of the recording, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.last_nanos.saturating_sub(self.first_nanos) as f64 / 1e9
    }
}

/// Reads the next events, at most a batch. Returns whether there may be more.
fn read(
    reader: &mut TraceReader,
    requests: &mut Requests,
    batch: &mut Vec<Record>,
) -> Result<bool, TraceError> {
    while batch.len() < BATCH {
        match reader.next_with(|record, origin| requests.add(record, origin))? {
            Some(record) => batch.push(record),
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// The results of the first reading.
#[derive(Default)]
struct Tally {
    ledger: Ledger,
    kept: Kept,
    /// The steps of an event. Reused for every event, to avoid allocations.
    steps: Vec<Step>,
    cpus: u16,
    first_nanos: Option<u64>,
    last_nanos: u64,
    unseen_frames: u64,
    balance: i64,
    peak: i64,
    census: Census,
}

impl Tally {
    /// Adds events of `file`, which may contain frames of at most `limit` pageblocks.
    fn add_all(&mut self, limit: usize, records: &[Record], file: &str) -> Result<(), Error> {
        self.ledger.prefetch(records);
        for record in records {
            self.steps.clear();
            let number = self.ledger.add(&record.event, &mut self.steps);
            self.add(record, number);
            self.kept.add(&Resolved { record, number, steps: &self.steps });
            if self.census.pageblocks.len() > limit {
                let line = record.line;
                return Err(Error::input(format_args!(
                    "{file}:{line}: up to this line, the recording names frames of more than {limit} \
                     pageblocks of 2 MiB, which is the most that a replay holds; replay a part of it"
                )));
            }
        }
        Ok(())
    }

    /// Adds an event that allocates or frees the block with this number.
    fn add(&mut self, record: &Record, number: u32) {
        self.cpus = self.cpus.max(record.cpu + 1);
        self.first_nanos.get_or_insert(record.nanos);
        self.last_nanos = self.last_nanos.max(record.nanos);
        self.census.add(record);
        match record.event {
            Event::Alloc { order, .. } => {
                self.balance += 1 << order;
                self.peak = self.peak.max(self.balance);
            }
            Event::Free { order, .. } => {
                // Parts of larger blocks count as unseen, too. This only makes the machine larger.
                if number == 0 {
                    self.unseen_frames += 1 << order;
                }
                self.balance -= 1 << order;
            }
            _ => {}
        }
    }
}

/// A recording, in a file or in memory.
///
/// # Example
///
/// ```
/// use framewright::Tuning;
/// use framewright_lab::replay::{Recording, Survey, Tables, run};
///
/// let text = b"cc1-1 [000] d..1. 7.000001: mm_page_alloc: page=1 pfn=0x40 order=0 migratetype=1 gfp_flags=GFP_USER\n\
///     cc1-1 [000] d..1. 7.000002: mm_page_free: page=1 pfn=0x40 order=0\n";
/// let recording = Recording::from_bytes("example", text.to_vec());
/// let survey = Survey::of(&recording, &mut |_| ())?;
/// assert_eq!((survey.events, survey.cpus), (2, 1));
/// let report = run(&recording, &survey, &Tables::default(), &Tuning::default(), &mut |_| ())?;
/// assert_eq!((report.logical.allocs, report.logical.frees), (1, 1));
/// # Ok::<(), framewright_lab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recording(Source);

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Bytes { name: String, bytes: Arc<[u8]> },
}

impl Recording {
    /// The default limit of bytes that are read from a pipe or a device.
    pub const STREAM_LIMIT: u64 = 1 << 30;

    /// The recording in a file. A pipe or a device can be read only once: at most `limit` bytes of
    /// it are read into memory.
    ///
    /// # Errors
    /// The file cannot be read; a pipe or a device has more than `limit` bytes, is empty, or does
    /// not start with text or zstd.
    pub fn open(path: &Path, limit: u64) -> Result<Self, TraceError> {
        Ok(match read_stream(path, limit)? {
            None => Self(Source::File(path.to_path_buf())),
            Some(bytes) => Self::from_bytes(&path.display().to_string(), bytes),
        })
    }

    /// A recording in memory; messages name it `name`.
    #[must_use]
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Self {
        Self(Source::Bytes { name: name.to_owned(), bytes: bytes.into() })
    }

    /// Starts a reading.
    pub(super) fn reader(&self) -> Result<TraceReader, TraceError> {
        match &self.0 {
            Source::File(path) => TraceReader::open(path),
            Source::Bytes { name, bytes } => {
                TraceReader::from_reader(name, io::Cursor::new(Arc::clone(bytes)))
            }
        }
    }
}

/// Frames in a pageblock.
pub(super) const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;
/// Orders below a pageblock.
pub(super) const SMALL_ORDERS: usize = PAGEBLOCK_ORDER as usize;
/// Migratetypes that pageblocks may have.
pub(super) const TYPES: usize = MigrateType::REQUESTABLE.len();

/// The pageblock of a recorded frame.
pub(super) fn pageblock(pfn: u64) -> u64 {
    pfn >> PAGEBLOCK_ORDER
}

/// Whether the kernel keeps blocks of this order on per-CPU lists: the small ones, and huge pages.
pub(super) fn has_lists(order: u8) -> bool {
    order <= 3 || order == PAGEBLOCK_ORDER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_too_many_pageblocks_are_refused_at_their_line() {
        let line =
            |pfn: u64| format!("a-1 [000] ..... 7.1: mm_page_free: page=1 pfn={pfn} order=10\n");
        let text: String = (0..4).map(|n| line(n << 10)).collect();
        let recording = Recording::from_bytes("t.txt", text.into_bytes());
        let within = |limit| Survey::within(limit, &recording, &mut |_| {});
        assert_eq!(within(8).unwrap().events, 4);
        let error = within(7).unwrap_err().to_string();
        assert!(error.contains("t.txt:4: ") && error.contains("more than 7 pageblocks"), "{error}");
    }
}
