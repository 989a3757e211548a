//! The page faults of an attempt, one after the other until a bound or the limit.

use std::{fs, io, time::Instant};

use framewright::frame::FRAME_SIZE;
use framewright_host::available_memory;

use super::{AVAILABLE, End, MOST_RECLAIMED, Mode, area::Area};
use crate::trace::Snapshot;

/// Bytes of a frame.
pub(super) const FRAME: u64 = FRAME_SIZE as u64;

/// Faults between two looks at the free memory.
const AT_ONCE: u64 = 8;
/// Faults without a further huge page after which the limit is found. After failures, the kernel leaves out compaction for
/// some requests: in one run 45 faults failed in a row, and the next 900 succeeded.
pub(super) const MOST_FAILURES: u64 = 256;

/// The bounds of the faults.
pub(super) struct Until {
    /// Huge pages.
    pub(super) pages: u64,
    /// The time.
    pub(super) time: Instant,
    /// Bytes that stay free.
    pub(super) free: u64,
}

/// The page faults so far, and the memory that was freed meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Page faults.
    pub(super) requested: u64,
    /// Huge pages.
    pub(super) allocated: u64,
    /// Frames that were reclaimed meanwhile.
    pub(super) reclaimed: u64,
    /// Frames that became free meanwhile: by reclaim, and because other programs freed more than they took.
    pub(super) freed: u64,
    /// The largest `allocated`, without huge pages that the `freed` frames have room for.
    pub(super) found: u64,
    /// The largest `allocated`, without huge pages that the `reclaimed` frames have room for.
    most: u64,
    /// The number of page faults at the last increase of `most`.
    last: u64,
}

/// Touches huge pages of `area`, and repeats faults that failed. `huge` is the size of a huge page in bytes.
///
/// # Errors
///
/// A table in `/proc` cannot be read.
pub(super) fn run(
    area: &mut Area,
    mode: Mode,
    huge: u64,
    until: &Until,
) -> io::Result<(Counts, End)> {
    let frames = huge / FRAME;
    let before = Memory::read()?;
    let mut counts = Counts::default();
    loop {
        let memory = Memory::read()?;
        counts.reclaimed = memory.reclaimed.saturating_sub(before.reclaimed);
        let not_in_use = memory.not_in_use + counts.allocated * frames;
        counts.freed = not_in_use.saturating_sub(before.not_in_use);
        counts.update(mode, frames);
        if let Some(end) = until.end(&counts, &memory, huge) {
            return Ok((counts, end));
        }
        for _ in 0..AT_ONCE {
            if counts.allocated < until.pages && Instant::now() < until.time {
                counts.allocated += u64::from(area.touch(counts.allocated as usize)?);
                counts.requested += 1;
            }
        }
    }
}

impl Counts {
    /// Updates the largest numbers. A huge page has `frames` frames. Without compaction, few of the freed frames help.
    fn update(&mut self, mode: Mode, frames: u64) {
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
    fn end(&self, counts: &Counts, memory: &Memory, huge: u64) -> Option<End> {
        let next = AT_ONCE * huge;
        if counts.requested - counts.last >= MOST_FAILURES {
            Some(End::NoMore)
        } else if counts.allocated >= self.pages {
            Some(End::Bytes)
        } else if Instant::now() >= self.time {
            Some(End::Time)
        } else if memory.free < self.free + next || memory.available < AVAILABLE + next {
            Some(End::Reserve)
        } else if counts.reclaimed * FRAME >= MOST_RECLAIMED {
            Some(End::Reclaimed)
        } else {
            None
        }
    }
}

/// The memory of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Free memory in bytes, without CPU lists.
    pub(super) free: u64,
    /// Available memory in bytes: free memory, and the kernel's estimate of reclaimable memory (`MemAvailable`).
    pub(super) available: u64,
    /// Frames that are free or on CPU lists.
    pub(super) not_in_use: u64,
    /// Frames that were reclaimed since boot.
    pub(super) reclaimed: u64,
}

impl Memory {
    /// Reads the tables of this machine.
    pub(super) fn read() -> io::Result<Self> {
        let table = |name| {
            let path = format!("/proc/{name}");
            fs::read(&path).map(|text| (name, path, text))
        };
        let tables = Snapshot::of_tables(&[table("zoneinfo")?, table("vmstat")?]);
        let available = available_memory().unwrap_or(0);
        Ok(Self { available, ..Self::of(&tables.map_err(io::Error::other)?) })
    }

    /// The memory according to zoneinfo and vmstat, without `available`.
    fn of(tables: &Snapshot) -> Self {
        let frames = |name| tables.vmstat.get(name).copied().unwrap_or(0);
        Self {
            free: tables.free() * FRAME,
            available: 0,
            not_in_use: tables.free() + tables.held_by_cpus(),
            reclaimed: frames("pgsteal_direct") + frames("pgsteal_kswapd"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn memory_that_became_free_is_not_found() {
        let counts = |requested, allocated, reclaimed, freed| {
            let mut counts = Counts {
                requested: 20,
                allocated: 12,
                found: 10,
                most: 11,
                last: 20,
                ..Counts::default()
            };
            (counts.requested, counts.allocated) = (requested, allocated);
            (counts.reclaimed, counts.freed) = (reclaimed, freed);
            counts
        };
        let updated = |mut counts: Counts, mode| {
            counts.update(mode, 512);
            (counts.found, counts.most, counts.last)
        };
        assert_eq!(updated(counts(30, 14, 1024, 1536), Mode::With), (11, 12, 30));
        assert_eq!(
            updated(counts(30, 14, 512, 2048), Mode::With),
            (10, 13, 30),
            "others freed more"
        );
        assert_eq!(
            updated(counts(30, 14, 2048, 2048), Mode::With),
            (10, 11, 20),
            "the most so far"
        );
        assert_eq!(updated(counts(30, 14, 2048, 2048), Mode::Without), (14, 14, 30));
    }

    #[test]
    fn an_attempt_ends_at_the_first_bound() {
        let huge = 2 << 20;
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        let until = Until { pages: 100, time: now + hour, free: 1 << 30 };
        let memory = |free, available| Memory { free, available, ..Memory::default() };
        let much = memory(8 << 30, 8 << 30);
        let counts = Counts { requested: 300, allocated: 60, last: 100, ..Counts::default() };
        let end = |counts: Counts, memory: &Memory| until.end(&counts, memory, huge);
        assert_eq!(end(counts, &much), None);
        assert_eq!(end(Counts { requested: 356, ..counts }, &much), Some(End::NoMore));
        assert_eq!(end(Counts { allocated: 100, ..counts }, &much), Some(End::Bytes));
        assert_eq!(end(Counts { reclaimed: 1 << 18, ..counts }, &much), Some(End::Reclaimed));
        let next = AT_ONCE * huge;
        assert_eq!(end(counts, &memory((1 << 30) + next - 1, 8 << 30)), Some(End::Reserve));
        assert_eq!(end(counts, &memory((1 << 30) + next, 8 << 30)), None);
        assert_eq!(end(counts, &memory(8 << 30, AVAILABLE + next - 1)), Some(End::Reserve));
        let over = Until { time: now, ..until };
        assert_eq!(over.end(&counts, &much, huge), Some(End::Time));
    }

    #[test]
    fn frames_on_cpu_lists_are_not_in_use() {
        let zoneinfo = "Node 0, zone Normal\n  pages free     7\n        managed 90\n  pagesets\n    cpu: 0\n              \
                        count:    5\n              high:     9\n";
        let vmstat = "pgsteal_direct 9\npgsteal_kswapd 2\npgsteal_khugepaged 1\n";
        let table = |name, text: &str| (name, String::from(name), text.as_bytes().to_vec());
        let tables = [table("zoneinfo", zoneinfo), table("vmstat", vmstat)];
        let expected = Memory { free: 7 * FRAME, available: 0, not_in_use: 12, reclaimed: 11 };
        assert_eq!(Memory::of(&Snapshot::of_tables(&tables).unwrap()), expected);
        let now = Memory::read();
        assert!(cfg!(not(target_os = "linux")) || now.unwrap().not_in_use > 0);
    }
}
