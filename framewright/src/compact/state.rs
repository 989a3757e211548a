//! What a zone remembers of compaction: hints all of it, read and written without a lock.

use super::{cursor::SearchCursor, deferral::Deferral, skip::SkipHints};
use crate::{
    observe::CompactCounters,
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// See the module.
pub(crate) struct ZoneCompaction<'m> {
    /// Which pageblocks are not worth looking at for now.
    pub(super) skip: SkipHints<'m>,
    pub(super) deferral: Deferral,
    /// The same of the background, by index.
    pub(super) background: Deferral,
    /// The same of what is kept ready for huge pages: a request still tries what that did not achieve.
    pub(super) huge_reserve: Deferral,
    pub(super) positions: Positions,
    /// Scanners met on behalf of a request: hints are to be dropped when there is time.
    pub(super) flush_hints: AtomicBool,
    /// How far the index has come in its search.
    pub(super) cursor: SearchCursor,
    /// The same on the way to runs of pageblocks.
    pub(super) runs: SearchCursor,
    pub(crate) counters: CompactCounters,
}

/// Where the scanners go on: numbers of frames of the zone.
pub(super) struct Positions {
    /// Of the migrate scanner, where nothing is waited for.
    migrate_async: AtomicU32,
    /// The same in the other modes.
    migrate_sync: AtomicU32,
    free: AtomicU32,
    /// Where a reset has put them; a run from here is one over the whole zone.
    start: AtomicU32,
    end: AtomicU32,
}

impl<'m> ZoneCompaction<'m> {
    /// Of a zone of `frames` frames, holes included; `skip` has a bit for each pageblock.
    pub(crate) fn new(frames: u32, skip: &'m [AtomicU64]) -> Self {
        Self {
            skip: SkipHints::new(skip),
            deferral: Deferral::new(),
            background: Deferral::new(),
            huge_reserve: Deferral::new(),
            positions: Positions::new(frames),
            flush_hints: AtomicBool::new(false),
            cursor: SearchCursor::new(),
            runs: SearchCursor::new(),
            counters: CompactCounters::new(),
        }
    }
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

    /// Where the migrate scanner goes on; in asynchronous mode or the others.
    pub(super) fn migrate(&self, is_async: bool) -> u32 {
        let word = if is_async { &self.migrate_async } else { &self.migrate_sync };
        word.load(Ordering::Relaxed)
    }

    /// Where the free scanner goes on: it looks below.
    pub(super) fn free(&self) -> u32 {
        self.free.load(Ordering::Relaxed)
    }

    /// The migrate scanner has come to `at`; `sync` says whether that holds for all modes.
    pub(super) fn advance_migrate(&self, at: u32, sync: bool) {
        raise(&self.migrate_async, at);
        if sync {
            raise(&self.migrate_sync, at);
        }
    }

    /// The free scanner has come down to `at`.
    pub(super) fn lower_free(&self, at: u32) {
        if at < self.free() {
            self.free.store(at, Ordering::Relaxed);
        }
    }

    /// Frames were given back above: the free scanner begins at `at` again.
    pub(super) fn raise_free(&self, at: u32) {
        raise(&self.free, at);
    }

    /// From the ends of what is between `start` and `end` again.
    pub(super) fn reset(&self, start: u32, end: u32) {
        self.migrate_async.store(start, Ordering::Relaxed);
        self.migrate_sync.store(start, Ordering::Relaxed);
        self.free.store(end, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// Where the migrate scanner began after the last reset.
    pub(super) fn start(&self) -> u32 {
        self.start.load(Ordering::Relaxed)
    }
}

fn raise(word: &AtomicU32, at: u32) {
    if at > word.load(Ordering::Relaxed) {
        word.store(at, Ordering::Relaxed);
    }
}
