//! The seam to machines: time, what a CPU does beside allocating, and what is in frames.
//!
//! The seam to allocators: what one CPU may ask of one.
//!
//! Bodies own blocks by value: a block cannot be freed twice, whichever allocator it is from.

use framewright::{Block, CpuToken, Order, Pfn, Platform, Request};
use std::fmt;

/// What a CPU does beside allocating. Real machines do some of it, simulated ones charge for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Takes a page fault and maps a page, but for getting and clearing it.
    Fault,
    /// Adds so many pages to the lists of pages in use.
    LruAdd(u32),
    /// Unmaps so many pages and takes them off the lists of pages in use.
    Unmap(u32),
    /// Runs for so many cycles.
    Compute(u64),
}

/// The machine around one CPU, holding blocks `B`.
pub(crate) trait World<B> {
    /// Whether the CPU shall begin another round of its work.
    fn goes_on(&mut self) -> bool;

    /// Whether the CPU shall give back what it has, in the middle of a round.
    fn is_over(&self) -> bool;

    /// The CPU's time in nanoseconds, where reading it costs nothing; else 0.
    fn now(&self) -> u64 {
        0
    }

    /// Does, or charges for, a task.
    fn does(&self, task: Task);

    /// Whether the block reads as zeroes where it would be touched.
    fn is_cleared(&self, block: &B) -> bool;

    /// Touches the block: leaves `value` in it.
    fn touch(&self, block: &mut B, value: u64);

    /// Checks that the block still holds the `value` that it was touched with.
    ///
    /// # Errors
    ///
    /// What it holds instead.
    fn verify(&self, block: &B, value: u64) -> Result<(), Overwritten>;

    /// Copies a message made from `value` into all of the block, `hot` frames of which are in
    /// this CPU's cache.
    fn copy_in(&self, block: &mut B, value: u64, hot: u32);

    /// Copies the message made from `value` out of the block.
    ///
    /// # Errors
    ///
    /// What it holds instead.
    fn copy_out(&self, block: &B, value: u64, hot: u32) -> Result<(), Overwritten>;
}

/// A block does not hold what its owner left in it: somebody else wrote there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overwritten {
    /// The block's first frame.
    pub(crate) pfn: Pfn,
    /// What it holds.
    pub(crate) found: u64,
    /// What it should hold.
    pub(crate) expected: u64,
}

impl fmt::Display for Overwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, found, expected } = self;
        write!(f, "frame {pfn} holds {found:#x} instead of {expected:#x}")
    }
}

/// An allocator, as one CPU sees it.
pub(crate) trait Allocator {
    /// An owned block. It may be freed on another CPU than the one that allocated it.
    type Block: Frames + Send;

    /// Allocates a block, cleared if the request says so.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn alloc(&mut self, request: Request) -> Result<Self::Block, String>;

    /// Frees a block.
    fn free(&mut self, block: Self::Block);

    /// Frees what is in the slots, one after the other, and leaves them empty.
    fn free_batch(&mut self, blocks: &mut [Option<Self::Block>]) {
        for block in blocks.iter_mut().filter_map(Option::take) {
            self.free(block);
        }
    }
}

/// Which frames a block consists of.
pub(crate) trait Frames {
    /// The first.
    fn pfn(&self) -> Pfn;

    /// How many, as a power of two.
    fn order(&self) -> Order;
}

impl Frames for Block<'_> {
    fn pfn(&self) -> Pfn {
        self.pfn()
    }

    fn order(&self) -> Order {
        self.order()
    }
}

/// The library.
pub(crate) struct Library<'a, 'm, P: Platform>(pub(crate) CpuToken<'a, 'm, P>);

impl<'m, P: Platform> Allocator for Library<'_, 'm, P> {
    type Block = Block<'m>;

    #[inline(always)]
    fn alloc(&mut self, request: Request) -> Result<Block<'m>, String> {
        self.0.alloc(request).map_err(|error| error.to_string())
    }

    #[inline]
    fn free(&mut self, block: Block<'m>) {
        // One memory, so that no block is of another; it would be leaked, and missed in the end.
        let _ = self.0.free(block);
    }

    #[inline]
    fn free_batch(&mut self, blocks: &mut [Option<Block<'m>>]) {
        self.0.free_bulk(blocks);
    }
}

/// A way from one CPU to another with room for a few things. Sender and receiver wait for each
/// other in whatever way their machine waits.
pub(crate) trait Pipe<T> {
    /// Hands `thing` over, waiting for room.
    ///
    /// # Errors
    ///
    /// The thing, if nobody will take it.
    fn send(&self, thing: T) -> Result<(), T>;

    /// Takes the next thing, waiting for one; `None` when no more will come.
    fn receive(&self) -> Option<T>;

    /// Nobody sends or receives any more. What is inside can still be received.
    fn close(&self);
}

/// A message: blocks, and what was written into them.
pub(crate) struct Message<B> {
    pub(crate) blocks: Vec<B>,
    pub(crate) value: u64,
}
