//! Per-CPU batches of moves, so that the LRU lock is taken once for many moves.
//!
//! Adding pages one by one would take the LRU lock once per page, and on a node that reads many
//! pages, this lock is the most contended one. A page in a batch is not on a list yet, or still on
//! its old list.

use crate::{
    core::KeptFrames,
    platform::{Platform, Section, SpinLock},
    types::{CpuId, ZoneId},
};

/// An operation on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    /// Add the page to the list that its flags select.
    Add,
    /// Make the page active.
    Activate,
    /// Make the page inactive.
    Deactivate,
    /// Move the page to the tail of its list, where it is reclaimed next.
    Rotate,
}

/// Capacity of a batch, chosen so that its length fits into a byte.
pub(super) const CAPACITY: usize = 255;

/// A move of a page.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) slot: u32,
    /// The zone of the page, known when the entry is made.
    pub(super) zone: ZoneId,
    pub(super) to: Move,
}

/// Moves, oldest first.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    entries: [Entry; CAPACITY],
    len: u8,
}

/// The result of adding a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// The move waits.
    Waits,
    /// The move waits, and the batch is due to be drained.
    Due,
    /// The batch is full. It has to be drained before the move is tried again.
    Full,
}

impl Batch {
    fn new() -> Self {
        let none = Entry { slot: 0, zone: ZoneId::default(), to: Move::Add };
        Self { entries: [none; CAPACITY], len: 0 }
    }

    /// Adds a move. The batch is due at `limit` moves.
    #[inline(always)]
    fn push(&mut self, entry: Entry, limit: usize) -> Pushed {
        let at = usize::from(self.len);
        let Some(place) = self.entries.get_mut(at) else { return Pushed::Full };
        *place = entry;
        self.len += 1;
        if at + 1 < limit { Pushed::Waits } else { Pushed::Due }
    }

    /// Removes all moves and returns them.
    fn take(&mut self) -> Self {
        let all = *self;
        self.len = 0;
        all
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.len)]
    }
}

/// The moves of a CPU, and the reclaimed frames that are kept for its request.
struct PerCpu {
    moves: Batch,
    kept: KeptFrames,
}

/// The batch of a CPU. Its lock is hardly ever contended, because other CPUs take it only to drain.
pub(crate) struct CpuBatch<P: Platform>(SpinLock<P, PerCpu>);

impl<P: Platform> CpuBatch<P> {
    pub(crate) fn new(cpu: CpuId) -> Self {
        Self(SpinLock::new(
            Section::LruBatch(cpu),
            PerCpu { moves: Batch::new(), kept: KeptFrames::new() },
        ))
    }

    /// Adds a move. The batch is due at `limit` moves.
    #[inline(always)]
    pub(super) fn push(&self, platform: &P, entry: Entry, limit: usize) -> Pushed {
        self.0.with(platform, |waiting| waiting.moves.push(entry, limit))
    }

    /// Removes all moves and returns them.
    pub(super) fn take(&self, platform: &P) -> Batch {
        self.0.with(platform, |waiting| waiting.moves.take())
    }

    /// Calls `f` with the frames that are kept for the CPU.
    pub(super) fn with_kept<R>(&self, platform: &P, f: impl FnOnce(&mut KeptFrames) -> R) -> R {
        self.0.with(platform, |waiting| f(&mut waiting.kept))
    }
}
