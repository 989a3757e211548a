//! Really allocates huge pages for a moment, and counts them: the test of the prediction.
//!
//! The memory is an anonymous mapping with the advice `MADV_HUGEPAGE`, touched once for each huge page.
//! The setting `defrag` of transparent huge pages decides whether such a fault may wait for compaction and
//! reclaim (`madvise`) or takes only what is free (`never`). It is changed for the moment, which needs root,
//! and restored in any case.
//!
//! A fault that got no huge page is repeated, because the next one continues the compaction. The limit is found
//! when 256 faults have brought no further huge page. Faults that wait also reclaim, without end if there is a
//! large page cache, and other programs free memory meanwhile. So a huge page is subtracted for each 2 MiB that became
//! free since the start.
//!
//! The attempt is bounded. Above the watermarks *high* of all zones, [`RESERVE`] stays free. [`AVAILABLE`] stays available,
//! free or reclaimable. The attempt ends at [`MOST_RECLAIMED`], at the end of the time and at
//! the given number of bytes. Meanwhile the process is the OOM killer's first choice.

mod area;
mod faults;

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use area::Area;
use faults::{Counts, FRAME, Memory, Until};

use super::{Counter, HugePages, Look, Source, counters};
use crate::{
    report::several,
    setting::{Setting, present},
    trace::Snapshot,
};

/// Free memory that stays untouched, in bytes, besides the watermarks.
const RESERVE: u64 = 128 << 20;
/// Available memory that stays untouched, in bytes: free memory, and the kernel's estimate of reclaimable memory.
const AVAILABLE: u64 = 512 << 20;
/// The most memory that is reclaimed, in bytes, also for other programs.
const MOST_RECLAIMED: u64 = 1 << 30;
/// The folder of the settings of transparent huge pages.
const THP: &str = "/sys/kernel/mm/transparent_hugepage";
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

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The limit is found: no further huge page came.
    NoMore,
    /// The memory of [`Bounds`] is taken.
    Bytes,
    /// The time of [`Bounds`] is over.
    Time,
    /// The memory that stays free or available is reached.
    Reserve,
    /// The most memory is reclaimed.
    Reclaimed,
}

/// An attempt that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Whether page faults were allowed to compact memory.
    pub mode: Mode,
    /// The prediction, from tables that were read just before.
    pub predicted: HugePages,
    /// Page faults, each of which requested a huge page.
    pub requested: u64,
    /// Huge pages that the kernel allocated.
    pub allocated: u64,
    /// Frames that became free meanwhile: by reclaim, and because other programs freed more than they took.
    pub freed: u64,
    /// Frames that were reclaimed meanwhile, also for other programs.
    pub reclaimed: u64,
    /// The most huge pages that were allocated at a time; with compaction, without those that the freed frames have room for.
    pub found: u64,
    /// The end of the attempt.
    pub end: End,
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
        let pages = bounds.bytes.min(before.tables.managed() * FRAME) / huge;
        let fail =
            |error: io::Error| format!("cannot allocate {}: {error}", several(pages, "huge page"));
        let free = least_free(&before.tables, &Memory::read().map_err(fail)?, huge)?;
        let mut area = Area::new(pages as usize, huge as usize).map_err(fail)?;
        let _victim = OomVictim::new();
        let begun = Instant::now();
        let until = Until { pages, time: begun + bounds.time, free };
        let (counts, end) = faults::run(&mut area, mode, huge, &until).map_err(fail)?;
        let time = begun.elapsed();
        let allocated = area.count().map_err(fail)?;
        drop(area);
        let Counts { requested, freed, reclaimed, found, .. } = counts;
        let counted = increase(&counters(&before.tables), counters(&look()?.tables));
        Ok(Self {
            mode,
            predicted,
            requested,
            allocated,
            freed,
            reclaimed,
            found,
            end,
            time,
            counted,
        })
    }

    /// The predicted number of huge pages: the least and the most.
    #[must_use]
    pub fn expected(&self) -> [u64; 2] {
        match self.mode {
            Mode::Without => [self.predicted.without(); 2],
            Mode::With => self.predicted.with(),
        }
    }
}

/// Bytes that stay free: those below the watermarks, and the reserve.
fn least_free(tables: &Snapshot, memory: &Memory, huge: u64) -> Result<u64, Refusal> {
    let high = tables.zones.iter().map(|zone| zone.high.saturating_add(zone.boost));
    let high = high.fold(0, u64::saturating_add).saturating_mul(FRAME);
    for (what, bytes, kept) in [
        ("free above the watermarks", memory.free.saturating_sub(high), RESERVE),
        ("available", memory.available, AVAILABLE),
    ] {
        if bytes < kept + huge {
            let [bytes, kept, huge] = [bytes, kept, huge].map(|bytes| bytes >> 20);
            return Err(format!(
                "{bytes} MiB are {what}, and {kept} MiB of them stay so: there is no memory for a huge page of {huge} MiB"
            ));
        }
    }
    Ok(high + RESERVE)
}

fn look() -> Result<Look, Refusal> {
    Source::Running.read_with_pages().map_err(|error| error.to_string())
}

/// Makes this process the OOM killer's first choice, until it is dropped.
struct OomVictim(Option<String>);

impl OomVictim {
    const FILE: &str = "/proc/self/oom_score_adj";

    fn new() -> Self {
        // Without the file there is no such choice.
        let before = fs::read_to_string(Self::FILE).ok();
        Self(before.filter(|_| fs::write(Self::FILE, "1000").is_ok()))
    }
}

impl Drop for OomVictim {
    fn drop(&mut self) {
        // The old value may be lower than an unprivileged process may set. Then the process remains the first.
        let _ = self.0.take().map(|before| fs::write(Self::FILE, before.trim()));
    }
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
