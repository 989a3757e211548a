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
//! So it is given back to the maps before anybody is refused or served from another type's
//! pageblocks, and closed while memory is short or a pageblock is withheld. Only blocks without
//! neighbours come here at all.
//!
//! It lives inside the zone's lock. To the maps its blocks are allocated.
//!
//! Invariants: of a stack, every chunk but the top one is full; a chunk is on one stack, or unused;
//! the blocks of all stacks together are no more frames than the limit.

use crate::{
    buddy::{Bundle, MigrateType, Part, Watch},
    frame::Order,
    platform::{Access, Cost, Miss},
    tuning::{Auto, ZoneTuning},
};

/// Blocks in a chunk: with the link, four cache lines.
const CHUNK_BLOCKS: usize = 63;
/// Orders 0 to this may lie in a depot: those that lists of CPUs keep by mobility.
const LARGEST_ORDER: u8 = 3;
const STACKS: usize = (LARGEST_ORDER as usize + 1) * MigrateType::PCP;
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
}

impl Chunk {
    pub(crate) const EMPTY: Self = Self { blocks: [0; CHUNK_BLOCKS], next: NIL };
}

/// Blocks of one order, in pageblocks of one type: what one stack holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind(u8);

impl Kind {
    /// The kind of a block in a pageblock whose type has this number, if such may lie in a depot.
    #[inline(always)]
    pub(crate) const fn of(order: Order, type_number: u8) -> Option<Self> {
        if order.get() <= LARGEST_ORDER && (type_number as usize) < MigrateType::PCP {
            Some(Self(order.get() * MigrateType::PCP as u8 + type_number))
        } else {
            None
        }
    }

    #[inline(always)]
    pub(crate) const fn order(self) -> Order {
        match Order::new(self.0 / MigrateType::PCP as u8) {
            Some(order) => order,
            None => Order::ZERO,
        }
    }

    fn is_of(self, of: MigrateType) -> bool {
        self.0 % MigrateType::PCP as u8 == of as u8
    }

    fn all() -> impl Iterator<Item = Kind> {
        (0..STACKS as u8).map(Kind)
    }
}

/// Blocks of one kind, the colder ones first: what comes out of a depot, or goes into it.
pub(crate) struct Loose {
    kind: Option<Kind>,
    blocks: [u32; Loose::CAPACITY],
    len: usize,
}

impl Loose {
    /// As many as a ring holds.
    pub(crate) const CAPACITY: usize = 128;

    /// No blocks of whatever kind.
    pub(crate) const fn new() -> Self {
        Self { kind: None, blocks: [0; Self::CAPACITY], len: 0 }
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks[..self.len.min(Self::CAPACITY)]
    }

    pub(crate) fn frames(&self) -> u64 {
        self.kind.map_or(0, |kind| (self.len as u64) << kind.order().get())
    }

    /// Adds the blocks of a bundle; `false` if they are of another kind than those that are here,
    /// or too many.
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: Kind, bundle: Bundle) -> bool {
        let other = self.kind.is_some_and(|has| has != kind);
        if other || self.len + bundle.blocks() as usize > Self::CAPACITY {
            return false;
        }
        self.kind = Some(kind);
        for block in bundle.frames() {
            self.push(block);
        }
        true
    }

    #[inline(always)]
    fn push(&mut self, block: u32) {
        self.blocks[self.len % Self::CAPACITY] = block;
        self.len += 1;
    }

    /// Moves blocks that `which` names to `out`, which is empty.
    pub(crate) fn part(&mut self, out: &mut Loose, which: impl Fn(u32) -> bool) {
        let len = core::mem::take(&mut self.len);
        out.kind = self.kind;
        for i in 0..len {
            let block = self.blocks[i];
            if which(block) { out.push(block) } else { self.push(block) }
        }
    }

    /// Takes the block that was freed last.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.blocks[self.len])
    }

    /// Puts blocks that are neighbours in memory next to each other.
    pub(crate) fn sort(&mut self) {
        self.blocks[..self.len].sort_unstable();
    }

    pub(crate) fn clear(&mut self) {
        (self.kind, self.len) = (None, 0);
    }
}

#[derive(Clone, Copy)]
struct Stack {
    top: u32,
    blocks: u32,
}

impl Stack {
    /// Blocks in the top chunk; 0 if there is none.
    #[inline(always)]
    fn in_top(self) -> usize {
        match self.blocks as usize % CHUNK_BLOCKS {
            0 if self.blocks > 0 => CHUNK_BLOCKS,
            rest => rest,
        }
    }
}

pub(crate) struct Depot<'m> {
    stacks: [Stack; STACKS],
    chunks: &'m mut [Chunk],
    /// The first unused chunk.
    unused: u32,
    frames: u64,
    limit: u64,
}

impl<'m> Depot<'m> {
    /// Chunks that a depot of `limit` frames needs.
    pub(crate) const fn chunks(limit: u64) -> usize {
        if limit == 0 { 0 } else { (limit as usize).div_ceil(CHUNK_BLOCKS) + STACKS }
    }

    /// An empty depot for up to `limit` frames, in as many chunks as [`Depot::chunks`] says.
    pub(crate) fn new(chunks: &'m mut [Chunk], limit: u64) -> Self {
        let count = chunks.len() as u32;
        for (next, chunk) in (1..).zip(chunks.iter_mut()) {
            chunk.next = if next < count { next } else { NIL };
        }
        let limit = if count == 0 { 0 } else { limit };
        let stacks = [Stack { top: NIL, blocks: 0 }; STACKS];
        Self { stacks, chunks, unused: if count > 0 { 0 } else { NIL }, frames: 0, limit }
    }

    /// Frames in it.
    #[inline(always)]
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that it may hold.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether it has blocks in pageblocks of type `of`, or of any.
    pub(crate) fn has(&self, of: Option<MigrateType>) -> bool {
        self.frames > 0 && self.fullest(of).is_some()
    }

    /// A kind that it has blocks of: the one with the most.
    pub(crate) fn fullest(&self, of: Option<MigrateType>) -> Option<Kind> {
        let suits = |kind: &Kind| of.is_none_or(|of| kind.is_of(of));
        let blocks = |kind: &Kind| self.stacks[usize::from(kind.0)].blocks;
        Kind::all().filter(suits).filter(|kind| blocks(kind) > 0).max_by_key(blocks)
    }

    /// Takes in all of some blocks; `false` if there is no room for them.
    #[inline(always)]
    pub(crate) fn give(&mut self, loose: &Loose, watch: impl Watch) -> bool {
        let Some(kind) = loose.kind() else { return true };
        let frames = loose.frames();
        if self.frames + frames > self.limit {
            return false;
        }
        self.frames += frames;
        tell_of_stack(watch, kind);
        let mut rest = loose.blocks();
        while !rest.is_empty() {
            let stack = &mut self.stacks[usize::from(kind.0)];
            let mut at = stack.in_top();
            if at % CHUNK_BLOCKS == 0 {
                // The limit leaves every stack a chunk that is not full.
                let Some(chunk) = self.chunks.get_mut(self.unused as usize) else { return false };
                let next = core::mem::replace(&mut chunk.next, stack.top);
                stack.top = core::mem::replace(&mut self.unused, next);
                at = 0;
            }
            let chunk = &mut self.chunks[stack.top as usize];
            let count = rest.len().min(CHUNK_BLOCKS - at);
            chunk.blocks[at..at + count].copy_from_slice(&rest[..count]);
            tell_of_blocks(watch, stack.top, at, count);
            stack.blocks += count as u32;
            rest = &rest[count..];
        }
        true
    }

    /// Moves up to `most` blocks of a kind to `out`, which is empty: those that came last.
    #[inline(always)]
    pub(crate) fn take(&mut self, kind: Kind, most: usize, out: &mut Loose, watch: impl Watch) {
        let stack = &mut self.stacks[usize::from(kind.0)];
        let total = most.min(stack.blocks as usize).min(Loose::CAPACITY);
        tell_of_stack(watch, kind);
        let mut left = total;
        while left > 0 {
            let at = stack.in_top();
            let count = left.min(at);
            let chunk = &mut self.chunks[stack.top as usize];
            out.blocks[left - count..left].copy_from_slice(&chunk.blocks[at - count..at]);
            tell_of_blocks(watch, stack.top, at - count, count);
            if count == at {
                let below = core::mem::replace(&mut chunk.next, self.unused);
                self.unused = core::mem::replace(&mut stack.top, below);
            }
            stack.blocks -= count as u32;
            left -= count;
        }
        (out.kind, out.len) = (Some(kind), total);
        self.frames -= out.frames();
    }
}

/// Lines that the heads of the stacks take.
const HEAD_LINES: u32 = (STACKS * size_of::<Stack>()).div_ceil(64) as u32;

/// Tells that a stack is used.
#[inline(always)]
fn tell_of_stack(watch: impl Watch, kind: Kind) {
    let head = (usize::from(kind.0) * size_of::<Stack>() / 64) as u32;
    watch.cost(Cost::DepotStacks, 1);
    watch.touch(Part::Depot(head), Access::Write, Miss::Dependent);
}

/// Tells of so many blocks of a chunk that were copied, and of the lines that they take.
#[inline(always)]
fn tell_of_blocks(watch: impl Watch, chunk: u32, from: usize, count: usize) {
    const CHUNK_LINES: u32 = (size_of::<Chunk>() / 64) as u32;
    const LINE_BLOCKS: usize = 64 / size_of::<u32>();
    if !watch.listens() {
        return;
    }
    watch.cost(Cost::DepotBlocks, count as u32);
    for line in from / LINE_BLOCKS..(from + count).div_ceil(LINE_BLOCKS) {
        let line = HEAD_LINES + chunk * CHUNK_LINES + line as u32;
        watch.touch(Part::Depot(line), Access::Write, Miss::Independent);
    }
}
