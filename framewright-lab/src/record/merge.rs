//! Merges the events of all CPUs in the order of time.
//!
//! The events of each CPU are in order already, and all CPUs have one clock. The next event of the
//! recording is therefore the earliest of all CPUs' next events. At the same nanosecond, the lower
//! CPU comes first.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{self, Read, Seek, Write},
    ops::Range,
    path::Path,
};

use lz4_flex::frame::{FrameDecoder, FrameEncoder};

use super::{
    capture::CpuRecording,
    lost::RecordError,
    page::{Layout, Page},
};

/// A spool (a temporary file for the pages of a CPU) that is being written. It is compressed with LZ4, which
/// is fast, because compression runs at the same time as the recorded work. Small spools leave more page
/// cache to that work.
pub(super) struct SpoolWriter(FrameEncoder<File>);

impl SpoolWriter {
    /// An empty spool in `folder`.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self(FrameEncoder::new(tempfile::tempfile_in(folder)?)))
    }

    /// Adds a page.
    pub(super) fn push(&mut self, page: &[u8]) -> io::Result<()> {
        self.0.write_all(&(page.len() as u32).to_le_bytes())?;
        self.0.write_all(page)
    }

    /// Ends it.
    pub(super) fn finish(self) -> io::Result<Spool> {
        let mut file = self.0.finish()?;
        file.rewind()?;
        Ok(Spool(file))
    }
}

/// A spool that is complete.
#[derive(Debug)]
pub(super) struct Spool(File);

impl Spool {
    /// A reader from its beginning.
    pub(super) fn read(self) -> SpoolReader {
        SpoolReader(FrameDecoder::new(self.0))
    }
}

/// Reads a spool page by page.
pub(super) struct SpoolReader(FrameDecoder<File>);

impl SpoolReader {
    /// Puts the next page into `page`. Returns whether there was one.
    pub(super) fn next(&mut self, page: &mut Vec<u8>) -> io::Result<bool> {
        let mut length = [0; 4];
        match self.0.read(&mut length[..1])? {
            0 => return Ok(false),
            _ => self.0.read_exact(&mut length[1..])?,
        }
        page.resize(u32::from_le_bytes(length) as usize, 0);
        self.0.read_exact(page)?;
        Ok(true)
    }
}

/// The next event.
pub(super) struct Turn<'m> {
    pub(super) cpu: u16,
    pub(super) nanos: u64,
    pub(super) bytes: &'m [u8],
    /// Set if events of this CPU were lost before this event: their number, if the kernel counted
    /// them.
    pub(super) lost: Option<Option<u64>>,
}

/// Takes events from all recordings in the order of time.
pub(super) struct Merge<'m> {
    streams: Vec<Stream<'m>>,
    /// The time of each stream's next event, and the stream.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'m> Merge<'m> {
    /// Starts with `recordings`, in the order of CPUs; error messages name `folder` as that of the
    /// spools.
    pub(super) fn new(
        recordings: Vec<CpuRecording>,
        layout: Layout,
        folder: &'m Path,
    ) -> Result<Self, RecordError> {
        let mut merge = Self { streams: Vec::new(), next: BinaryHeap::new() };
        for (index, recording) in recordings.into_iter().enumerate() {
            let mut stream = Stream {
                cpu: recording.cpu,
                layout,
                spool: recording.spool.read(),
                folder,
                bytes: Vec::new(),
                page: None,
                event: 0..0,
                lost: None,
            };
            if let Some(nanos) = stream.advance()? {
                merge.next.push(Reverse((nanos, index)));
            }
            merge.streams.push(stream);
        }
        Ok(merge)
    }

    /// Passes the next event to `take`. Returns whether there was one.
    #[inline]
    pub(super) fn next(
        &mut self,
        take: impl FnOnce(Turn<'_>) -> Result<(), RecordError>,
    ) -> Result<bool, RecordError> {
        let Some(mut next) = self.next.peek_mut() else { return Ok(false) };
        let Reverse((nanos, index)) = *next;
        let stream = &mut self.streams[index];
        take(Turn {
            cpu: stream.cpu,
            nanos,
            bytes: &stream.bytes[stream.event.clone()],
            lost: stream.lost.take(),
        })?;
        match stream.advance()? {
            Some(nanos) => *next = Reverse((nanos, index)),
            None => {
                std::collections::binary_heap::PeekMut::pop(next);
            }
        }
        Ok(true)
    }
}

/// One CPU's events.
struct Stream<'m> {
    cpu: u16,
    layout: Layout,
    spool: SpoolReader,
    folder: &'m Path,
    bytes: Vec<u8>,
    page: Option<Page>,
    /// The position of the next event in `bytes`.
    event: Range<usize>,
    lost: Option<Option<u64>>,
}

impl Stream<'_> {
    /// Advances to the next event. Returns its time.
    #[inline]
    fn advance(&mut self) -> Result<Option<u64>, RecordError> {
        let fail = |cpu| move |reason| RecordError::Page { cpu, reason };
        loop {
            if let Some(page) = &mut self.page
                && let Some((nanos, event)) = page.next(&self.bytes).map_err(fail(self.cpu))?
            {
                self.event = event;
                return Ok(Some(nanos));
            }
            let more = self.spool.next(&mut self.bytes);
            let spool = |reason| RecordError::Spool { folder: self.folder.to_owned(), reason };
            if !more.map_err(spool)? {
                return Ok(None);
            }
            let page = self.layout.open(&self.bytes).map_err(fail(self.cpu))?;
            // A page without events still has the count of events lost before it.
            self.lost = match (self.lost.flatten(), page.lost) {
                (Some(before), Some(Some(now))) => Some(Some(before + now)),
                (_, None) => self.lost,
                (_, now) => now,
            };
            self.page = Some(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SpoolWriter, *};
    use crate::record::page::tests::{HEADER_PAGE, page};

    #[test]
    fn pages_are_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = SpoolWriter::new(folder.path()).unwrap();
        let pages: Vec<Vec<u8>> = (0..500).map(|n| vec![n as u8; 16 + n * 8]).collect();
        for page in &pages {
            spool.push(page).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut reader = spool.finish().unwrap().read();
        let mut page = Vec::new();
        for expected in &pages {
            assert!(reader.next(&mut page).unwrap());
            assert_eq!(&page, expected);
        }
        assert!(!reader.next(&mut page).unwrap());
    }

    type Seen = Vec<(u16, u64, Vec<u8>, Option<Option<u64>>)>;

    fn merged(cpus: &[&[Vec<u8>]]) -> Result<Seen, RecordError> {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::parse(HEADER_PAGE).unwrap();
        let recordings = (0..).zip(cpus).map(|(cpu, pages)| {
            let mut spool = SpoolWriter::new(folder.path()).unwrap();
            for page in *pages {
                spool.push(&page[..layout.used(page)]).unwrap();
            }
            CpuRecording { cpu, spool: spool.finish().unwrap(), events: 0 }
        });
        let mut merge = Merge::new(recordings.collect(), layout, folder.path())?;
        let mut seen = Vec::new();
        let take = |seen: &mut Seen, turn: Turn<'_>| {
            seen.push((turn.cpu, turn.nanos, turn.bytes.to_vec(), turn.lost));
            Ok(())
        };
        while merge.next(|turn| take(&mut seen, turn))? {}
        Ok(seen)
    }

    #[test]
    fn the_order_is_that_of_time_then_of_cpus() {
        let a = page(100, &[(0, b"a100"), (50, b"a150")], None);
        let empty = page(160, &[], None);
        let b = page(170, &[(0, b"a170")], Some(5));
        let c = page(90, &[(0, b"b090"), (60, b"b150"), (5, b"b155")], None);
        let seen = merged(&[&[a, empty, b], &[], &[c]]).unwrap();
        let order: Vec<_> =
            seen.iter().map(|event| std::str::from_utf8(&event.2).unwrap()).collect();
        assert_eq!(order, ["b090", "a100", "a150", "b150", "b155", "a170"]);
        assert_eq!(seen.last().unwrap().3, Some(Some(5)));
        assert!(seen[..5].iter().all(|event| event.3.is_none()));
    }

    #[test]
    fn losses_before_empty_pages_are_kept() {
        let pages = [page(1, &[], Some(5)), page(2, &[(0, b"aaaa")], Some(3))];
        assert_eq!(merged(&[&pages]).unwrap()[0].3, Some(Some(8)));
        let pages = [page(1, &[], Some(5)), page(2, &[(0, b"aaaa")], None)];
        assert_eq!(merged(&[&pages]).unwrap()[0].3, Some(Some(5)));
    }

    #[test]
    fn an_error_names_its_cpu() {
        let mut bad = page(1, &[(0, b"aaaa")], None);
        bad[16..20].copy_from_slice(&28u32.to_le_bytes());
        let error = merged(&[&[], &[bad]]).unwrap_err().to_string();
        assert!(error.contains("CPU 1"), "{error}");
    }
}
