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
use super::number;

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

/// Splits a line.
#[inline]
pub(super) fn parse(line: &[u8]) -> Result<Line<'_>, LineProblem> {
    let head = &line[..line.len().min(HEAD)];
    let mut from = 0;
    let mut first_problem = None;
    while let Some(at) = number::position(b'[', &head[from..]) {
        let bracket = from + at;
        if is_task(&line[..bracket]) {
            match after_bracket(&line[bracket + 1..]) {
                Ok(parsed) => return Ok(Line { task: &line[..bracket], ..parsed }),
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
    let cpu = number::cpu(&text[..end])?;
    let (mut word, mut rest) = next_word(&text[end + 1..]);
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
    let text = text.trim_ascii_start();
    let (word, rest) = text.split_at(number::word(text));
    (word, rest.trim_ascii_start())
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
    let usual = word.len().checked_sub(7).filter(|&at| word[at] == b'.');
    let dot = usual.or_else(|| word.iter().position(|&byte| byte == b'.'))?;
    let (seconds, fraction) = (&word[..dot], &word[dot + 1..]);
    let missing = 9usize.checked_sub(fraction.len())?;
    let fraction = number::decimal(fraction)? * POWERS_OF_TEN[missing];
    number::decimal(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction)
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
