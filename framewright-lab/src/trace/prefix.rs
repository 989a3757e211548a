//! The part of a line before the event's body: task, CPU, time and name.
//!
//! ```text
//! ftrace:  bash-15296   [000] d..2.  5401.025701: tlb_flush: pages:1 reason:…
//! perf:    bash 16983 [001]  6212.720706: kmem:mm_page_alloc: page=0x… pfn=0x12e0f3 order=0 …
//! ```
//!
//! A task's name may have blanks, brackets and colons, so the CPU is the first bracket that fits
//! the rest of the line.

use super::error::LineProblem;
use super::event::Kind;
use super::number::{self, Cursor};

/// The part of a line before a body, and the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'l> {
    /// The task: its name and number.
    pub(super) task: &'l [u8],
    /// CPU that ran the event.
    pub(super) cpu: u16,
    /// Time since the recorded machine's clock began, in nanoseconds.
    pub(super) nanos: u64,
    /// The event's name without its subsystem.
    pub(super) name: &'l [u8],
    /// The kind of event with this name.
    pub(super) kind: Kind,
    /// The rest of the line.
    pub(super) body: &'l [u8],
}

const SHAPE: &str = "`task-pid [cpu] flags time: event: …` (ftrace) or \
                     `task pid [cpu] time: subsystem:event: …` (perf script)";

/// The CPU is within this many bytes of a line's start: task names are short.
const HEAD: usize = 256;

/// Maximum length of an event's name in bytes, because all names are stored. Names of the kernel
/// have at most some 60.
const LONGEST_NAME: usize = 256;

/// The length of a task in ftrace's lines, and of their beginning up to the bracket after the CPU.
const TASK: usize = 25;
const BEGINNING: usize = TASK + 5;

/// The beginnings of recent lines of ftrace, and their CPUs: a recording repeats a few of them. Those that are not known
/// yet are zeroes, which text does not have.
#[derive(Default)]
pub(super) struct RecentTasks([([u8; BEGINNING], u16); 8]);

impl RecentTasks {
    /// The place of a beginning: chosen by the last digit of the CPU, so that tasks of different CPUs have different
    /// places.
    #[inline(always)]
    fn place(beginning: &[u8; BEGINNING]) -> usize {
        usize::from(beginning[TASK + 3] % 8)
    }

    /// The CPU and the rest of a line that begins as a recent one.
    #[inline(always)]
    fn find<'l>(&self, line: &'l [u8]) -> Option<(u16, &'l [u8])> {
        let (beginning, rest) = line.split_first_chunk()?;
        let (recent, cpu) = &self.0[Self::place(beginning)];
        (recent == beginning).then_some((*cpu, rest))
    }

    /// Notes the beginning of a line whose CPU is after its first bracket.
    fn note(&mut self, line: &[u8], bracket: usize, cpu: u16) {
        if let Some((beginning, _)) = line.split_first_chunk()
            && bracket == TASK
            && matches!(beginning[TASK..], [_, b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b']'])
        {
            self.0[Self::place(beginning)] = (*beginning, cpu);
        }
    }
}

/// Splits a line.
#[inline]
pub(super) fn parse<'l>(line: &'l [u8], recent: &mut RecentTasks) -> Result<Line<'l>, LineProblem> {
    if let Some((cpu, rest)) = recent.find(line)
        && let Some(parsed) = usual(cpu, rest).or_else(|| after_cpu(cpu, rest).ok())
    {
        return Ok(Line { task: &line[..TASK], ..parsed });
    }
    parse_any(line, recent)
}

/// As [`after_cpu`], in one pass, for a frequent event in the usual form: ` d..2.  5401.025701: mm_page_free: …`.
#[inline]
fn usual(cpu: u16, text: &[u8]) -> Option<Line<'_>> {
    let mut text = Cursor(text);
    text.text(b" ")?;
    let flags: &[u8; 5] = text.bytes()?;
    if flags.contains(&b' ') || flags[4] == b':' {
        return None;
    }
    text.text(b" ")?;
    while text.text(b" ").is_some() {}
    let seconds = text.decimal()?;
    text.text(b".")?;
    let micros: &[u8; 6] = text.bytes()?;
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(number::decimal(micros)? * 1000)?;
    text.text(b": mm_page_")?;
    let (name, kind): (&[u8], _) = if text.text(b"alloc: ").is_some() {
        (b"mm_page_alloc", Kind::Alloc)
    } else if text.text(b"free: ").is_some() {
        (b"mm_page_free", Kind::Free)
    } else if text.text(b"free_batched: ").is_some() {
        (b"mm_page_free_batched", Kind::FreeBatched)
    } else if text.text(b"alloc_zone_locked: ").is_some() {
        (b"mm_page_alloc_zone_locked", Kind::ZoneLocked)
    } else {
        text.text(b"pcpu_drain: ")?;
        (b"mm_page_pcpu_drain", Kind::PcpuDrain)
    };
    Some(Line { task: &[], cpu, nanos, name, kind, body: without_blanks(text.0) })
}

fn parse_any<'l>(line: &'l [u8], recent: &mut RecentTasks) -> Result<Line<'l>, LineProblem> {
    let head = &line[..line.len().min(HEAD)];
    let mut from = 0;
    let mut first_problem = None;
    while let Some(at) = number::position(b'[', &head[from..]) {
        let bracket = from + at;
        if is_task(&line[..bracket]) {
            match after_bracket(&line[bracket + 1..]) {
                Ok(parsed) => {
                    if from == 0 {
                        recent.note(line, bracket, parsed.cpu);
                    }
                    return Ok(Line { task: &line[..bracket], ..parsed });
                }
                // The error after the first bracket is most likely the actual one.
                Err(problem) => first_problem = first_problem.or(Some(problem)),
            }
        }
        from = bracket + 1;
    }
    Err(first_problem.unwrap_or_else(|| LineProblem::new("line", line, SHAPE)))
}

/// A task ends with its number (`-123`, ` 123`, ` 120/123`) or with ftrace's `(tgid)`.
#[inline]
fn is_task(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    match text {
        [.., b')'] => true,
        [.., last] => last.is_ascii_digit() && text.iter().any(|b| matches!(b, b'-' | b' ')),
        [] => false,
    }
}

/// The name of a task without the number after it, and without ftrace's `(tgid)`.
pub(crate) fn process(task: &[u8]) -> &[u8] {
    let mut task = task.trim_ascii();
    if task.last() == Some(&b')')
        && let Some(open) = memchr::memrchr(b'(', task)
    {
        task = task[..open].trim_ascii();
    }
    let number = |byte: &u8| byte.is_ascii_digit() || *byte == b'/';
    let digits = task.iter().rev().take_while(|&byte| number(byte)).count();
    let name = &task[..task.len() - digits];
    name.strip_suffix(b"-").unwrap_or(name).trim_ascii()
}

#[inline]
fn after_bracket(text: &[u8]) -> Result<Line<'_>, LineProblem> {
    let Some(end) = text.iter().position(|&byte| byte == b']') else {
        return Err(LineProblem::new("line", text, SHAPE));
    };
    after_cpu(number::cpu(&text[..end])?, &text[end + 1..])
}

/// The part of a line after the bracket that ends the CPU.
#[inline]
fn after_cpu(cpu: u16, text: &[u8]) -> Result<Line<'_>, LineProblem> {
    let (mut word, mut rest) = next_word(text);
    // ftrace's flags never end with a colon, a time always does.
    if !word.is_empty() && !word.ends_with(b":") {
        (word, rest) = next_word(rest);
    }
    let nanos = timestamp(word)?;
    let (mut word, mut rest) = next_word(rest);
    // perf prints the sampling period of software and hardware events before their name.
    if number::decimal(word).is_some() {
        (word, rest) = next_word(rest);
    }
    let (name, kind) = event_name(word)?;
    Ok(Line { task: &[], cpu, nanos, name, kind, body: rest })
}

/// The first word, and the text after the blanks behind it.
#[inline]
fn next_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = without_blanks(text);
    let (word, rest) = text.split_at(number::word(text));
    (word, without_blanks(rest))
}

/// The text after the blanks at its start: in most places one.
#[inline(always)]
fn without_blanks(text: &[u8]) -> &[u8] {
    match text {
        [byte, ..] if byte.is_ascii_graphic() => text,
        [b' ', rest @ ..] if rest.first().is_some_and(u8::is_ascii_graphic) => rest,
        _ => text.trim_ascii_start(),
    }
}

/// `seconds.fraction:` with 1 to 9 digits of fraction.
#[inline]
fn timestamp(word: &[u8]) -> Result<u64, LineProblem> {
    nanos(word).ok_or_else(|| {
        LineProblem::new("timestamp", word, "`seconds.microseconds:`, as the default clock prints")
    })
}

#[inline]
fn nanos(word: &[u8]) -> Option<u64> {
    let word = word.strip_suffix(b":")?;
    // Nearly all times have microseconds.
    let (seconds, nanos) = match word.split_last_chunk::<7>() {
        Some((seconds, [b'.', micros @ ..])) => (seconds, number::decimal(micros)? * 1000),
        _ => {
            let dot = word.iter().position(|&byte| byte == b'.')?;
            let (seconds, fraction) = (&word[..dot], &word[dot + 1..]);
            let missing = 9usize.checked_sub(fraction.len())?;
            (seconds, number::decimal(fraction)? * POWERS_OF_TEN[missing])
        }
    };
    number::decimal(seconds)?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

const POWERS_OF_TEN: [u64; 9] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The name without its colon and subsystem, and its kind. perf's own records (`PERF_RECORD_LOST lost 5`) have no
/// colon.
#[inline]
fn event_name(word: &[u8]) -> Result<(&[u8], Kind), LineProblem> {
    let name = match word.strip_suffix(b":") {
        Some(name) => {
            let kind = Kind::of(name);
            if kind != Kind::Other {
                return Ok((name, kind));
            }
            let subsystem = memchr::memrchr(b':', name).map_or(0, |colon| colon + 1);
            &name[subsystem..]
        }
        None if word.starts_with(b"PERF_RECORD_") => word,
        None => &[],
    };
    let allowed =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.iter().all(allowed) {
        return Err(LineProblem::new("event name", word, "a name of up to 256 bytes and a colon"));
    }
    Ok((name, Kind::of(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[u8]) -> Result<Line<'_>, LineProblem> {
        super::parse(line, &mut RecentTasks::default())
    }

    fn cpu_and_nanos(line: &str) -> (u16, u64) {
        let line = parse(line.as_bytes()).expect(line);
        assert_eq!((line.name, line.body), (&b"mm_page_free"[..], &b"page=x pfn=0x1 order=0"[..]));
        (line.cpu, line.nanos)
    }

    #[test]
    fn both_formats_and_odd_task_names() {
        let body = "page=x pfn=0x1 order=0";
        for prefix in [
            "            bash-15296   [003] .....  5401.025609: mm_page_free: ",
            "  kworker/0:1-ev-17      [003] d..2.  5401.025609: mm_page_free: ",
            "           <...>-17      [003] dNh2.  5401.025609: mm_page_free: ",
            "   a [7] [x] b-17        [003] d..2.  5401.025609: mm_page_free: ",
            "     Web Content-17    (   12) [003] d..2.  5401.025609: mm_page_free: ",
            "     Web Content-17    (-----) [003] d..2  5401.025609: mm_page_free: ",
            "bash 16983 [003]  5401.025609: kmem:mm_page_free: ",
            "Web Content 16983/16990 [003]  5401.025609000:  1  kmem:mm_page_free: ",
            ":-1    -1 [003]  5401.025609: kmem:mm_page_free: ",
        ] {
            assert_eq!(cpu_and_nanos(&format!("{prefix}{body}")), (3, 5_401_025_609_000));
        }
    }

    #[test]
    fn a_line_that_begins_as_a_recent_one_is_split_the_same() {
        let lines = [
            "            bash-15296   [003] .....  5401.025609: mm_page_free: page=x pfn=0x1 order=0",
            "   a [7] [x] b-17        [003] d..2.  5401.025609: mm_page_free: page=x pfn=0x1 order=0",
            "     Web Content-17    (   12) [003] d..2.  5401.025609: mm_page_free: page=x pfn=0x1",
            "Web Content 16983/16990 [003]  5401.025609000:  1  kmem:mm_page_free: page=x pfn=0x1",
        ];
        for line in lines {
            let line = line.as_bytes();
            for (at, byte) in (0..line.len()).flat_map(|at| b" [-:.03x".map(|byte| (at, byte))) {
                let mut recent = RecentTasks::default();
                super::parse(line, &mut recent).unwrap();
                let mut other = line.to_vec();
                other[at] = byte;
                let text = String::from_utf8_lossy(&other);
                assert_eq!(super::parse(&other, &mut recent), parse(&other), "{text}");
            }
        }
    }

    #[test]
    fn fractions_are_scaled_by_their_length() {
        for (text, expected) in [
            (&b"1.5:"[..], Some(1_500_000_000)),
            (b"0.000001:", Some(1_000)),
            (b"0.000000001:", Some(1)),
            (b"18446744073.709551615:", Some(u64::MAX)),
            (b"18446744073.709551616:", None),
            (b"99999999999999999999.0:", None),
            (b"1.:", None),
            (b".5:", None),
            (b"1.1234567890:", None),
            (b"12345:", None),
            (b"1.5", None),
            (b"-1.5:", None),
        ] {
            assert_eq!(nanos(text), expected, "{text:?}");
        }
    }

    #[test]
    fn errors_of_malformed_lines_name_the_part() {
        let cases = [
            ("hello world", "line"),
            ("", "line"),
            ("bash-1 000 d..2. 1.0: mm_page_free: pfn=1", "line"),
            ("bash-1 [000", "line"),
            ("bash-1 [4096] d..2. 1.0: mm_page_free: pfn=1", "CPU"),
            ("bash-1 [x] d..2. 1.0: mm_page_free: pfn=1", "CPU"),
            ("bash-1 [-1] d..2. 1.0: mm_page_free: pfn=1", "CPU"),
            ("bash-1 [000] d..2. yesterday: mm_page_free: pfn=1", "timestamp"),
            ("bash-1 [000] d..2. 1234567: mm_page_free: pfn=1", "timestamp"),
            ("bash-1 [000]", "timestamp"),
            ("bash-1 [000] d..2. 1.0: mm_page_free pfn=1", "event name"),
            ("bash-1 [000] d..2. 1.0:", "event name"),
        ];
        for (line, field) in cases {
            assert_eq!(parse(line.as_bytes()).expect_err(line).field, field, "{line}");
        }
    }
}
