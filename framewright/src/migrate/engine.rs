//! Batches of moves.

use super::{
    BATCH_FRAMES, Effort, Locking, MigrateMode, Move, Mover,
    page::{Stage, Trouble},
};
use crate::{
    frame::{Order, Pfn},
    platform::Platform,
    tlb::{BatchSlot, Flushed, Flusher},
};

/// Tries of a batch where nothing is waited for.
const PASSES_ASYNC: u32 = 10;
/// Tries of a batch where what is left is moved one by one afterwards.
const PASSES_BATCH: u32 = 3;
/// Tries of one page alone.
const PASSES_ALONE: u32 = 7;

/// Where frames to move to come from, and where frames go that are left over.
pub(crate) trait Targets {
    /// Frames for a page; `None` ends the batch.
    fn take(&mut self, order: Order) -> Option<Pfn>;
    /// Such frames were not needed.
    fn put(&mut self, pfn: Pfn, order: Order);
    /// A page has left these frames.
    fn left(&mut self, pfn: Pfn, order: Order);
    /// Frames that were left shall be free now, if they are not.
    fn settle(&mut self) {}
    /// What CPUs held is free now.
    fn drained(&mut self) {}
}

/// What became of some pages, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moved {
    /// In other frames.
    pub(crate) moved: u64,
    /// Gone by themselves.
    pub(crate) gone: u64,
    /// Where they were.
    pub(crate) failed: u64,
    /// Whether there were no frames to move to for some.
    pub(crate) lacked_targets: bool,
}

/// Moves pages on behalf of one CPU.
pub(crate) struct Migration<'a, 'm, P: Platform> {
    pub(crate) flusher: Flusher<'a, 'm, P>,
    pub(crate) platform: &'a P,
    pub(crate) mover: &'a dyn Mover<P>,
}

impl<P: Platform> Migration<'_, '_, P> {
    /// Moves claimed pages as far as that is possible, and ends all claims. `slots` are for the
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
            let mut job = Job { migration: self, effort: *effort, targets, lacked: false };
            job.run(&mut claimed.moves[..count], slots);
            result.lacked_targets |= job.lacked;
            claimed.end_first(count, &mut result);
        }
        result
    }

    /// Ends the claims on pages, which stay where they are.
    pub(crate) fn abandon(&self, moves: &mut [Move], targets: &mut dyn Targets) {
        self.end(moves, targets, &mut Moved::default());
    }

    /// Ends the claims on pages that did not move, and counts the outcome of each. A page that is
    /// still unmapped because its undo panicked stays unmapped and keeps its new frames.
    fn end(&self, moves: &mut [Move], targets: &mut dyn Targets, result: &mut Moved) {
        for at in moves.iter_mut().filter(|at| at.has_spare_target()) {
            targets.put(at.to(), at.order());
            at.displace();
        }
        let count = partition(moves, |at| !at.is_settled() && !at.is_unmapped());
        // Its `drop` also runs if the embedder panics.
        let ended = Ended { moves, targets, result };
        if count > 0 {
            self.mover.release(&mut ended.moves[..count]);
        }
    }
}

/// Pages whose claims have ended. Dropping it takes over the frames that they have left.
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
            targets.left(at.from(), at.order());
        }
    }
}

/// Claimed pages. Dropping it while the embedder panics ends all claims.
struct Claimed<'c, 'a, 'm, P: Platform> {
    migration: &'c Migration<'a, 'm, P>,
    moves: &'c mut [Move],
    targets: &'c mut dyn Targets,
}

impl<P: Platform> Claimed<'_, '_, '_, P> {
    /// Ends the claims on the first `count` pages, and removes these first, so that a panic does
    /// not end them twice.
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

/// What a chunk is moved with.
struct Job<'j, 'a, 'm, P: Platform> {
    migration: &'j Migration<'a, 'm, P>,
    effort: Effort,
    targets: &'j mut dyn Targets,
    /// There are no more frames to move to.
    lacked: bool,
}

impl<P: Platform> Job<'_, '_, '_, P> {
    fn run(&mut self, chunk: &mut [Move], slots: &mut [BatchSlot]) {
        let mode = self.effort.mode;
        if mode == MigrateMode::Async {
            self.batch(chunk, slots, Locking::Try, PASSES_ASYNC);
            return;
        }
        self.effort.mode = MigrateMode::Async;
        self.batch(chunk, slots, Locking::Try, PASSES_BATCH);
        self.effort.mode = mode;
        for at in chunk.iter_mut().filter(|at| !at.is_settled()) {
            at.end_trouble();
            self.batch(core::slice::from_mut(at), slots, Locking::Wait, PASSES_ALONE);
        }
    }

    /// Unmaps what it can, flushes once, copies, and remaps; undoes what stays behind.
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
            // Once for all of them, as far as it goes: what finds no room is flushed at once.
            batch.reserve(ready as u64);
            mover.unmap(&mut unmapped.moves[..ready], &self.effort, locking, &mut batch);
            take_refusals(&mut unmapped.moves[..ready], self.targets);
        }
        let flushed = batch.flush();
        for at in unmapped.moves.iter_mut().filter(|at| at.stage() == Stage::Unmapped) {
            copy(platform, at);
        }
        remap(&mut unmapped, &self.effort, &flushed, passes);
    }

    /// Finds frames to move to for what has none, and puts what can be unmapped to the front; how
    /// many those are.
    fn make_ready(&mut self, moves: &mut [Move]) -> usize {
        for at in moves.iter_mut().filter(|at| at.stage() == Stage::Claimed && !at.is_refused()) {
            if self.lacked {
                break;
            }
            match self.targets.take(at.order()) {
                Some(to) => at.place(to),
                None => self.lacked = true,
            }
        }
        let ready = partition(moves, |at| at.stage() == Stage::Ready && !at.is_refused());
        moves[..ready].iter_mut().for_each(Move::end_trouble);
        ready
    }
}

/// Pages that may be unmapped: undone when this value is dropped, unless they have moved.
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
        moves.iter_mut().for_each(Move::end_trouble);
        unmapped.mover.remap(moves, effort, flushed);
        if moves.iter().all(|at| at.trouble() != Some(Trouble::Busy)) {
            return;
        }
    }
}

/// Copies a page that is unmapped and flushed.
fn copy<P: Platform>(platform: &P, at: &mut Move) {
    for i in 0..at.order().frames() {
        platform.copy(at.to().offset(i), at.from().offset(i));
    }
    at.set_copied();
}

/// What is gone, or refused for good, needs its target no more.
fn take_refusals(moves: &mut [Move], targets: &mut dyn Targets) {
    for at in moves {
        let is_left = at.stage() == Stage::Ready && at.is_refused();
        if at.stage() == Stage::Gone || is_left {
            targets.put(at.to(), at.order());
            at.displace();
        }
    }
}

/// How many of the first moves make up a batch.
fn chunk(moves: &[Move]) -> usize {
    let mut frames = 0;
    let whole = |at: &&Move| {
        let more = frames < BATCH_FRAMES;
        frames += at.order().frames();
        more
    };
    moves.iter().take_while(whole).count()
}

/// Puts those that `belong` to the front; how many they are.
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
