//! State of the scanners per zone: hints only, read and written without a lock.

use crate::{
    sync::{AtomicBool, AtomicU32, Ordering},
    types::PAGEBLOCK_FRAMES,
};

/// Frames in a pageblock, in the type of the positions.
pub(super) const FRAMES: u32 = PAGEBLOCK_FRAMES as u32;

/// State of the scanners of a zone between runs.
pub(in crate::compact) struct ScanState {
    pub(super) positions: Positions,
    /// Whether scanners met in a run for a request, so that hints are reset when background reclaim
    /// goes to sleep.
    pub(super) flush_hints: AtomicBool,
}

impl ScanState {
    /// The state for a zone of `frames` frames, holes included.
    pub(in crate::compact) fn new(frames: u32) -> Self {
        Self { positions: Positions::new(frames), flush_hints: AtomicBool::new(false) }
    }

    /// Records that a request has got its block: hints need not be reset.
    pub(in crate::compact) fn keep_hints(&self) {
        self.flush_hints.store(false, Ordering::Relaxed);
    }
}

/// Positions of the scanners, as frames of the zone.
pub(super) struct Positions {
    /// The position of the migrate scanner in asynchronous mode.
    migrate_async: AtomicU32,
    /// The position of the migrate scanner in the other modes.
    migrate_sync: AtomicU32,
    free: AtomicU32,
    /// The position after the last reset; a run that starts here covers the whole zone.
    start: AtomicU32,
    end: AtomicU32,
}

impl Positions {
    fn new(frames: u32) -> Self {
        let word = AtomicU32::new;
        Self {
            migrate_async: word(0),
            migrate_sync: word(0),
            free: word(frames),
            start: word(0),
            end: word(frames),
        }
    }

    /// Position of the migrate scanner in asynchronous mode, or in the others.
    pub(super) fn migrate(&self, is_async: bool) -> u32 {
        let word = if is_async { &self.migrate_async } else { &self.migrate_sync };
        word.load(Ordering::Relaxed)
    }

    /// Position of the free scanner. It next examines the frames below this position.
    pub(super) fn free(&self) -> u32 {
        self.free.load(Ordering::Relaxed)
    }

    /// Records that the migrate scanner has reached `at` in asynchronous mode and, with `sync`, in
    /// the other modes.
    pub(super) fn advance_migrate(&self, at: u32, sync: bool) {
        raise(&self.migrate_async, at);
        if sync {
            raise(&self.migrate_sync, at);
        }
    }

    /// Records that the free scanner has reached `at`.
    pub(super) fn lower_free(&self, at: u32) {
        if at < self.free() {
            self.free.store(at, Ordering::Relaxed);
        }
    }

    /// Records that frames up to `at` were returned: the free scanner starts there again.
    pub(super) fn raise_free(&self, at: u32) {
        raise(&self.free, at);
    }

    /// Places the scanners at the ends of the range from `start` to `end`.
    pub(super) fn reset(&self, start: u32, end: u32) {
        self.migrate_async.store(start, Ordering::Relaxed);
        self.migrate_sync.store(start, Ordering::Relaxed);
        self.free.store(end, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// Position of the migrate scanner after the last reset.
    pub(super) fn start(&self) -> u32 {
        self.start.load(Ordering::Relaxed)
    }
}

fn raise(word: &AtomicU32, at: u32) {
    if at > word.load(Ordering::Relaxed) {
        word.store(at, Ordering::Relaxed);
    }
}
