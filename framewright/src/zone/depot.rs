//! The depot of a zone: free blocks on their way from the lists of one CPU to those of another.
//!
//! Frames that are freed in random order reach the zone one by one. Each free costs accesses to a
//! word of a map and to a header, and perhaps a list operation. Soon some CPU takes the frames
//! again, one by one, at the same cost. So such blocks are not freed to the buddy allocator. They
//! are copied to a stack, sixteen per cache line, and copied back, last in, first out. The design
//! follows magazines and depots (Bonwick and Adams, 2001) and lazy coalescing (Barkley and Lee,
//! 1989). But a batch is copied, not exchanged as a whole, because the lists of a CPU are rings.
//!
//! A depot is bounded, because a block in the depot cannot merge. Blocks are returned to the
//! buddy allocator one chunk per hold of the lock, from the bottom of a stack. Before a request is
//! served from pageblocks of another type, all blocks of its own type are returned. Before a request
//! is refused, all blocks are returned. The depot takes nothing while memory is short or a pageblock
//! is isolated. A drain hands over *bundles*: neighbouring blocks of one 64-frame group. Bundles of at
//! most two blocks go to the depot, since larger ones are cheap to free. While most are so small,
//! full rings are handed over as numbers. In a burst of high-order frees all bundles go to the depot,
//! because another CPU allocates them again soon, while they are still in a cache.
//!
//! Blocks that do not circulate are returned as well. For each stack the least height within an
//! interval is recorded. The blocks below that height were not used in this interval (Bonwick's
//! working set of the magazine layer); their number is the *surplus*. During the next interval, each refill
//! of a CPU and each drain into the depot returns the bottom chunk of one stack with surplus, even if only
//! a part of the chunk is surplus. If the stack has only one chunk, as many blocks as are surplus are
//! returned, off the top, because a chunk has no gaps.
//!
//! The depot is protected by the zone lock. In the buddy allocator its blocks count as allocated.
//!
//! Invariants: in a stack, every chunk except the top one is full; a chunk is on one stack or
//! unused; the frames of all blocks are within the limit.

use core::{mem, ops::Range};

use super::{BlockKind, BlockStack};
use crate::{
    buddy::{Part, Watch},
    platform::{Access, Cost, Miss},
    tuning::{Auto, ZoneTuning},
    types::{MigrateType, Order},
};

/// Blocks in a chunk. With the links a chunk is four cache lines.
const CHUNK_BLOCKS: usize = 62;
/// No chunk.
const NIL: u32 = u32::MAX;

/// By default the depot of a zone may contain at most the frames of the zone divided by this.
const SHARE: u64 = 128;
/// If at most this many CPUs share a zone, its depot by default contains no more than [`FEW_CPUS_MAX`] frames, because
/// only a CPU that frees the frames of another uses the depot.
const FEW_CPUS: u64 = 8;
/// Four times the frames that one refill takes from the depot.
const FEW_CPUS_MAX: u64 = 512;

/// Frames that the depot of a zone of `managed` frames may contain if `cpus` CPUs share the zone.
pub(crate) fn depot_frames(tuning: &ZoneTuning, managed: u64, cpus: u64) -> u64 {
    match tuning.depot_divisor {
        Auto::Auto if cpus <= 1 => 0,
        Auto::Auto if cpus <= FEW_CPUS => (managed / SHARE).min(FEW_CPUS_MAX),
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
    /// The chunk above, if this chunk is not on top.
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
    /// The least value of `blocks` in this interval.
    least: u32,
}

impl Stack {
    const EMPTY: Self = Self { top: NIL, bottom: NIL, blocks: 0, least: 0 };

    /// Records that `blocks` blocks were taken off the top.
    fn remove(&mut self, blocks: u32) {
        self.blocks -= blocks;
        self.least = self.least.min(self.blocks);
    }

    /// Blocks in the top chunk; 0 if there is no chunk.
    fn in_top(self) -> usize {
        match self.blocks as usize % CHUNK_BLOCKS {
            0 if self.blocks > 0 => CHUNK_BLOCKS,
            rest => rest,
        }
    }

    /// Whether the top chunk is full, or there is none.
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
    /// For each stack, the blocks at the bottom that were not used in the last interval.
    surplus: [u32; BlockKind::COUNT],
    has_surplus: bool,
}

impl<'m> Depot<'m> {
    /// Chunks that a depot of `limit` frames needs.
    pub(crate) const fn chunks(limit: u64) -> usize {
        if limit == 0 { 0 } else { (limit as usize).div_ceil(CHUNK_BLOCKS) + BlockKind::COUNT }
    }

    /// An empty depot for up to `limit` frames, in as many chunks as [`Depot::chunks`] returns.
    pub(crate) fn new(chunks: &'m mut [Chunk], limit: u64) -> Self {
        let mut unused = NIL;
        for (at, chunk) in chunks.iter_mut().enumerate().rev() {
            chunk.next = mem::replace(&mut unused, at as u32);
        }
        let limit = if chunks.is_empty() { 0 } else { limit };
        Self {
            stacks: [Stack::EMPTY; BlockKind::COUNT],
            chunks,
            unused,
            frames: 0,
            limit,
            surplus: [0; BlockKind::COUNT],
            has_surplus: false,
        }
    }

    /// Frames in the depot.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that the depot may contain.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether the depot has blocks in pageblocks of type `of`.
    pub(crate) fn has(&self, of: MigrateType) -> bool {
        let stacks =
            BlockKind::all().filter(|kind| kind.is_of(of)).map(|kind| self.stacks[kind.get()]);
        self.frames > 0 && stacks.into_iter().any(|stack| stack.blocks > 0)
    }

    /// A kind with blocks in pageblocks of type `of`, or of any type if `of` is `None`. A kind
    /// whose blocks serve a request of `order` without merging is preferred, then the kind with the
    /// most blocks.
    fn most_useful(&self, of: Option<MigrateType>, order: Order) -> Option<BlockKind> {
        let suits = |kind: &BlockKind| of.is_none_or(|of| kind.is_of(of));
        let blocks = |kind: &BlockKind| self.stacks[kind.get()].blocks;
        let worth = |kind: &BlockKind| (kind.order() >= order, blocks(kind));
        BlockKind::all().filter(suits).filter(|kind| blocks(kind) > 0).max_by_key(worth)
    }

    /// A kind that still has surplus blocks, which were not used in this interval either.
    fn surplus_kind(&self) -> Option<BlockKind> {
        let left = |kind: &BlockKind| self.surplus[kind.get()].min(self.stacks[kind.get()].least);
        BlockKind::all().find(|kind| left(kind) > 0)
    }

    /// Whether the last interval left surplus blocks. The flag is not updated when such blocks are
    /// used, so it may be out of date.
    pub(crate) fn has_surplus(&self) -> bool {
        self.has_surplus
    }

    /// Ends an interval: blocks that were not used in it are surplus from now on.
    pub(crate) fn end_interval(&mut self) {
        for (stack, surplus) in self.stacks.iter_mut().zip(&mut self.surplus) {
            (*surplus, stack.least) = (stack.least, stack.blocks);
        }
        self.has_surplus = self.surplus_kind().is_some();
    }

    /// Moves the bottom chunk of a kind, its coldest blocks, to `out`. `which` selects the kind, and
    /// `out` must be empty. From a stack of one chunk, takes all blocks with [`FlushScope::For`], and as
    /// many as are surplus with [`FlushScope::Surplus`]: the topmost ones, because the blocks of a chunk
    /// start at its bottom without gaps.
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
        let Some(entries) = out.open(kind, CHUNK_BLOCKS) else { return };
        let bottom = stack.bottom;
        let chunk = &mut self.chunks[bottom as usize];
        entries.copy_from_slice(&chunk.blocks);
        probe_blocks(watch, bottom, 0..CHUNK_BLOCKS);
        let above = mem::replace(&mut chunk.above, NIL);
        chunk.next = mem::replace(&mut self.unused, bottom);
        self.chunks[above as usize].next = NIL;
        stack.bottom = above;
        stack.blocks -= CHUNK_BLOCKS as u32;
        // The chunk at the bottom has the blocks that have been in the depot longest.
        for count in [&mut stack.least, &mut self.surplus[kind.get()]] {
            *count = count.saturating_sub(CHUNK_BLOCKS as u32);
        }
        self.frames -= (CHUNK_BLOCKS as u64) << kind.order().get();
    }

    /// Puts all of `blocks` into the depot, or none of them. Returns `false` if they would exceed
    /// the limit.
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

    /// Moves up to `most` blocks of a kind, those added last, to `out`. Returns their number.
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

    /// Puts an unused chunk on top of a stack. There is always one, because [`Depot::chunks`]
    /// counts one partly filled chunk for each stack.
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

/// The blocks that are returned to the buddy.
#[derive(Clone, Copy)]
pub(crate) enum FlushScope {
    /// Blocks of a kind with surplus: some were not used for an interval.
    Surplus,
    /// Blocks for a request of this order, in pageblocks of this type; `None`: of any type.
    For(Option<MigrateType>, Order),
}

/// Cache lines that the array of stacks takes.
const HEAD_LINES: u32 = (BlockKind::COUNT * size_of::<Stack>()).div_ceil(64) as u32;

/// Reports to the machine that a stack is used.
fn probe_stack(watch: impl Watch, kind: BlockKind) {
    let head = (kind.get() * size_of::<Stack>() / 64) as u32;
    watch.cost(Cost::DepotStacks, 1);
    watch.touch(Part::Depot(head), Access::Write, Miss::Dependent);
}

/// Reports copied blocks of a chunk, and their cache lines, to the machine.
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
