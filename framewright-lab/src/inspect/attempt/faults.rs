//! The page faults of an attempt, one after the other until a bound or the limit.

use std::{fs, io, time::Instant};

use super::{AVAILABLE, End, MOST_RECLAIMED, Mode, area::Area};

/// Faults between two looks at the free memory.
const AT_ONCE: u64 = 8;
/// Faults without a further huge page after which the limit is found. After failures, the kernel leaves out compaction for
/// some requests: in one run 45 faults failed in a row, and the next 900 succeeded.
pub(super) const PATIENCE: u64 = 256;

/// The bounds of the faults.
pub(super) struct Until {
    /// Huge pages.
    pub(super) pages: u64,
    /// The time.
    pub(super) time: Instant,
    /// Bytes that stay free.
    pub(super) free: u64,
}

/// What the faults got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Got {
    /// Faults.
    pub(super) requested: u64,
    /// Huge pages.
    pub(super) allocated: u64,
    /// Frames that were reclaimed meanwhile.
    pub(super) reclaimed: u64,
    /// Frames that became free meanwhile: by reclaim, and because other programs freed more than they took.
    pub(super) freed: u64,
    /// The most huge pages without those that these frames have room for.
    pub(super) found: u64,
    /// The most huge pages without those that reclaim made room for.
    most: u64,
    /// The number of faults at the last increase of `most`.
    last: u64,
}

/// Touches huge pages of `area`, and repeats faults that failed. `huge` is the size of a huge page in bytes.
///
/// # Errors
///
/// A table in `/proc` cannot be read.
pub(super) fn run(area: &mut Area, mode: Mode, huge: u64, until: &Until) -> io::Result<(Got, End)> {
    let frames = huge >> 12;
    let (before, free) = (reclaimed()?, free_frames()?);
    let mut got = Got::default();
    loop {
        got.reclaimed = reclaimed()?.saturating_sub(before);
        got.freed = (free_frames()? + got.allocated * frames).saturating_sub(free);
        got.look(mode, frames);
        if let Some(end) = until.end(&got, &Memory::read()?, huge) {
            return Ok((got, end));
        }
        for _ in 0..AT_ONCE {
            if got.allocated < until.pages && Instant::now() < until.time {
                got.allocated += u64::from(area.touch(got.allocated as usize)?);
                got.requested += 1;
            }
        }
    }
}

impl Got {
    /// Updates the largest numbers. A huge page has `frames` frames. Without compaction, few of the freed frames help.
    fn look(&mut self, mode: Mode, frames: u64) {
        let without = |freed: u64| match mode {
            Mode::Without => self.allocated,
            Mode::With => self.allocated.saturating_sub(freed / frames),
        };
        // Memory that other programs free is no reason to end: the limit is not reached before it is taken, too.
        let (most, found) = (without(self.reclaimed), without(self.freed));
        self.found = self.found.max(found);
        if most > self.most {
            (self.most, self.last) = (most, self.requested);
        }
    }
}

impl Until {
    /// The end, if the attempt ends now.
    fn end(&self, got: &Got, memory: &Memory, huge: u64) -> Option<End> {
        let next = AT_ONCE * huge;
        if got.requested - got.last >= PATIENCE {
            Some(End::NoMore)
        } else if got.allocated >= self.pages {
            Some(End::Bytes)
        } else if Instant::now() >= self.time {
            Some(End::Time)
        } else if memory.free < self.free + next || memory.available < AVAILABLE + next {
            Some(End::Reserve)
        } else if got.reclaimed << 12 >= MOST_RECLAIMED {
            Some(End::Reclaimed)
        } else {
            None
        }
    }
}

/// The memory of the machine, in bytes.
pub(super) struct Memory {
    /// Free memory.
    pub(super) free: u64,
    /// What is free and what could be reclaimed, by the kernel's estimate.
    pub(super) available: u64,
}

impl Memory {
    /// Reads `/proc/meminfo`.
    pub(super) fn read() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/meminfo")?;
        let bytes = |name| number(&text, name).unwrap_or(0) << 10;
        Ok(Self { free: bytes("MemFree:"), available: bytes("MemAvailable:") })
    }
}

/// Free frames of the machine, those on CPU lists included.
fn free_frames() -> io::Result<u64> {
    Ok(free_frames_in(&fs::read_to_string("/proc/zoneinfo")?))
}

/// The same, from the text of `/proc/zoneinfo`.
fn free_frames_in(zoneinfo: &str) -> u64 {
    let counts = zoneinfo.lines().filter_map(|line| match line.trim_start().split_once(' ') {
        Some(("nr_free_pages" | "count:", frames)) => frames.trim().parse::<u64>().ok(),
        _ => None,
    });
    counts.sum()
}

/// Frames that were reclaimed since boot.
fn reclaimed() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let frames = |name| number(&text, name).unwrap_or(0);
    Ok(frames("pgsteal_direct") + frames("pgsteal_kswapd"))
}

/// The number behind a name at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let mut line = lines.find(|line| line.clone().next() == Some(name))?;
    line.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn memory_that_became_free_is_not_found() {
        let got = |requested, allocated, reclaimed, freed| {
            let mut got = Got {
                requested: 20,
                allocated: 12,
                found: 10,
                most: 11,
                last: 20,
                ..Got::default()
            };
            (got.requested, got.allocated) = (requested, allocated);
            (got.reclaimed, got.freed) = (reclaimed, freed);
            got
        };
        let look = |mut got: Got, mode| {
            got.look(mode, 512);
            (got.found, got.most, got.last)
        };
        assert_eq!(look(got(30, 14, 1024, 1536), Mode::With), (11, 12, 30));
        assert_eq!(look(got(30, 14, 512, 2048), Mode::With), (10, 13, 30), "others freed more");
        assert_eq!(look(got(30, 14, 2048, 2048), Mode::With), (10, 11, 20), "the most so far");
        assert_eq!(look(got(30, 14, 2048, 2048), Mode::Without), (14, 14, 30));
    }

    #[test]
    fn an_attempt_ends_at_the_first_bound() {
        let huge = 2 << 20;
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        let until = Until { pages: 100, time: now + hour, free: 1 << 30 };
        let memory = |free, available| Memory { free, available };
        let much = memory(8 << 30, 8 << 30);
        let got = Got { requested: 300, allocated: 60, last: 100, ..Got::default() };
        let end = |got: Got, memory: &Memory| until.end(&got, memory, huge);
        assert_eq!(end(got, &much), None);
        assert_eq!(end(Got { requested: 356, ..got }, &much), Some(End::NoMore));
        assert_eq!(end(Got { allocated: 100, ..got }, &much), Some(End::Bytes));
        assert_eq!(end(Got { reclaimed: 1 << 18, ..got }, &much), Some(End::Reclaimed));
        let next = AT_ONCE * huge;
        assert_eq!(end(got, &memory((1 << 30) + next - 1, 8 << 30)), Some(End::Reserve));
        assert_eq!(end(got, &memory((1 << 30) + next, 8 << 30)), None);
        assert_eq!(end(got, &memory(8 << 30, AVAILABLE + next - 1)), Some(End::Reserve));
        let over = Until { time: now, ..until };
        assert_eq!(over.end(&got, &much, huge), Some(End::Time));
    }

    #[test]
    fn frames_on_cpu_lists_are_free() {
        let text = "Node 0, zone Normal\n  pages free     7\n      nr_free_pages 7\n  pagesets\n    cpu: 0\n              \
                    count:    5\n              high:     9\n      nr_free_pages_blocks 3\n    cpu: 1\n      count: x\n";
        assert_eq!(free_frames_in(text), 12);
        let now = free_frames();
        assert!(cfg!(not(target_os = "linux")) || now.unwrap() > 0);
    }

    #[test]
    fn numbers_are_found_by_whole_names() {
        let text = "MemFreeX: 1 kB\nMemFree:    7 kB\npgsteal_direct 9\n";
        assert_eq!((number(text, "MemFree:"), number(text, "pgsteal_direct")), (Some(7), Some(9)));
        assert_eq!((number(text, "pgsteal"), number("MemFree:", "MemFree:")), (None, None));
    }
}
