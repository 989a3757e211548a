//! Lines of text as ftrace writes them.
//!
//! ```text
//!             bash-16983   [001] d..2.  6212.720706: mm_page_alloc: page=… pfn=0x12e0f3 order=0 …
//! ```

use std::io::Write;

use super::format::printable;

/// The part of a line before an event's own text.
pub(super) struct Head<'h> {
    pub(super) task: &'h [u8],
    pub(super) pid: i32,
    pub(super) cpu: u16,
    /// `common_flags` and `common_preempt_count`.
    pub(super) context: (u8, u8),
    pub(super) nanos: u64,
    pub(super) event: &'h str,
}

/// Writing to memory does not fail.
const MEMORY: &str = "writing to memory";

/// Appends the header of a recording of `kept` events out of `written`.
pub(super) fn header(kept: u64, written: u64, cpus: usize, out: &mut Vec<u8>) {
    write!(
        out,
        "# tracer: nop\n\
         #\n\
         # entries-in-buffer/entries-written: {kept}/{written}   #P:{cpus}\n\
         #\n\
         #                                _-----=> irqs-off/BH-disabled\n\
         #                               / _----=> need-resched\n\
         #                              | / _---=> hardirq/softirq\n\
         #                              || / _--=> preempt-depth\n\
         #                              ||| / _-=> migrate-disable\n\
         #                              |||| /     delay\n\
         #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n\
         #              | |         |   |||||     |         |\n"
    )
    .expect(MEMORY);
}

/// Appends a note that events were lost before the next one of `cpu`.
pub(super) fn lost(cpu: u16, events: Option<u64>, out: &mut Vec<u8>) {
    match events {
        Some(events) => writeln!(out, "CPU:{cpu} [LOST {events} EVENTS]"),
        None => writeln!(out, "CPU:{cpu} [LOST EVENTS]"),
    }
    .expect(MEMORY);
}

/// Appends the part of a line before an event's own text.
#[inline]
pub(super) fn head(head: &Head<'_>, out: &mut Vec<u8>) {
    const NAME_WIDTH: usize = 16;
    out.extend_from_slice(&[b' '; NAME_WIDTH][head.task.len().min(NAME_WIDTH)..]);
    out.extend(head.task.iter().map(|&byte| printable(byte)));
    let micros = head.nanos.saturating_add(500) / 1000;
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    write!(out, "-{:<7} [{:03}] ", head.pid, head.cpu).expect(MEMORY);
    out.extend_from_slice(&context(head.context.0, head.context.1));
    write!(out, " {seconds:>5}.{micros:06}: {}: ", head.event).expect(MEMORY);
}

/// The five characters for the context of an event.
#[inline]
fn context(flags: u8, counts: u8) -> [u8; 5] {
    let has = |bit: u8| flags & bit != 0;
    let (irqs_off, bh_off) = (has(0x01), has(0x80));
    let (lazy, resched, preempt) = (has(0x02), has(0x04), has(0x20));
    let (hardirq, softirq, nmi) = (has(0x08), has(0x10), has(0x40));
    [
        match (irqs_off, bh_off) {
            (true, true) => b'D',
            (true, false) => b'd',
            (false, true) => b'b',
            (false, false) => b'.',
        },
        match (resched, preempt, lazy) {
            (true, true, true) => b'B',
            (true, true, false) => b'N',
            (false, true, true) => b'L',
            (true, false, true) => b'b',
            (true, false, false) => b'n',
            (false, true, false) => b'p',
            (false, false, true) => b'l',
            (false, false, false) => b'.',
        },
        match (nmi, hardirq, softirq) {
            (true, true, _) => b'Z',
            (true, false, _) => b'z',
            (false, true, true) => b'H',
            (false, true, false) => b'h',
            (false, false, true) => b's',
            (false, false, false) => b'.',
        },
        depth(counts & 0xf),
        depth(counts >> 4),
    ]
}

fn depth(count: u8) -> u8 {
    if count == 0 { b'.' } else { b"0123456789abcdef"[usize::from(count & 0xf)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceReader;

    fn line(task: &[u8], context: (u8, u8), nanos: u64) -> String {
        let event = "mm_page_free";
        let mut out = Vec::new();
        head(&Head { task, pid: 16983, cpu: 1, context, nanos, event }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_those_of_ftrace() {
        assert_eq!(
            line(b"bash", (0, 0), 6_212_720_706_400),
            "            bash-16983   [001] .....  6212.720706: mm_page_free: "
        );
        assert_eq!(
            line(b"a name\nof sixteen", (0x29, 0x12), 1_234_567_999_999_600),
            "a name?of sixteen-16983   [001] dph21 1234568.000000: mm_page_free: "
        );
        for (flags, expected) in [
            (0x80, "b...."),
            (0x81, "D...."),
            (0x24, ".N..."),
            (0x04, ".n..."),
            (0x02, ".l..."),
            (0x18, "..H.."),
            (0x10, "..s.."),
            (0x40, "..z.."),
            (0x48, "..Z.."),
        ] {
            assert_eq!(context(flags, 0), expected.as_bytes(), "{flags:#x}");
        }
        assert_eq!(&context(0, 0xfa)[3..], b"af");
    }

    #[test]
    fn header_and_notes_are_understood_by_the_reader() {
        let mut text = Vec::new();
        header(2, 9, 2, &mut text);
        lost(1, Some(6), &mut text);
        lost(0, None, &mut text);
        text.extend(line(b"x [7] y", (0, 0), 5_000).bytes());
        text.extend(b"page=(____ptrval____) pfn=0x40 order=3\n");
        let mut reader = TraceReader::from_bytes("text", text).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.cpu, record.nanos), (1, 5_000));
        assert_eq!(reader.header().cpus, Some(2));
        let warnings: Vec<_> = reader.warnings().iter().map(ToString::to_string).collect();
        assert!(warnings.iter().any(|text| text.contains("lost 7 events in 2 places")));
    }
}
