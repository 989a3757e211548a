//! Moves pages in batches.

use super::{
    BATCH_FRAMES, Effort, Locking, MigrateMode, Move, Mover,
    page::{MoveFailure, Stage},
};
use crate::{
    platform::Platform,
    tlb::{BatchSlot, Flushed, Flusher},
    types::{Order, Pfn},
};

/// Passes over a batch in asynchronous mode. The numbers of passes are those of Linux.
const PASSES_ASYNC: u32 = 10;
/// Passes over a batch in the other modes. Pages that have not moved after these passes are moved
/// one by one.
const PASSES_BATCH: u32 = 3;
/// Passes over a single page.
const PASSES_ALONE: u32 = 7;

/// Provides frames to move pages to, and takes the frames that become free.
pub(crate) trait Targets {
    /// Takes frames for a page of `order`; `None` ends the batch.
    fn take(&mut self, order: Order) -> Option<Pfn>;
    /// Returns frames that were not needed.
    fn put_back(&mut self, pfn: Pfn, order: Order);
    /// Frees frames that a page has left, now or in `finish_frees`.
    fn free_source(&mut self, pfn: Pfn, order: Order);
    /// Frees all frames from calls of `free_source` that are still pending.
    fn finish_frees(&mut self) {}
    /// Called after free frames of CPU lists, the depot and deferred frees were returned to the
    /// zone.
    fn after_drain(&mut self) {}
}

/// Outcome of moving pages, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moved {
    /// Frames whose pages moved.
    pub(crate) moved: u64,
    /// Frames whose pages were freed by their owners meanwhile.
    pub(crate) gone: u64,
    /// Frames whose pages did not move.
    pub(crate) failed: u64,
    /// Whether some pages had no frames to move to.
    pub(crate) lacked_targets: bool,
}

/// Moves pages on behalf of one CPU.
pub(crate) struct Migration<'a, 'm, P: Platform> {
    pub(crate) flusher: Flusher<'a, 'm, P>,
    pub(crate) platform: &'a P,
    pub(crate) mover: &'a dyn Mover<P>,
}

impl<P: Platform> Migration<'_, '_, P> {
    /// Moves claimed pages as far as possible, and ends all claims. `slots` are the entries of the
    /// flush batches.
    pub(crate) fn run(
        &self,
        moves: &mut [Move],
        slots: &mut [BatchSlot],
        effort: &Effort,
        targets: &mut dyn Targets,
    ) -> Moved {
        let mut result = Moved::default();
        let mut claimed = Claimed { migration: self, moves, targets };
        while !claimed.moves.is_empty() {
            let count = chunk(claimed.moves);
            let targets = &mut *claimed.targets;
            let mut chunk_move =
                ChunkMove { migration: self, effort: *effort, targets, out_of_targets: false };
            chunk_move.run(&mut claimed.moves[..count], slots);
            result.lacked_targets |= chunk_move.out_of_targets;
            claimed.end_first(count, &mut result);
        }
        result
    }

    /// Ends the claims on pages without moving them.
    pub(crate) fn abandon(&self, moves: &mut [Move], targets: &mut dyn Targets) {
        self.end(moves, targets, &mut Moved::default());
    }

    /// Ends the claims on pages that did not move, and counts the outcome of each. If `undo`
    /// panicked, its pages stay unmapped and keep their new frames.
    fn end(&self, moves: &mut [Move], targets: &mut dyn Targets, result: &mut Moved) {
        for at in moves.iter_mut().filter(|at| at.has_spare_target()) {
            targets.put_back(at.to(), at.order());
            at.clear_target();
        }
        let count = partition(moves, |at| !at.has_left_frames() && !at.is_unmapped());
        // The drop of `ended` also runs if the embedder panics.
        let ended = Ended { moves, targets, result };
        if count > 0 {
            self.mover.release(&mut ended.moves[..count]);
        }
    }
}

/// Pages whose claims have ended. On drop, the frames that pages have left go to
/// [`Targets::free_source`].
struct Ended<'e> {
    moves: &'e mut [Move],
    targets: &'e mut dyn Targets,
    result: &'e mut Moved,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let Self { moves, targets, result } = self;
        for at in moves.iter() {
            let frames = at.order().frames();
            match at.stage() {
                Stage::Moved => result.moved += frames,
                Stage::Gone => result.gone += frames,
                _ => {
                    result.failed += frames;
                    continue;
                }
            }
            targets.free_source(at.from(), at.order());
        }
    }
}

/// Claimed pages. On drop, which also happens if the embedder panics, all claims end.
struct Claimed<'c, 'a, 'm, P: Platform> {
    migration: &'c Migration<'a, 'm, P>,
    moves: &'c mut [Move],
    targets: &'c mut dyn Targets,
}

impl<P: Platform> Claimed<'_, '_, '_, P> {
    /// Ends the claims on the first `count` pages, and removes these pages first, so that a panic
    /// does not end the claims twice.
    fn end_first(&mut self, count: usize, result: &mut Moved) {
        let (first, rest) = core::mem::take(&mut self.moves).split_at_mut(count);
        self.moves = rest;
        self.migration.end(first, self.targets, result);
    }
}

impl<P: Platform> Drop for Claimed<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.end_first(self.moves.len(), &mut Moved::default());
    }
}

/// State of moving one chunk of pages.
struct ChunkMove<'j, 'a, 'm, P: Platform> {
    migration: &'j Migration<'a, 'm, P>,
    effort: Effort,
    targets: &'j mut dyn Targets,
    /// There are no more frames to move to.
    out_of_targets: bool,
}

impl<P: Platform> ChunkMove<'_, '_, '_, P> {
    fn run(&mut self, chunk: &mut [Move], slots: &mut [BatchSlot]) {
        let mode = self.effort.mode;
        if mode == MigrateMode::Async {
            self.batch(chunk, slots, Locking::Try, PASSES_ASYNC);
            return;
        }
        self.effort.mode = MigrateMode::Async;
        self.batch(chunk, slots, Locking::Try, PASSES_BATCH);
        self.effort.mode = mode;
        for at in chunk.iter_mut().filter(|at| !at.has_left_frames()) {
            at.clear_failure();
            self.batch(core::slice::from_mut(at), slots, Locking::Wait, PASSES_ALONE);
        }
    }

    /// Unmaps as many pages as possible, flushes once, copies, and remaps. Pages that are still unmapped at the end are
    /// undone.
    fn batch(
        &mut self,
        chunk: &mut [Move],
        slots: &mut [BatchSlot],
        locking: Locking,
        passes: u32,
    ) {
        let &Migration { flusher, platform, mover } = self.migration;
        let mut unmapped = Unmapped { mover, moves: chunk };
        let mut batch = flusher.batch_with_all_slots(slots);
        for _ in 0..passes {
            let ready = self.make_ready(unmapped.moves);
            if ready == 0 {
                break;
            }
            // Reserves entries of the batch for as many pages as possible. A page without a reservation would be
            // flushed on its own.
            batch.reserve(ready as u64);
            let ready = &mut unmapped.moves[..ready];
            mover.unmap(ready, &self.effort, locking, &mut batch.unmapping());
            take_refusals(ready, self.targets);
        }
        let flushed = batch.flush();
        for at in unmapped.moves.iter_mut().filter(|at| at.stage() == Stage::Unmapped) {
            copy(platform, at);
        }
        remap(&mut unmapped, &self.effort, &flushed, passes);
    }

    /// Takes target frames for pages without targets, and moves the pages that can be unmapped to the front. Returns
    /// the number of pages at the front.
    fn make_ready(&mut self, moves: &mut [Move]) -> usize {
        for at in moves.iter_mut().filter(|at| at.stage() == Stage::Claimed && !at.is_refused()) {
            if self.out_of_targets {
                break;
            }
            match self.targets.take(at.order()) {
                Some(to) => at.set_target(to),
                None => self.out_of_targets = true,
            }
        }
        let ready = partition(moves, |at| at.stage() == Stage::Ready && !at.is_refused());
        moves[..ready].iter_mut().for_each(Move::clear_failure);
        ready
    }
}

/// Pages, of which some may be unmapped. On drop, those that are still unmapped are undone.
struct Unmapped<'u, P: Platform> {
    mover: &'u dyn Mover<P>,
    moves: &'u mut [Move],
}

impl<P: Platform> Drop for Unmapped<'_, P> {
    fn drop(&mut self) {
        let count = partition(self.moves, Move::is_unmapped);
        if count > 0 {
            self.mover.undo(&self.moves[..count]);
            self.moves[..count].iter_mut().for_each(Move::set_undone);
        }
    }
}

fn remap<P: Platform>(
    unmapped: &mut Unmapped<'_, P>,
    effort: &Effort,
    flushed: &Flushed<'_>,
    passes: u32,
) {
    for _ in 0..passes {
        let copied =
            partition(unmapped.moves, |at| at.stage() == Stage::Copied && !at.is_refused());
        if copied == 0 {
            return;
        }
        let moves = &mut unmapped.moves[..copied];
        moves.iter_mut().for_each(Move::clear_failure);
        unmapped.mover.remap(moves, effort, flushed);
        if moves.iter().all(|at| at.failure() != Some(MoveFailure::Busy)) {
            return;
        }
    }
}

/// Copies a page that is unmapped and flushed.
#[allow(unsafe_code)]
fn copy<P: Platform>(platform: &P, at: &mut Move) {
    for i in 0..at.order().frames() {
        // SAFETY: the target frames were allocated for this page. The mover owns the page, has claimed and unmapped it,
        // as its unsafe trait states, and all CPUs have flushed since, so no other code uses the source.
        unsafe { platform.copy(at.to().offset(i), at.from().offset(i)) };
    }
    at.set_copied();
}

/// Returns the target frames of pages that are gone or refused.
fn take_refusals(moves: &mut [Move], targets: &mut dyn Targets) {
    for at in moves {
        let is_left = at.stage() == Stage::Ready && at.is_refused();
        if at.stage() == Stage::Gone || is_left {
            targets.put_back(at.to(), at.order());
            at.clear_target();
        }
    }
}

/// Number of moves at the front that make up a batch.
fn chunk(moves: &[Move]) -> usize {
    let mut frames = 0;
    let whole = |at: &&Move| {
        let more = frames < BATCH_FRAMES;
        frames += at.order().frames();
        more
    };
    moves.iter().take_while(whole).count()
}

/// Puts the moves for which `belongs` returns `true` at the front. Returns their number.
fn partition(moves: &mut [Move], belongs: impl Fn(&Move) -> bool) -> usize {
    let mut count = 0;
    for at in 0..moves.len() {
        if belongs(&moves[at]) {
            moves.swap(count, at);
            count += 1;
        }
    }
    count
}
