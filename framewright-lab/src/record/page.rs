//! Pages of the kernel's ring buffer, as read from `trace_pipe_raw`.
//!
//! The kernel describes them: `events/header_page` has the positions of a page's time, length and
//! data; `events/header_event` describes a record. A page starts with the time of its first record,
//! and each record has the time since the one before it:
//!
//! ```text
//! 5 bits type_len, 27 bits time_delta, then
//!   type_len 1 to 28   an event of 4 * type_len bytes
//!   type_len 0         a length in 32 bits, which counts itself, and an event
//!   type_len 29        padding: to the end of the page, or of a length as above
//!   type_len 30        32 bits more of time_delta, above the 27
//!   type_len 31        the time itself, but for its topmost 5 bits
//! ```
//!
//! If events were lost before a page, the topmost of the 32 bits of its length is set. If the next
//! bit is set too, 64 bits after the data contain their number.

use std::ops::Range;

const MISSED: u64 = 1 << 31;
const MISSED_COUNTED: u64 = 1 << 30;
const LENGTH: u64 = MISSED_COUNTED - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// A time stamp has 32 bits above those of a delta.
const STAMP: u64 = (1 << (32 + DELTA_BITS)) - 1;

/// The layout of a page. All offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    commit: usize,
    commit_size: usize,
    data: usize,
    /// Bytes of a whole page.
    pub(super) size: usize,
}

impl Layout {
    /// Reads `events/header_page`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find(|line| {
                line.split(';').next().is_some_and(|field| field.ends_with(&format!(" {name}")))
            })?;
            let number = |key: &str| {
                line.split(';').find_map(|part| part.trim().strip_prefix(key))?.parse().ok()
            };
            Some((number("offset:")?, number("size:")?))
        };
        let (time, time_size): (usize, usize) = field("timestamp")?;
        let (commit, commit_size) = field("commit")?;
        let (data, data_size): (usize, usize) = field("data")?;
        let size = data.checked_add(data_size)?;
        let is_valid = (time, time_size) == (0, 8)
            && matches!(commit_size, 4 | 8)
            && commit.checked_add(commit_size)? <= data
            && size <= 1 << 24;
        is_valid.then_some(Self { commit, commit_size, data, size })
    }

    /// The number of bytes of a page that are in use.
    pub(super) fn used(&self, page: &[u8]) -> usize {
        let Some(commit) = self.commit(page) else { return 0 };
        let count = if commit & MISSED_COUNTED != 0 { 8 } else { 0 };
        (self.data + (commit & LENGTH) as usize + count).min(page.len())
    }

    /// Opens a page.
    pub(super) fn open(&self, bytes: &[u8]) -> Result<Page, &'static str> {
        const SHORT: &str = "a page of the kernel's buffer is shorter than its header says";
        let commit = self.commit(bytes).ok_or(SHORT)?;
        let end = self.data + (commit & LENGTH) as usize;
        if end > bytes.len() {
            return Err(SHORT);
        }
        let lost = match commit {
            commit if commit & MISSED == 0 => None,
            commit if commit & MISSED_COUNTED == 0 => Some(None),
            _ => Some(u64_at(bytes, end)),
        };
        let time = u64_at(bytes, 0).ok_or(SHORT)?;
        Ok(Page { lost, time, at: self.data, end })
    }

    fn commit(&self, page: &[u8]) -> Option<u64> {
        match self.commit_size {
            4 => u32_at(page, self.commit).map(u64::from),
            _ => u64_at(page, self.commit),
        }
    }
}

/// The position in a page. The caller owns the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Set if events were lost before this page: their number, if the kernel counted them.
    pub(super) lost: Option<Option<u64>>,
    time: u64,
    at: usize,
    end: usize,
}

impl Page {
    /// The next event's time in nanoseconds, and its position in `bytes`, the bytes that the page
    /// was opened with.
    #[inline]
    pub(super) fn next(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<(u64, Range<usize>)>, &'static str> {
        const CUT: &str = "a record in the kernel's buffer is cut";
        while self.at < self.end {
            let (kind, delta) = split(u32_at(bytes, self.at).ok_or(CUT)?);
            let body = self.at + 4;
            let word = || u32_at(bytes, body).ok_or(CUT);
            match kind {
                PADDING if delta == 0 => return Ok(None),
                TIME_EXTEND => {
                    self.time = self.time.wrapping_add((u64::from(word()?) << DELTA_BITS) + delta);
                }
                TIME_STAMP => {
                    let stamp = (u64::from(word()?) << DELTA_BITS) + delta;
                    self.time = self.time & !STAMP | stamp;
                }
                _ => self.time = self.time.wrapping_add(delta),
            }
            let (start, length) = match kind {
                0 => (body + 4, (word()? as usize).checked_sub(4).ok_or(CUT)?),
                PADDING => (body, word()? as usize),
                TIME_EXTEND | TIME_STAMP => (body, 4),
                words => (body, 4 * words as usize),
            };
            let end = start.checked_add(length).filter(|&end| end <= self.end).ok_or(CUT)?;
            self.at = end.next_multiple_of(4);
            if kind < PADDING {
                return Ok(Some((self.time, start..end)));
            }
        }
        Ok(None)
    }
}

/// The bit fields of a record's header. Compilers put the first field into the low bits if the
/// machine is little-endian, and into the high bits otherwise.
#[inline]
fn split(header: u32) -> (u32, u64) {
    if cfg!(target_endian = "little") {
        (header & 31, u64::from(header >> 5))
    } else {
        (header >> DELTA_BITS, u64::from(header & ((1 << DELTA_BITS) - 1)))
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::record) const HEADER_PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    /// A whole page with these events, each with the nanoseconds since the one before it.
    pub(in crate::record) fn page(
        time: u64,
        events: &[(u32, &[u8])],
        lost: Option<u64>,
    ) -> Vec<u8> {
        let mut data = Vec::new();
        for (delta, event) in events {
            assert!(event.len() % 4 == 0 && event.len() <= 112);
            data.extend(record(event.len() as u32 / 4, *delta));
            data.extend_from_slice(event);
        }
        page_of(time, &data, lost)
    }

    fn record(kind: u32, delta: u32) -> [u8; 4] {
        if cfg!(target_endian = "little") {
            (kind | delta << 5).to_ne_bytes()
        } else {
            (kind << DELTA_BITS | delta).to_ne_bytes()
        }
    }

    fn page_of(time: u64, data: &[u8], lost: Option<u64>) -> Vec<u8> {
        let flags = lost.map_or(0, |_| MISSED | MISSED_COUNTED);
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((data.len() as u64 | flags).to_ne_bytes());
        page.extend_from_slice(data);
        page.extend(lost.unwrap_or(0).to_ne_bytes());
        page.resize(4096, 0);
        page
    }

    fn layout() -> Layout {
        Layout::parse(HEADER_PAGE).unwrap()
    }

    fn all(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, &'static str> {
        let mut page = layout().open(bytes)?;
        let mut events = Vec::new();
        while let Some((time, event)) = page.next(bytes)? {
            events.push((time, bytes[event].to_vec()));
        }
        Ok(events)
    }

    #[test]
    fn the_layout_is_read_from_the_kernels_description() {
        let expected = Layout { commit: 8, commit_size: 8, data: 16, size: 4096 };
        assert_eq!(layout(), expected);
        for bad in ["", "\tfield: u64 timestamp;\toffset:0;\tsize:8;\n"] {
            assert_eq!(Layout::parse(bad), None);
        }
        assert_eq!(Layout::parse(&HEADER_PAGE.replace("offset:16", "offset:4")), None);
    }

    #[test]
    fn times_add_up() {
        let page = page(1000, &[(0, b"aaaa"), (7, b"bbbbbbbb"), (1, b"cccc")], None);
        let expected =
            [(1000, b"aaaa".to_vec()), (1007, b"bbbbbbbb".into()), (1008, b"cccc".into())];
        assert_eq!(all(&page).unwrap(), expected);
    }

    #[test]
    fn long_gaps_stamps_padding_and_large_events() {
        let mut data = Vec::new();
        data.extend(record(TIME_EXTEND, 5));
        data.extend(2u32.to_ne_bytes());
        data.extend(record(1, 0));
        data.extend(b"gap.");
        data.extend(record(TIME_STAMP, 9));
        data.extend(3u32.to_ne_bytes());
        data.extend(record(0, 1));
        data.extend(9u32.to_ne_bytes());
        data.extend(b"large   ");
        data.extend(record(PADDING, 1));
        data.extend(4u32.to_ne_bytes());
        data.extend(record(1, 1));
        data.extend(b"last");
        data.extend(record(PADDING, 0));
        data.extend(b"rubbish");
        let top = 1 << 60;
        assert_eq!(
            all(&page_of(top + 100, &data, None)).unwrap(),
            [
                (top + 105 + (2 << 27), b"gap.".to_vec()),
                (top + 10 + (3 << 27), b"large".to_vec()),
                (top + 12 + (3 << 27), b"last".to_vec()),
            ]
        );
    }

    #[test]
    fn lost_events_are_reported_with_their_number() {
        let whole = page(1, &[(0, b"aaaa")], Some(851));
        let sign_extended = {
            // As in the kernel: the length is a signed number.
            let mut page = whole.clone();
            page[12..16].fill(0xff);
            page
        };
        for page in [&whole, &sign_extended] {
            assert_eq!(layout().open(page).unwrap().lost, Some(Some(851)));
            assert_eq!(all(page).unwrap().len(), 1);
            assert_eq!(layout().used(page), 16 + 8 + 8);
            let kept = &page[..layout().used(page)];
            assert_eq!(layout().open(kept).unwrap().lost, Some(Some(851)));
        }
    }

    #[test]
    fn malformed_pages_are_errors() {
        assert!(all(b"short").is_err());
        let long = page_of(1, &record(28, 0), None);
        assert!(all(&long).is_err());
        let mut page = page(1, &[(0, b"aaaa")], None);
        page[8..12].copy_from_slice(&5000u32.to_ne_bytes());
        assert!(all(&page).is_err());
    }
}
