//! Really allocates huge pages for a moment, and counts them: the test of the prediction.
//!
//! The memory is an anonymous mapping with the advice `MADV_HUGEPAGE`, touched once for each huge page.
//! The setting `defrag` of transparent huge pages decides whether such a fault may wait for compaction and
//! reclaim (`madvise`) or takes only what is free (`never`). It is changed for the moment, which needs root,
//! and restored in any case.
//!
//! The attempt is bounded. It takes at most the memory that is free above the watermarks *high* of all zones,
//! minus [`RESERVE`]. It ends earlier if the free memory of the machine comes near [`RESERVE`], or if the
//! time is over.

mod area;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use area::Area;

use super::{Counter, HugePages, Look, Source, counters};
use crate::{
    setting::{Setting, present},
    trace::Snapshot,
};

/// Free memory that stays untouched, in bytes, besides the watermarks.
const RESERVE: u64 = 512 << 20;
/// The folder of the settings of transparent huge pages.
const THP: &str = "/sys/kernel/mm/transparent_hugepage";
/// Huge pages between two looks at the free memory.
const AT_ONCE: usize = 32;

/// The reason why huge pages are not allocated.
pub type Refusal = String;

/// The bounds of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most memory, in bytes.
    pub bytes: u64,
    /// The most time.
    pub time: Duration,
}

/// Whether page faults may compact memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Take free huge pages.
    Without,
    /// Also wait for compaction and reclaim.
    With,
}

/// Both modes, in the order in which they are tried: compaction changes what is free.
pub const MODES: [Mode; 2] = [Mode::Without, Mode::With];

/// An attempt that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Whether page faults were allowed to compact memory.
    pub mode: Mode,
    /// The prediction, from tables that were read just before.
    pub predicted: HugePages,
    /// The most that the bounds allowed, in huge pages.
    pub allowed: u64,
    /// Page faults, each of which requested a huge page.
    pub requested: u64,
    /// Huge pages that the kernel allocated.
    pub allocated: u64,
    /// The time of all faults.
    pub time: Duration,
    /// The increase of the kernel's counters meanwhile; work for other programs is included.
    pub counted: Vec<Counter>,
}

impl Attempt {
    /// Allocates huge pages within `bounds`, counts them, and frees them.
    ///
    /// # Errors
    ///
    /// A reason: huge pages are switched off, too little memory is free, or the setting cannot be changed.
    pub fn make(mode: Mode, bounds: Bounds) -> Result<Self, Refusal> {
        let _setting = HugePageSetting::read()?.change_to(mode)?;
        let before = look()?;
        let predicted = HugePages::predict(&before);
        let huge = predicted.bytes();
        let allowed = allowed(&before, bounds.bytes, huge)?;
        let fail =
            |error: &dyn std::fmt::Display| format!("cannot map {allowed} huge pages: {error}");
        let mut area = Area::new(allowed as usize, huge as usize).map_err(|error| fail(&error))?;
        let begun = Instant::now();
        let requested = touch(&mut area, allowed as usize, begun + bounds.time, huge);
        let time = begun.elapsed();
        let allocated = area.count().map_err(|error| fail(&error))?;
        drop(area);
        let counted = increase(&counters(&before), counters(&look()?));
        let requested = requested as u64;
        Ok(Self { mode, predicted, allowed, requested, allocated, time, counted })
    }

    /// The predicted number of huge pages: the least and the most.
    #[must_use]
    pub fn possible(&self) -> [u64; 2] {
        match self.mode {
            Mode::Without => [self.predicted.without(); 2],
            Mode::With => self.predicted.with(),
        }
    }

    /// As [`possible`](Self::possible), for this attempt: it allocates no more than it requests.
    #[must_use]
    pub fn expected(&self) -> [u64; 2] {
        self.possible().map(|pages| pages.min(self.requested))
    }
}

/// Touches huge pages until the end of the area, the time or the free memory. Returns their number.
fn touch(area: &mut Area, pages: usize, end: Instant, huge: u64) -> usize {
    for page in 0..pages {
        let is_short = || free_memory().is_some_and(|free| free < RESERVE + AT_ONCE as u64 * huge);
        if Instant::now() >= end || (page.is_multiple_of(AT_ONCE) && is_short()) {
            return page;
        }
        area.touch(page);
    }
    pages
}

/// Huge pages that fit into `most` bytes, and into the free memory above the watermarks minus the reserve.
fn allowed(tables: &Snapshot, most: u64, huge: u64) -> Result<u64, Refusal> {
    let above = |zone: &crate::trace::snapshot::Zone| {
        zone.free.saturating_sub(zone.high.saturating_add(zone.boost))
    };
    let above: u64 = tables.zones.iter().map(above).sum::<u64>() * 4096;
    match most.min(above.saturating_sub(RESERVE)) / huge {
        0 => Err(format!(
            "{} MiB are free above the watermarks, and {} MiB of them stay free: there is no memory for a huge page of \
             {} MiB",
            above >> 20,
            RESERVE >> 20,
            huge >> 20
        )),
        pages => Ok(pages),
    }
}

fn look() -> Result<Snapshot, Refusal> {
    match Source::Running.read() {
        Ok(Look { tables, .. }) => Ok(tables),
        Err(error) => Err(error.to_string()),
    }
}

/// Free memory of the machine, in bytes.
fn free_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// The increase of counters that grew.
fn increase(before: &[Counter], after: Vec<Counter>) -> Vec<Counter> {
    let increase = |mut counter: Counter| {
        let old = before.iter().find(|old| old.name == counter.name)?;
        counter.value = counter.value.checked_sub(old.value).filter(|&more| more > 0)?;
        Some(counter)
    };
    after.into_iter().filter_map(increase).collect()
}

/// The settings of transparent huge pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugePageSetting {
    /// The memory in which page faults allocate huge pages: `always`, `madvise` or `never`.
    pub enabled: String,
    /// The work that a fault may do: `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub defrag: String,
}

impl HugePageSetting {
    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// A reason: the kernel has no transparent huge pages.
    pub fn read() -> Result<Self, Refusal> {
        let read = |name: &str| {
            let path = Path::new(THP).join(name);
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, Refusal>(present(&text).to_owned())
        };
        Ok(Self { enabled: read("enabled")?, defrag: read("defrag")? })
    }

    /// Whether page faults in memory with `MADV_HUGEPAGE` may compact memory, by the setting `defrag`.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.defrag.as_str() {
            "always" | "madvise" | "defer+madvise" => Mode::With,
            _ => Mode::Without,
        }
    }

    /// Changes `defrag` for a mode, if it is for the other one.
    fn change_to(&self, mode: Mode) -> Result<Option<Setting>, Refusal> {
        if self.enabled == "never" {
            return Err(format!("huge pages are switched off: {THP}/enabled is `never`"));
        }
        if self.mode() == mode {
            return Ok(None);
        }
        let value = match mode {
            Mode::Without => "never",
            Mode::With => "madvise",
        };
        let file = Path::new(THP).join("defrag");
        let changed = Setting::change(&file, value);
        changed
            .map(Some)
            .map_err(|error| format!("{error}; only root can set it to `{value}` for a moment"))
    }
}

#[cfg(test)]
mod tests;
