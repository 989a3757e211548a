//! Batches of one CPU: moves that wait until there are enough of them to take the LRU lock once.
//!
//! Adding pages one by one would cost that lock per page, and it is the most contended of a node
//! that reads much. A page in a batch is on no list yet, or still on its old one.

use super::kept::Kept;
use crate::{
    platform::{CpuId, Platform, Section},
    sync::SpinLock,
};

/// What is to be done with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    /// It comes to the list that its flags say.
    Add,
    /// To the active list.
    Activate,
    /// To the inactive list.
    Deactivate,
    /// To where it is reclaimed next.
    Rotate,
}

/// Moves that a batch can hold.
pub(super) const CAPACITY: usize = 255;

/// A move of a page.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) slot: u32,
    pub(super) to: Move,
}

/// Moves, first come first.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    entries: [Entry; CAPACITY],
    len: u8,
}

impl Batch {
    fn new() -> Self {
        Self { entries: [Entry { slot: 0, to: Move::Add }; CAPACITY], len: 0 }
    }

    /// Adds a move; says whether there are `limit` of them now, or no room is left: then all have to be
    /// taken out.
    pub(super) fn push(&mut self, entry: Entry, limit: usize) -> bool {
        self.entries[usize::from(self.len)] = entry;
        self.len += 1;
        usize::from(self.len) >= limit.min(CAPACITY)
    }

    /// Takes all out.
    pub(super) fn take(&mut self) -> Self {
        let all = *self;
        self.len = 0;
        all
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.len)]
    }
}

/// What waits on a CPU: moves, and frames that reclaim keeps for it.
struct Waiting {
    moves: Batch,
    kept: Kept,
}

/// The batch of a CPU. Its lock is next to never contended: others come only to drain it.
pub(crate) struct CpuBatch<P: Platform>(SpinLock<P, Waiting>);

impl<P: Platform> CpuBatch<P> {
    pub(crate) fn new(cpu: CpuId) -> Self {
        Self(SpinLock::new(
            Section::LruBatch(cpu),
            Waiting { moves: Batch::new(), kept: Kept::new() },
        ))
    }

    /// Adds a move; if there are `limit` of them now, or no room is left, all are taken out.
    pub(super) fn push(&self, platform: &P, entry: Entry, limit: usize) -> Option<Batch> {
        // Written to when they are taken out and not before: two kilobytes for each page are many.
        let mut full = None;
        self.0.with(platform, |waiting| {
            if waiting.moves.push(entry, limit) {
                full = Some(waiting.moves.take());
            }
        });
        full
    }

    /// Takes all out.
    pub(super) fn take(&self, platform: &P) -> Batch {
        self.0.with(platform, |waiting| waiting.moves.take())
    }

    /// Does something with the frames that are kept for the CPU.
    pub(super) fn keeping<R>(&self, platform: &P, f: impl FnOnce(&mut Kept) -> R) -> R {
        self.0.with(platform, |waiting| f(&mut waiting.kept))
    }
}
