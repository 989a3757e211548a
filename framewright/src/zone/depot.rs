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
//! neighbours come here, and those that one CPU frees in bursts because another allocates them: what
//! goes round like that is still in a cache while it goes round fast.
//!
//! It lives inside the zone's lock. To the maps its blocks are allocated.
//!
//! Invariants: of a stack, every chunk but the top one is full; a chunk is on one stack, or unused;
//! the blocks of all stacks together are no more frames than the limit.

use core::{mem, ops::Range};

use super::{Kind, Loose};
use crate::{
    buddy::{MigrateType, Part, Watch},
    platform::{Access, Cost, Miss},
    tuning::{Auto, ZoneTuning},
};

/// Blocks in a chunk: with the link, four cache lines.
const CHUNK_BLOCKS: usize = 63;
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

    /// Whether the top chunk has no room, or there is none.
    #[inline(always)]
    fn is_full(self) -> bool {
        (self.blocks as usize).is_multiple_of(CHUNK_BLOCKS)
    }
}

pub(crate) struct Depot<'m> {
    stacks: [Stack; Kind::COUNT],
    chunks: &'m mut [Chunk],
    /// The first unused chunk.
    unused: u32,
    frames: u64,
    limit: u64,
}

impl<'m> Depot<'m> {
    /// Chunks that a depot of `limit` frames needs.
    pub(crate) const fn chunks(limit: u64) -> usize {
        if limit == 0 { 0 } else { (limit as usize).div_ceil(CHUNK_BLOCKS) + Kind::COUNT }
    }

    /// An empty depot for up to `limit` frames, in as many chunks as [`Depot::chunks`] says.
    pub(crate) fn new(chunks: &'m mut [Chunk], limit: u64) -> Self {
        let count = chunks.len() as u32;
        for (next, chunk) in (1..).zip(chunks.iter_mut()) {
            chunk.next = if next < count { next } else { NIL };
        }
        let limit = if count == 0 { 0 } else { limit };
        let stacks = [Stack { top: NIL, blocks: 0 }; Kind::COUNT];
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
        let blocks = |kind: &Kind| self.stacks[kind.get()].blocks;
        Kind::all().filter(suits).filter(|kind| blocks(kind) > 0).max_by_key(blocks)
    }

    /// Takes in all of some blocks; `false` if there is no room for them.
    #[inline(always)]
    pub(crate) fn give(&mut self, loose: &Loose, watch: impl Watch) -> bool {
        let frames = loose.frames();
        let fits = self.frames + frames <= self.limit;
        if fits {
            self.frames += frames;
            loose.runs().for_each(|(kind, blocks)| self.push(kind, blocks, watch));
        }
        fits
    }

    #[inline(always)]
    fn push(&mut self, kind: Kind, blocks: &[u32], watch: impl Watch) {
        tell_of_stack(watch, kind);
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
            tell_of_blocks(watch, stack.top, at..at + count);
            stack.blocks += count as u32;
            rest = &rest[count..];
        }
    }

    /// Moves up to `most` blocks of a kind to `out`, those that came last; returns how many.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        kind: Kind,
        most: usize,
        out: &mut Loose,
        watch: impl Watch,
    ) -> usize {
        tell_of_stack(watch, kind);
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
            tell_of_blocks(watch, stack.top, at..end);
            stack.blocks -= (end - at) as u32;
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
    fn add_chunk(&mut self, kind: Kind) {
        let top = &mut self.stacks[kind.get()].top;
        let chunk = &mut self.chunks[self.unused as usize];
        let next = mem::replace(&mut chunk.next, *top);
        *top = mem::replace(&mut self.unused, next);
    }

    /// Takes the top chunk off a stack.
    fn remove_chunk(&mut self, kind: Kind) {
        let top = &mut self.stacks[kind.get()].top;
        let chunk = &mut self.chunks[*top as usize];
        let below = mem::replace(&mut chunk.next, self.unused);
        self.unused = mem::replace(top, below);
    }
}

/// Lines that the heads of the stacks take.
const HEAD_LINES: u32 = (Kind::COUNT * size_of::<Stack>()).div_ceil(64) as u32;

/// Tells that a stack is used.
#[inline(always)]
fn tell_of_stack(watch: impl Watch, kind: Kind) {
    let head = (kind.get() * size_of::<Stack>() / 64) as u32;
    watch.cost(Cost::DepotStacks, 1);
    watch.touch(Part::Depot(head), Access::Write, Miss::Dependent);
}

/// Tells of so many blocks of a chunk that were copied, and of the lines that they take.
#[inline(always)]
fn tell_of_blocks(watch: impl Watch, chunk: u32, blocks: Range<usize>) {
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
mod tests {
    use super::*;
    use crate::frame::Order;
    use std::{vec, vec::Vec};

    fn kind(order: u8, of: MigrateType) -> Kind {
        Kind::of(Order::new(order).unwrap(), of as u8).unwrap()
    }

    fn with_depot(limit: u64, test: impl FnOnce(&mut Depot<'_>)) {
        let mut chunks = vec![Chunk::EMPTY; Depot::chunks(limit)];
        test(&mut Depot::new(&mut chunks, limit));
    }

    fn give(depot: &mut Depot<'_>, kind: Kind, blocks: &[u32]) -> bool {
        let mut loose = Loose::new();
        loose.open(kind, blocks.len()).unwrap().copy_from_slice(blocks);
        depot.give(&loose, ())
    }

    fn take(depot: &mut Depot<'_>, kind: Kind, most: usize) -> Vec<u32> {
        let mut loose = Loose::new();
        depot.take(kind, most, &mut loose, ());
        loose.runs().flat_map(|(_, blocks)| blocks.to_vec()).collect()
    }

    /// A stack is a list of which the end is cut off, however long the pieces are.
    #[test]
    fn stacks_are_stacks() {
        with_depot(4000, |depot| {
            let kinds = [kind(0, MigrateType::Movable), kind(1, MigrateType::Unmovable)];
            let mut truth = [vec![], vec![]];
            let mut next = 0;
            let mut random = 1u32;
            for _ in 0..4000 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (which, count) = ((random >> 31) as usize, (random >> 8) as usize % 129);
                let (kind, truth) = (kinds[which], &mut truth[which]);
                if random >> 30 & 1 == 0 {
                    let blocks: Vec<u32> = (next..next + count as u32).collect();
                    next += count as u32;
                    if give(depot, kind, &blocks) {
                        truth.extend(blocks);
                    }
                } else {
                    let kept = truth.len() - count.min(truth.len());
                    assert_eq!(take(depot, kind, count), truth.split_off(kept));
                }
            }
            assert_eq!(depot.frames(), (truth[0].len() + 2 * truth[1].len()) as u64);
        });
    }

    #[test]
    fn what_does_not_fit_as_a_whole_stays_outside() {
        with_depot(100, |depot| {
            let pages = kind(0, MigrateType::Movable);
            assert!(give(depot, pages, &[7; 99]));
            assert!(!give(depot, pages, &[8, 9]));
            assert!(!give(depot, kind(1, MigrateType::Movable), &[10]));
            assert!(give(depot, pages, &[11]));
            assert_eq!(take(depot, pages, 2), [7, 11]);
            assert_eq!(depot.frames(), 98);
        });
        with_depot(0, |depot| assert!(!give(depot, kind(0, MigrateType::Movable), &[0])));
    }

    #[test]
    fn there_is_room_for_the_limit_however_it_is_spread() {
        for order in 0..4 {
            with_depot(640, |depot| {
                let kinds: Vec<Kind> =
                    Kind::all().filter(|kind| kind.order().get() <= order).collect();
                let mut i = 0;
                while give(depot, kinds[i % kinds.len()], &[i as u32]) {
                    i += 1;
                }
                assert!(depot.frames() + 8 > 640, "{}", depot.frames());
            });
        }
    }

    #[test]
    fn the_fullest_of_a_type_is_named() {
        with_depot(100, |depot| {
            let (page, pair) = (kind(0, MigrateType::Movable), kind(1, MigrateType::Movable));
            assert_eq!(depot.fullest(None), None);
            assert!(give(depot, page, &[1]) && give(depot, pair, &[2, 4]));
            assert!(give(depot, kind(3, MigrateType::Reclaimable), &[8, 16, 24]));
            assert_eq!(depot.fullest(Some(MigrateType::Movable)), Some(pair));
            assert_eq!(depot.fullest(None), Some(kind(3, MigrateType::Reclaimable)));
            assert!(!depot.has(Some(MigrateType::Unmovable)));
        });
    }
}
