//! The depot of a zone: free blocks on their way from the lists of one CPU to those of another.
//!
//! Frames that are freed in random order reach the zone one by one, each a word of a map, a header
//! and perhaps a list of its own; and soon some CPU takes them out again, one by one. What circulates
//! like this need not be sorted in: it is copied onto a stack, dozens of blocks a line, and copied
//! off again. (The idea is that of magazines and depots, Bonwick and Adams 2001, and of lazy
//! coalescing, Barkley and Lee 1989; here a batch is copied instead of exchanged whole, since lists
//! are rings.) The blocks freed last leave first.
//!
//! A depot is bounded, and is a loan: while blocks lie here their buddies cannot merge with them.
//! So what lies here goes home, a chunk per hold of the lock and the coldest first: all of a type
//! before a request for it is served from another type's pageblocks, and all there is before anybody
//! is refused. It is closed while memory is short or a pageblock is withheld. Only blocks without
//! neighbours come here, and those that one CPU frees in bursts because another allocates them: what
//! goes round like that is still in a cache while it goes round fast.
//!
//! What does not go round has no business here. Of every stack the least height within an interval is
//! remembered: what lay below that all the time was of no use to anybody (Bonwick's working set of a
//! magazine layer), and goes home during the next one, a chunk whenever somebody comes to the zone.
//!
//! It lives inside the zone's lock. To the maps its blocks are allocated.
//!
//! Invariants: of a stack, every chunk but the top one is full; a chunk is on one stack, or unused;
//! the blocks of all stacks together are no more frames than the limit.

use core::{mem, ops::Range};

use super::{BlockKind, BlockStack};
use crate::{
    buddy::{Part, Watch},
    platform::{Access, Cost, Miss},
    tuning::{Auto, ZoneTuning},
    types::{MigrateType, Order},
};

/// Blocks in a chunk: with the links, four cache lines.
const CHUNK_BLOCKS: usize = 62;
/// No chunk.
const NIL: u32 = u32::MAX;

/// Up to so many CPUs a zone does without unless it is told: what they hold themselves will do.
const FEW_CPUS: u64 = 8;
/// One frame in so many of a zone may lie in its depot.
const SHARE: u64 = 128;

/// Frames that the depot of a zone of `managed` frames may hold, which `cpus` CPUs share.
pub(crate) fn depot_frames(tuning: &ZoneTuning, managed: u64, cpus: u64) -> u64 {
    match tuning.depot_divisor {
        Auto::Auto if cpus <= FEW_CPUS => 0,
        Auto::Auto => managed / SHARE,
        Auto::Fixed(0) => 0,
        Auto::Fixed(divisor) => managed / u64::from(divisor),
    }
}

/// A part of a stack.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Chunk {
    blocks: [u32; CHUNK_BLOCKS],
    /// The chunk below, or the next unused one.
    next: u32,
    /// The chunk above, of one that is not on top.
    above: u32,
}

impl Chunk {
    pub(crate) const EMPTY: Self = Self { blocks: [0; CHUNK_BLOCKS], next: NIL, above: NIL };
}

#[derive(Clone, Copy)]
struct Stack {
    top: u32,
    bottom: u32,
    blocks: u32,
    /// The least that `blocks` has been in this interval.
    least: u32,
}

impl Stack {
    const EMPTY: Self = Self { top: NIL, bottom: NIL, blocks: 0, least: 0 };

    /// Some blocks have left.
    fn remove(&mut self, blocks: u32) {
        self.blocks -= blocks;
        self.least = self.least.min(self.blocks);
    }

    /// Blocks in the top chunk; 0 if there is none.
    fn in_top(self) -> usize {
        match self.blocks as usize % CHUNK_BLOCKS {
            0 if self.blocks > 0 => CHUNK_BLOCKS,
            rest => rest,
        }
    }

    /// Whether the top chunk has no room, or there is none.
    fn is_full(self) -> bool {
        (self.blocks as usize).is_multiple_of(CHUNK_BLOCKS)
    }
}

pub(crate) struct Depot<'m> {
    stacks: [Stack; BlockKind::COUNT],
    chunks: &'m mut [Chunk],
    /// The first unused chunk.
    unused: u32,
    frames: u64,
    limit: u64,
    /// Of each stack, the blocks at the bottom that nobody needed in the last interval.
    surplus: [u32; BlockKind::COUNT],
    has_surplus: bool,
}

impl<'m> Depot<'m> {
    /// Chunks that a depot of `limit` frames needs.
    pub(crate) const fn chunks(limit: u64) -> usize {
        if limit == 0 { 0 } else { (limit as usize).div_ceil(CHUNK_BLOCKS) + BlockKind::COUNT }
    }

    /// An empty depot for up to `limit` frames, in as many chunks as [`Depot::chunks`] says.
    pub(crate) fn new(chunks: &'m mut [Chunk], limit: u64) -> Self {
        let count = chunks.len() as u32;
        for (next, chunk) in (1..).zip(chunks.iter_mut()) {
            chunk.next = if next < count { next } else { NIL };
        }
        let limit = if count == 0 { 0 } else { limit };
        Self {
            stacks: [Stack::EMPTY; BlockKind::COUNT],
            chunks,
            unused: if count > 0 { 0 } else { NIL },
            frames: 0,
            limit,
            surplus: [0; BlockKind::COUNT],
            has_surplus: false,
        }
    }

    /// Frames in it.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that it may hold.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether it has blocks in pageblocks of type `of`.
    pub(crate) fn has(&self, of: MigrateType) -> bool {
        let stacks =
            BlockKind::all().filter(|kind| kind.is_of(of)).map(|kind| self.stacks[kind.get()]);
        self.frames > 0 && stacks.into_iter().any(|stack| stack.blocks > 0)
    }

    /// A kind that it has blocks of in pageblocks of type `of`, or of any: one that serves requests of
    /// `order` as it is, or else the one with the most.
    fn most_useful(&self, of: Option<MigrateType>, order: Order) -> Option<BlockKind> {
        let suits = |kind: &BlockKind| of.is_none_or(|of| kind.is_of(of));
        let blocks = |kind: &BlockKind| self.stacks[kind.get()].blocks;
        let worth = |kind: &BlockKind| (kind.order() >= order, blocks(kind));
        BlockKind::all().filter(suits).filter(|kind| blocks(kind) > 0).max_by_key(worth)
    }

    /// A kind of which something is surplus still: nobody has needed it since, either.
    fn surplus_kind(&self) -> Option<BlockKind> {
        let left = |kind: &BlockKind| self.surplus[kind.get()].min(self.stacks[kind.get()].least);
        BlockKind::all().find(|kind| left(kind) > 0)
    }

    /// Whether anything is surplus, or was when somebody last looked.
    pub(crate) fn has_surplus(&self) -> bool {
        self.has_surplus
    }

    /// What has lain here since the last call was of no use: it is surplus from now on.
    pub(crate) fn end_interval(&mut self) {
        for (stack, surplus) in self.stacks.iter_mut().zip(&mut self.surplus) {
            (*surplus, stack.least) = (stack.least, stack.blocks);
        }
        self.has_surplus = self.surplus_kind().is_some();
    }

    /// Moves a chunk of what is to go home to `out`, which is empty: the coldest blocks of a kind.
    pub(crate) fn take_coldest(
        &mut self,
        which: FlushScope,
        out: &mut BlockStack,
        watch: impl Watch,
    ) {
        let kind = match which {
            FlushScope::Surplus => self.surplus_kind(),
            FlushScope::For(of, order) => self.most_useful(of, order),
        };
        self.has_surplus &= kind.is_some() || !matches!(which, FlushScope::Surplus);
        let Some(kind) = kind else { return };
        let stack = &mut self.stacks[kind.get()];
        if stack.bottom == stack.top {
            let surplus = mem::replace(&mut self.surplus[kind.get()], 0) as usize;
            let most = if matches!(which, FlushScope::Surplus) { surplus } else { CHUNK_BLOCKS };
            self.take(kind, most, out, watch);
            return;
        }
        probe_stack(watch, kind);
        let Some(room) = out.open(kind, CHUNK_BLOCKS) else { return };
        let bottom = stack.bottom;
        let chunk = &mut self.chunks[bottom as usize];
        room.copy_from_slice(&chunk.blocks);
        probe_blocks(watch, bottom, 0..CHUNK_BLOCKS);
        let above = mem::replace(&mut chunk.above, NIL);
        chunk.next = mem::replace(&mut self.unused, bottom);
        self.chunks[above as usize].next = NIL;
        stack.bottom = above;
        stack.blocks -= CHUNK_BLOCKS as u32;
        // Those that have lain here longest were among these.
        for count in [&mut stack.least, &mut self.surplus[kind.get()]] {
            *count = count.saturating_sub(CHUNK_BLOCKS as u32);
        }
        self.frames -= (CHUNK_BLOCKS as u64) << kind.order().get();
    }

    /// Takes in all of some blocks; `false` if there is no room for them.
    pub(crate) fn give(&mut self, blocks: &BlockStack, watch: impl Watch) -> bool {
        let frames = blocks.frames();
        let fits = self.frames + frames <= self.limit;
        if fits {
            self.frames += frames;
            blocks.runs().for_each(|(kind, blocks)| self.push(kind, blocks, watch));
        }
        fits
    }

    fn push(&mut self, kind: BlockKind, blocks: &[u32], watch: impl Watch) {
        probe_stack(watch, kind);
        let mut rest = blocks;
        while !rest.is_empty() {
            if self.stacks[kind.get()].is_full() {
                self.add_chunk(kind);
            }
            let stack = &mut self.stacks[kind.get()];
            let at = stack.in_top() % CHUNK_BLOCKS;
            let count = rest.len().min(CHUNK_BLOCKS - at);
            let chunk = &mut self.chunks[stack.top as usize];
            chunk.blocks[at..at + count].copy_from_slice(&rest[..count]);
            probe_blocks(watch, stack.top, at..at + count);
            stack.blocks += count as u32;
            rest = &rest[count..];
        }
    }

    /// Moves up to `most` blocks of a kind to `out`, those that came last; returns how many.
    pub(crate) fn take(
        &mut self,
        kind: BlockKind,
        most: usize,
        out: &mut BlockStack,
        watch: impl Watch,
    ) -> usize {
        probe_stack(watch, kind);
        let count = most.min(self.stacks[kind.get()].blocks as usize);
        if count == 0 {
            return 0;
        }
        let Some(mut rest) = out.open(kind, count) else { return 0 };
        while !rest.is_empty() {
            let stack = &mut self.stacks[kind.get()];
            let end = stack.in_top();
            let at = end.saturating_sub(rest.len());
            let (colder, blocks) = rest.split_at_mut(rest.len() - (end - at));
            blocks.copy_from_slice(&self.chunks[stack.top as usize].blocks[at..end]);
            probe_blocks(watch, stack.top, at..end);
            stack.remove((end - at) as u32);
            if at == 0 {
                self.remove_chunk(kind);
            }
            rest = colder;
        }
        self.frames -= (count as u64) << kind.order().get();
        count
    }

    /// Puts an unused chunk on top of a stack. There is one: the limit leaves each stack a chunk
    /// that is not full.
    fn add_chunk(&mut self, kind: BlockKind) {
        let stack = &mut self.stacks[kind.get()];
        let (new, below) = (self.unused, stack.top);
        self.unused = mem::replace(&mut self.chunks[new as usize].next, below);
        stack.top = new;
        match self.chunks.get_mut(below as usize) {
            Some(chunk) => chunk.above = new,
            None => stack.bottom = new,
        }
    }

    /// Takes the top chunk off a stack.
    fn remove_chunk(&mut self, kind: BlockKind) {
        let stack = &mut self.stacks[kind.get()];
        let old = stack.top;
        let below = mem::replace(&mut self.chunks[old as usize].next, self.unused);
        self.unused = old;
        stack.top = below;
        match self.chunks.get_mut(below as usize) {
            Some(chunk) => chunk.above = NIL,
            None => stack.bottom = NIL,
        }
    }
}

/// What is to go home.
#[derive(Clone, Copy)]
pub(crate) enum FlushScope {
    /// What nobody has needed for an interval.
    Surplus,
    /// For a request of this order: what lies in pageblocks of a type, or of any.
    For(Option<MigrateType>, Order),
}

/// Lines that the heads of the stacks take.
const HEAD_LINES: u32 = (BlockKind::COUNT * size_of::<Stack>()).div_ceil(64) as u32;

/// Tells that a stack is used.
fn probe_stack(watch: impl Watch, kind: BlockKind) {
    let head = (kind.get() * size_of::<Stack>() / 64) as u32;
    watch.cost(Cost::DepotStacks, 1);
    watch.touch(Part::Depot(head), Access::Write, Miss::Dependent);
}

/// Tells of so many blocks of a chunk that were copied, and of the lines that they take.
fn probe_blocks(watch: impl Watch, chunk: u32, blocks: Range<usize>) {
    const CHUNK_LINES: u32 = (size_of::<Chunk>() / 64) as u32;
    const LINE_BLOCKS: usize = 64 / size_of::<u32>();
    if !watch.listens() {
        return;
    }
    watch.cost(Cost::DepotBlocks, blocks.len() as u32);
    for line in blocks.start / LINE_BLOCKS..blocks.end.div_ceil(LINE_BLOCKS) {
        let line = HEAD_LINES + chunk * CHUNK_LINES + line as u32;
        watch.touch(Part::Depot(line), Access::Write, Miss::Independent);
    }
}

#[cfg(test)]
mod tests;
