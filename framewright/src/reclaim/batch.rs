//! Batches of one CPU: moves that wait until there are enough of them to take the LRU lock once.
//!
//! Adding pages one by one would cost that lock per page, and it is the most contended of a node
//! that reads much. A page in a batch is on no list yet, or still on its old one.

use super::kept::KeptFrames;
use crate::{
    platform::{CpuId, Platform, Section},
    sync::SpinLock,
    zone::ZoneId,
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
    /// The page's zone, which is known when it is put here.
    pub(super) zone: ZoneId,
    pub(super) to: Move,
}

/// Moves, first come first.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    entries: [Entry; CAPACITY],
    len: u8,
}

/// What became of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// It waits.
    Waits,
    /// It is the last that waits: all have to be taken out.
    Due,
    /// It found no room: all have to be taken out before it comes again.
    NoRoom,
}

impl Batch {
    fn new() -> Self {
        let none = Entry { slot: 0, zone: ZoneId::default(), to: Move::Add };
        Self { entries: [none; CAPACITY], len: 0 }
    }

    /// Adds a move; `limit` of them are enough.
    #[inline(always)]
    fn push(&mut self, entry: Entry, limit: usize) -> Pushed {
        let at = usize::from(self.len);
        let Some(place) = self.entries.get_mut(at) else { return Pushed::NoRoom };
        *place = entry;
        self.len += 1;
        if at + 1 < limit { Pushed::Waits } else { Pushed::Due }
    }

    /// Takes all out.
    fn take(&mut self) -> Self {
        let all = *self;
        self.len = 0;
        all
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.len)]
    }
}

/// What waits on a CPU: moves, and frames that reclaim keeps for it.
struct PerCpu {
    moves: Batch,
    kept: KeptFrames,
}

/// The batch of a CPU. Its lock is next to never contended: others come only to drain it.
pub(crate) struct CpuBatch<P: Platform>(SpinLock<P, PerCpu>);

impl<P: Platform> CpuBatch<P> {
    pub(crate) fn new(cpu: CpuId) -> Self {
        Self(SpinLock::new(
            Section::LruBatch(cpu),
            PerCpu { moves: Batch::new(), kept: KeptFrames::new() },
        ))
    }

    /// Adds a move; `limit` of them are enough.
    #[inline(always)]
    pub(super) fn push(&self, platform: &P, entry: Entry, limit: usize) -> Pushed {
        self.0.with(platform, |waiting| waiting.moves.push(entry, limit))
    }

    /// Takes all out.
    pub(super) fn take(&self, platform: &P) -> Batch {
        self.0.with(platform, |waiting| waiting.moves.take())
    }

    /// Does something with the frames that are kept for the CPU.
    pub(super) fn with_kept<R>(&self, platform: &P, f: impl FnOnce(&mut KeptFrames) -> R) -> R {
        self.0.with(platform, |waiting| f(&mut waiting.kept))
    }
}
