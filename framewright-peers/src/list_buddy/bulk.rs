//! Work under the zone lock on behalf of a CPU's lists: refills and bulk frees.
//!
//! [`refill`] and [`release`] run from the acquisition of the lock to its release and do nothing
//! outside it. They are never inlined: a profiler shows exactly the work under the lock.

use super::{
    MigrateType,
    fallback::Phase,
    lists::{List, Mark, Pages},
    lock::{Machine, Work},
    pcp::{HOLDING_LISTS, PRIVATE, list_order},
    zone::Zone,
};

/// Moves up to `blocks` blocks of the zone to the tail of `list`. Returns their number.
#[inline(never)]
pub(super) fn refill<M: Machine>(
    zone: &mut Zone,
    pages: &Pages<M>,
    list: List,
    order: u8,
    migratetype: MigrateType,
    blocks: u32,
) -> u32 {
    zone.stats.lock_acquisitions += 1;
    let mut phase = Phase::default();
    let mut got = 0;
    while got < blocks {
        let Some(frame) = zone.take(pages, order, migratetype, &mut phase) else {
            break;
        };
        pages.set_mark(frame, Mark::Listed(order));
        pages.push_tail(list, frame);
        got += 1;
    }
    zone.stats.lock_frames += u64::from(got) << order;
    got
}

/// Gives blocks of a CPU's lists back to the zone. Returns the number of frames.
#[inline(never)]
pub(super) fn release<M: Machine>(
    zone: &mut Zone,
    pages: &Pages<M>,
    mut chosen: impl Selection,
) -> u32 {
    zone.stats.lock_acquisitions += 1;
    let mut frames = 0;
    while let Some((frame, order)) = chosen.next(pages) {
        zone.give(pages, frame, order);
        frames += 1 << order;
    }
    zone.work.chosen += chosen.chosen_here();
    zone.stats.lock_frames += u64::from(frames);
    frames
}

/// The blocks of a bulk free, one after the other. A returned block may be put on a free list at
/// once.
pub(super) trait Selection {
    fn next<M: Machine>(&mut self, pages: &Pages<M>) -> Option<(u32, u8)>;

    /// Number of blocks that were selected under the lock, by [`Selection::next`]. 0 if all were
    /// selected before.
    fn chosen_here(&self) -> u32;
}

/// Selects from the tails of a CPU's lists while blocks are returned; changes to the next list when
/// one is empty.
pub(super) struct FromTails {
    cpu: usize,
    /// The list that blocks are taken from.
    list: usize,
    /// Frames still to return; the last block may overshoot.
    left: u32,
    /// Blocks selected so far.
    chosen: u32,
}

impl FromTails {
    /// Up to `frames` frames of the `held` ones, beginning with list `start`.
    pub(super) fn new(cpu: usize, start: usize, frames: u32, held: u32) -> Self {
        Self { cpu, list: start, left: frames.min(held), chosen: 0 }
    }
}

impl Selection for FromTails {
    #[inline]
    fn next<M: Machine>(&mut self, pages: &Pages<M>) -> Option<(u32, u8)> {
        if self.left == 0 {
            return None;
        }
        for _ in 0..HOLDING_LISTS {
            if let Some(frame) = pages.last(pages.cpu_list(self.cpu, self.list)) {
                let order = list_order(self.list);
                pages.unlink(frame);
                self.left = self.left.saturating_sub(1 << order);
                self.chosen += 1;
                return Some((frame, order));
            }
            self.list = (self.list + 1) % HOLDING_LISTS;
        }
        None
    }

    fn chosen_here(&self) -> u32 {
        self.chosen
    }
}

/// Selects from the tails of all lists of a CPU in turn ([`ListTurns::RoundRobin`]).
///
/// [`ListTurns::RoundRobin`]: super::ListTurns::RoundRobin
pub(super) struct InTurn {
    tails: FromTails,
    /// Blocks to take from the current list before the next one has its turn.
    turn: u32,
}

impl InTurn {
    pub(super) fn new(tails: FromTails) -> Self {
        Self { tails, turn: 0 }
    }
}

impl Selection for InTurn {
    fn next<M: Machine>(&mut self, pages: &Pages<M>) -> Option<(u32, u8)> {
        let FromTails { cpu, list, .. } = self.tails;
        let has_blocks = |list| !pages.is_empty(pages.cpu_list(cpu, list));
        if self.turn == 0 || !has_blocks(list) {
            let passed = (1..=HOLDING_LISTS).find(|by| has_blocks((list + by) % HOLDING_LISTS))?;
            self.tails.list = (list + passed) % HOLDING_LISTS;
            // The only list with blocks gives all of them.
            self.turn = if passed == HOLDING_LISTS { u32::MAX } else { passed as u32 };
        }
        self.turn -= 1;
        self.tails.next(pages)
    }

    fn chosen_here(&self) -> u32 {
        self.tails.chosen
    }
}

/// Blocks that were selected before the lock was taken, on the CPU's private list.
///
/// The list is walked, not emptied block by block: an insertion into a free list overwrites the
/// links of the descriptor, so blocks need not be unlinked first.
pub(super) struct Prechosen {
    list: List,
    /// The next block.
    next: Option<u32>,
    /// Number of blocks on the list.
    blocks: u32,
}

impl Prechosen {
    /// Moves the blocks that `choice` selects to the private list and, if so configured, prefetches
    /// the descriptors of the buddies that merging will read.
    pub(super) fn new<M: Machine>(
        pages: &Pages<M>,
        cpu: usize,
        mut choice: impl Selection,
        prefetch: bool,
    ) -> Self {
        let private = pages.cpu_list(cpu, PRIVATE);
        while let Some((frame, order)) = choice.next(pages) {
            pages.push_tail(private, frame);
            if prefetch {
                pages.prefetch(frame ^ (1 << order));
            }
        }
        Self { list: private, next: pages.first(private), blocks: choice.chosen_here() }
    }

    /// The work of the selection.
    pub(super) fn work(&self) -> Work {
        Work { chosen: self.blocks, ..Work::default() }
    }
}

impl Selection for Prechosen {
    #[inline]
    fn next<M: Machine>(&mut self, pages: &Pages<M>) -> Option<(u32, u8)> {
        let Some(frame) = self.next else {
            pages.make_empty(self.list);
            return None;
        };
        self.next = pages.after(self.list, frame);
        match pages.mark(frame) {
            Mark::Listed(order) => Some((frame, order)),
            mark => unreachable!("frame {frame} on a CPU's list is marked {mark:?}"),
        }
    }

    fn chosen_here(&self) -> u32 {
        0
    }
}

/// Work done under the lock since the last call.
pub(super) fn work(zone: &mut Zone) -> Work {
    core::mem::take(&mut zone.work)
}
