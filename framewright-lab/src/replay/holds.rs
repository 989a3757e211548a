//! The holds of zone locks by a replay: counts and instructions for each zone and, for a trace, single holds.
//!
//! There is one thread, so counters are loaded and stored instead of added to.

use framewright::ZoneId;
use serde::Serialize;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// The use of the lock of a zone in a replay, which has no waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnLock {
    /// Holds.
    pub holds: u64,
    /// Nanoseconds of all holds, modelled: instructions of the library on the common machine.
    pub hold_nanos: u64,
}

/// Holds of zone locks.
#[derive(Debug)]
pub(super) struct Holds {
    /// The index in `zones` of the zone whose lock is held; [`NONE`] if none is, or if its work does not count.
    held: AtomicUsize,
    /// The number of holds that have begun, counted or not.
    begun: AtomicU64,
    /// Whether work does not count now, because the recorded machine had none of it.
    is_paused: AtomicBool,
    /// By number of the zone.
    zones: Box<[Counted]>,
    log: Log,
}

/// No zone.
const NONE: usize = usize::MAX;

/// The log of single holds.
#[derive(Debug, Default)]
struct Log {
    is_on: AtomicBool,
    /// The counts of the zone at the start of the hold.
    start: Counted,
    holds: Mutex<Vec<(ZoneId, u64)>>,
}

/// The holds of a zone, and tenths of instructions under its lock.
#[derive(Debug, Default)]
struct Counted {
    /// All holds, counted or not.
    begun: AtomicU64,
    holds: AtomicU64,
    tenths: AtomicU64,
}

impl Counted {
    fn read(&self) -> (u64, u64) {
        (self.holds.load(Relaxed), self.tenths.load(Relaxed))
    }
}

/// The maximum number of zones whose locks are counted.
const ZONES: usize = 1024;

impl Default for Holds {
    fn default() -> Self {
        let zones = (0..ZONES).map(|_| Counted::default()).collect();
        let (held, is_paused) = (AtomicUsize::new(NONE), AtomicBool::new(false));
        Self { held, begun: AtomicU64::new(0), is_paused, zones, log: Log::default() }
    }
}

impl Holds {
    /// The zone whose lock is held, if its holds are logged.
    fn logged(&self) -> Option<&Counted> {
        if !self.log.is_on.load(Relaxed) {
            return None;
        }
        self.zones.get(self.held.load(Relaxed))
    }

    /// A hold of the lock of `zone` begins.
    #[inline]
    pub(super) fn begin(&self, zone: ZoneId) {
        add(&self.begun, 1);
        if let Some(zone) = self.zones.get(zone.index()) {
            add(&zone.begun, 1);
        }
        if self.is_paused.load(Relaxed) {
            return;
        }
        self.held.store(zone.index(), Relaxed);
        if let Some(zone) = self.logged() {
            let (holds, tenths) = zone.read();
            self.log.start.holds.store(holds, Relaxed);
            self.log.start.tenths.store(tenths, Relaxed);
        }
    }

    /// The hold of the lock of `zone` ends. It is logged if it counted.
    #[inline]
    pub(super) fn end(&self, zone: ZoneId) {
        if let Some(counted) = self.logged() {
            let ((before, start), (after, end)) = (self.log.start.read(), counted.read());
            if after > before {
                let mut holds = self.log.holds.lock().unwrap_or_else(PoisonError::into_inner);
                holds.push((zone, end - start));
            }
        }
        self.held.store(NONE, Relaxed);
    }

    /// Adds work under the lock that is held, if it counts: `tenths` of instructions, and whether it is that of a hold
    /// itself.
    #[inline]
    pub(super) fn add(&self, tenths: impl FnOnce() -> u64, is_hold: bool) {
        if let Some(zone) = self.zones.get(self.held.load(Relaxed)) {
            add(&zone.tenths, tenths());
            add(&zone.holds, u64::from(is_hold));
        }
    }

    /// The number of holds that have begun, counted or not.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// The number of holds of the lock of a zone that have begun, counted or not; `None` if they are not counted.
    pub(super) fn begun_of(&self, zone: ZoneId) -> Option<u64> {
        self.zones.get(zone.index()).map(|zone| zone.begun.load(Relaxed))
    }

    /// Holds of the lock of a zone so far, and tenths of instructions under it.
    pub(super) fn of(&self, zone: ZoneId) -> (u64, u64) {
        self.zones.get(zone.index()).map_or((0, 0), Counted::read)
    }

    /// Runs `body` without counting its holds.
    pub(super) fn uncounted<R>(&self, body: impl FnOnce() -> R) -> R {
        self.is_paused.store(true, Relaxed);
        let result = body();
        self.is_paused.store(false, Relaxed);
        result
    }

    /// Logs single holds from now on, or does not.
    pub(super) fn log(&self, is_on: bool) {
        self.log.is_on.store(is_on, Relaxed);
    }

    /// Removes and returns the logged holds: zones, and tenths of instructions.
    pub(super) fn take(&self) -> Vec<(ZoneId, u64)> {
        std::mem::take(&mut *self.log.holds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[inline]
fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Relaxed) + number, Relaxed);
}
