//! The page array: one 64-byte descriptor per frame, and doubly linked lists through them.
//!
//! Lists cause the costs of the classic buddy allocator: an insertion or a removal touches the
//! descriptors of the block and of its neighbours on that list, each a cache line anywhere in
//! memory.
//!
//! Links are frame numbers. Every list is a ring through a *head*, which is an additional
//! descriptor after those of the frames. A block can therefore be unlinked without knowledge of its
//! list.
//!
//! **Access.** A descriptor belongs to the holder of the lock of its list, or to the owner of the
//! allocated block. Fields are relaxed atomics: plain loads and stores to the processor. A merge
//! reads the mark of a buddy that may belong to another owner. The value may be stale, but the read
//! is not undefined behaviour.
//!
//! **Memory.** Descriptors start as zeroes, which are valid for a frame that is on no list. Unused
//! descriptors therefore take no memory: the simulation of a machine with many nodes needs only the
//! descriptors of used frames.

use super::{MigrateType, OutOfMemory, Threads, Touch, lock::Machine};
use bytemuck::{Zeroable, allocation::try_zeroed_vec};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Orders of the free lists: 0 to 10.
pub const ORDERS: usize = 11;
/// The largest order.
pub const MAX_ORDER: u8 = ORDERS as u8 - 1;
/// The order of a pageblock, the unit of grouping by mobility.
pub(super) const PAGEBLOCK_ORDER: u8 = 9;
/// Frames per pageblock.
pub(super) const PAGEBLOCK_FRAMES: u32 = 1 << PAGEBLOCK_ORDER;
/// Migratetypes with lists.
pub(super) const TYPES: usize = 3;
/// Lists of one CPU: 12 for orders 0 to 3 by type, one for movable huge blocks, one for other huge
/// blocks, and a private one for blocks on their way to the zone.
pub(super) const CPU_LISTS: usize = 15;

/// The state of a frame in its descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// Not the first frame of a block; or a frame without a mark yet, as in fresh memory.
    Tail,
    /// First frame of a free block of the zone, of this order.
    Buddy(u8),
    /// First frame of a block on a CPU's list.
    Listed(u8),
    /// First frame of an allocated block.
    Used(u8, MigrateType),
}

impl Mark {
    const fn pack(self) -> u32 {
        match self {
            Self::Tail => 0,
            Self::Buddy(order) => (1 << 8) | (order as u32),
            Self::Listed(order) => (2 << 8) | (order as u32),
            Self::Used(order, migratetype) => ((3 + migratetype as u32) << 8) | (order as u32),
        }
    }

    const fn unpack(word: u32) -> Self {
        let order = word as u8;
        match word >> 8 {
            0 => Self::Tail,
            1 => Self::Buddy(order),
            2 => Self::Listed(order),
            3 => Self::Used(order, MigrateType::Unmovable),
            4 => Self::Used(order, MigrateType::Movable),
            _ => Self::Used(order, MigrateType::Reclaimable),
        }
    }
}

/// The words of a frame's descriptor that the allocator uses.
#[derive(Zeroable)]
pub struct Links {
    next: AtomicU32,
    previous: AtomicU32,
    mark: AtomicU32,
}

/// A descriptor as large as that of a real kernel, whose remaining words belong to the owner of the
/// page. Because of its size and alignment, the words that the allocator uses share no cache line
/// with those of another descriptor. With a larger alignment, the system's allocator would zero the
/// whole array itself, instead of using fresh pages of the kernel, which are zero.
#[repr(C, align(16))]
#[derive(Zeroable)]
pub struct Page {
    links: Links,
    _owner: [u32; 13],
}

/// The per-frame data of a machine.
pub trait Descriptor: Zeroable + Send + Sync {
    /// The words that the allocator uses.
    fn links(&self) -> &Links;
}

impl Descriptor for Page {
    #[inline(always)]
    fn links(&self) -> &Links {
        &self.links
    }
}

impl Descriptor for Links {
    #[inline(always)]
    fn links(&self) -> &Links {
        self
    }
}

/// A list: the number of its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct List(u32);

/// All descriptors, all list heads, and the type of every pageblock.
pub(super) struct Pages<M: Machine = Threads> {
    machine: M,
    pages: Vec<M::Descriptor>,
    pageblocks: Vec<AtomicU8>,
    frames: u32,
}

impl<M: Machine> Pages<M> {
    /// Descriptors for `frames` frames, none of them free, and empty lists for `cpus` CPUs. All
    /// pageblocks start out movable.
    ///
    /// # Errors
    ///
    /// The system refused the memory of the descriptors.
    pub(super) fn new(machine: M, frames: u32, cpus: usize) -> Result<Self, OutOfMemory> {
        let lists = (ORDERS * TYPES + cpus * CPU_LISTS) as u32;
        let number = (frames + lists) as usize;
        let refused = |()| OutOfMemory { bytes: number * size_of::<M::Descriptor>() };
        let pages: Vec<M::Descriptor> = try_zeroed_vec(number).map_err(refused)?;
        for head in frames..frames + lists {
            pages[head as usize].links().next.store(head, Relaxed);
            pages[head as usize].links().previous.store(head, Relaxed);
        }
        let movable = || AtomicU8::new(MigrateType::Movable as u8);
        Ok(Self {
            machine,
            pages,
            pageblocks: (0..frames.div_ceil(PAGEBLOCK_FRAMES)).map(|_| movable()).collect(),
            frames,
        })
    }

    /// The machine.
    #[inline]
    pub(super) fn machine(&self) -> &M {
        &self.machine
    }

    /// Descriptor `number`. Reports the access to the machine.
    #[inline]
    fn page(&self, number: u32, touch: Touch) -> &Links {
        let page = &self.pages[number as usize];
        self.machine.expect(number, page);
        self.machine.touch(number, touch);
        page.links()
    }

    /// Announces to the machine that descriptor `number` is likely to be touched next.
    #[inline]
    pub(super) fn expect(&self, number: u32) {
        if let Some(page) = self.pages.get(number as usize) {
            self.machine.expect(number, page);
        }
    }

    /// Makes the system provide memory for all descriptors, so that no later access faults.
    pub(super) fn populate(&self) {
        for page in &self.pages {
            let mark = &page.links().mark;
            mark.store(mark.load(Relaxed), Relaxed);
        }
    }

    /// Managed frames.
    #[inline]
    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes of descriptors, list heads and pageblock types.
    pub(super) fn bytes(&self) -> usize {
        self.pages.len() * size_of::<M::Descriptor>() + self.pageblocks.len()
    }

    /// The zone's list of free blocks of an order and type.
    #[inline]
    pub(super) fn free_list(&self, order: u8, migratetype: MigrateType) -> List {
        List(self.frames + u32::from(order) * TYPES as u32 + migratetype as u32)
    }

    /// List `index` of a CPU.
    #[inline]
    pub(super) fn cpu_list(&self, cpu: usize, index: usize) -> List {
        List(self.frames + (ORDERS * TYPES + cpu * CPU_LISTS + index) as u32)
    }

    #[inline]
    pub(super) fn mark(&self, frame: u32) -> Mark {
        Mark::unpack(self.page(frame, Touch::Read).mark.load(Relaxed))
    }

    #[inline]
    pub(super) fn set_mark(&self, frame: u32, mark: Mark) {
        self.page(frame, Touch::Write).mark.store(mark.pack(), Relaxed);
    }

    /// Whether a free block of exactly this order starts at `frame` (which may lie outside).
    #[inline]
    pub(super) fn is_buddy(&self, frame: u32, order: u8) -> bool {
        frame < self.frames
            && self.page(frame, Touch::Read).mark.load(Relaxed) == Mark::Buddy(order).pack()
    }

    /// The type of the pageblock that `frame` lies in.
    #[inline]
    pub(super) fn pageblock_type(&self, frame: u32) -> MigrateType {
        match self.pageblocks[(frame >> PAGEBLOCK_ORDER) as usize].load(Relaxed) {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            _ => MigrateType::Reclaimable,
        }
    }

    /// Changes the type of every pageblock that the block at `frame` overlaps.
    pub(super) fn set_pageblock_type(&self, frame: u32, order: u8, migratetype: MigrateType) {
        let first = (frame >> PAGEBLOCK_ORDER) as usize;
        let count = 1 << order.saturating_sub(PAGEBLOCK_ORDER);
        for pageblock in &self.pageblocks[first..first + count] {
            pageblock.store(migratetype as u8, Relaxed);
        }
    }

    /// The block at the head of a list.
    #[inline]
    pub(super) fn first(&self, list: List) -> Option<u32> {
        let first = self.page(list.0, Touch::Read).next.load(Relaxed);
        (first != list.0).then_some(first)
    }

    /// Whether a list is empty. The machine is not told of this access, so it costs nothing.
    pub(super) fn is_empty(&self, list: List) -> bool {
        self.pages[list.0 as usize].links().next.load(Relaxed) == list.0
    }

    /// The block at the tail of a list.
    #[inline]
    pub(super) fn last(&self, list: List) -> Option<u32> {
        let last = self.page(list.0, Touch::Read).previous.load(Relaxed);
        (last != list.0).then_some(last)
    }

    /// The block after `frame` on its list.
    #[inline]
    pub(super) fn after(&self, list: List, frame: u32) -> Option<u32> {
        let next = self.page(frame, Touch::Read).next.load(Relaxed);
        self.expect(next);
        (next != list.0).then_some(next)
    }

    /// Makes a list empty. All of its blocks are already on other lists.
    #[inline]
    pub(super) fn make_empty(&self, list: List) {
        let head = self.page(list.0, Touch::Write);
        head.next.store(list.0, Relaxed);
        head.previous.store(list.0, Relaxed);
    }

    #[inline]
    pub(super) fn push_head(&self, list: List, frame: u32) {
        let next = self.page(list.0, Touch::Change).next.load(Relaxed);
        self.link(list.0, frame, next);
    }

    #[inline]
    pub(super) fn push_tail(&self, list: List, frame: u32) {
        let previous = self.page(list.0, Touch::Change).previous.load(Relaxed);
        self.link(previous, frame, list.0);
    }

    /// Removes a block from its list.
    #[inline]
    pub(super) fn unlink(&self, frame: u32) {
        let page = self.page(frame, Touch::Change);
        let (next, previous) = (page.next.load(Relaxed), page.previous.load(Relaxed));
        self.expect(next);
        self.expect(previous);
        self.page(next, Touch::Write).previous.store(previous, Relaxed);
        self.page(previous, Touch::Write).next.store(next, Relaxed);
    }

    #[inline]
    fn link(&self, previous: u32, frame: u32, next: u32) {
        let page = self.page(frame, Touch::Write);
        page.next.store(next, Relaxed);
        page.previous.store(previous, Relaxed);
        self.page(previous, Touch::Write).next.store(frame, Relaxed);
        self.page(next, Touch::Write).previous.store(frame, Relaxed);
    }

    /// Starts loading the descriptor of `frame` into the cache.
    #[inline]
    pub(super) fn prefetch(&self, frame: u32) {
        if let Some(page) = self.pages.get(frame as usize) {
            self.machine.touch(frame, Touch::Prefetch);
            // A plain load with an unused result has the effect of a prefetch.
            core::hint::black_box(page.links().mark.load(Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(pages: &Pages, list: List) -> Vec<u32> {
        let mut frames = Vec::new();
        let mut at = pages.pages[list.0 as usize].links().next.load(Relaxed);
        while at != list.0 {
            frames.push(at);
            at = pages.pages[at as usize].links().next.load(Relaxed);
        }
        frames
    }

    #[test]
    fn a_descriptor_is_as_large_as_a_cache_line() {
        assert_eq!((size_of::<Page>(), align_of::<Page>()), (64, 16));
    }

    #[test]
    fn marks_survive_packing() {
        assert_eq!(Mark::Tail.pack(), 0, "the mark of fresh memory");
        for order in 0..=MAX_ORDER {
            for mark in [
                Mark::Buddy(order),
                Mark::Listed(order),
                Mark::Used(order, MigrateType::Unmovable),
                Mark::Used(order, MigrateType::Movable),
                Mark::Used(order, MigrateType::Reclaimable),
            ] {
                assert_eq!(Mark::unpack(mark.pack()), mark);
            }
        }
        assert_eq!(Mark::unpack(Mark::Tail.pack()), Mark::Tail);
    }

    #[test]
    fn lists_keep_their_order_and_drop_unlinked_blocks() {
        let pages = Pages::new(Threads, 16, 1).unwrap();
        let list = pages.free_list(0, MigrateType::Movable);
        assert_eq!((pages.first(list), pages.last(list)), (None, None));
        pages.push_head(list, 3);
        pages.push_head(list, 7);
        pages.push_tail(list, 1);
        assert_eq!(content(&pages, list), [7, 3, 1]);
        assert_eq!((pages.first(list), pages.last(list)), (Some(7), Some(1)));
        pages.unlink(3);
        assert_eq!(content(&pages, list), [7, 1]);
        pages.unlink(7);
        pages.unlink(1);
        assert_eq!(content(&pages, list), []);
        assert_eq!(content(&pages, pages.cpu_list(0, 14)), []);
    }
}
