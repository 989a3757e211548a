//! What was recorded, into files.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use zstd::stream::write::Encoder;

use super::Destination;
use super::crew::{Reel, id};
use super::error::RecordError;
use super::format::Format;
use super::lost::Lost;
use super::merge::{Merge, Turn};
use super::names::Names;
use super::page::Layout;
use super::text;

/// Good and still several times faster than the text is made.
const LEVEL: i32 = 3;
/// Text is handed to the compressor in pieces of about this size.
const PIECE: usize = 256 << 10;
/// How often progress is told, in events.
const PROGRESS_EVERY: u64 = 1 << 16;

/// A recording that has ended and is to be written.
#[derive(Debug)]
pub struct Capture {
    pub(super) reels: Vec<Reel>,
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

/// What a recording is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Events in it.
    pub events: u64,
    /// Events that the kernel lost.
    pub lost: Lost,
    /// How long it ran.
    pub elapsed: Duration,
    /// CPUs that ran.
    pub cpus: usize,
    /// Bytes of its compressed text.
    pub bytes: u64,
}

impl Capture {
    /// The tracing instance that could not be removed, and why, should that be so: somebody else
    /// looks into it. Tracing in it has ended all the same.
    #[must_use]
    pub fn leftover(&self) -> Option<&str> {
        self.leftover.as_deref()
    }

    /// Writes it to `destination`; `progress` is told which part is done, 0 to 1, and may give
    /// the recording up.
    ///
    /// # Errors
    /// What was recorded makes no sense, or cannot be written. What was at the destination is
    /// untouched.
    pub fn write(
        self,
        mut destination: Destination,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Summary, RecordError> {
        let events = self.reels.iter().map(|reel| reel.events).sum();
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
        let mut output = Encoder::new(destination.part(), LEVEL).map_err(fail)?;
        output.include_checksum(true).map_err(fail)?;
        text::header(events, events + self.lost.total(), self.cpus, &mut writer.text);
        let mut merge = Merge::new(self.reels, self.layout, &folder)?;
        while merge.next(|turn| writer.line(&turn))? {
            if writer.text.len() >= PIECE {
                output.write_all(&writer.text).map_err(fail)?;
                writer.text.clear();
            }
            if writer.lines.is_multiple_of(PROGRESS_EVERY) {
                let part = writer.lines as f64 / events.max(1) as f64;
                if progress(part).is_break() {
                    return Err(RecordError::GivenUp);
                }
            }
        }
        output.write_all(&writer.text).map_err(fail)?;
        let file = output.finish().map_err(fail)?;
        let bytes = file.metadata().map_err(fail)?.len();
        if progress(1.0).is_break() {
            return Err(RecordError::GivenUp);
        }
        destination.finish(&self.before, &self.after)?;
        Ok(Summary { events, lost: self.lost, elapsed: self.elapsed, cpus: self.cpus, bytes })
    }
}

/// A field that all events share.
fn common<'f>(formats: &'f [Format], name: &str) -> Option<&'f super::format::Field> {
    formats.iter().find_map(|format| format.field(name))
}

/// Turns events into lines.
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
            let reason = "an event of a kind that was not asked for";
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
