//! The interfaces to machines (time, work besides allocations, the contents of frames) and to
//! allocators, as one CPU sees them. Workloads own blocks by value, so they cannot free a block
//! twice.

use framewright::{Block, CpuToken, Order, Pfn, Platform, Request};
use std::fmt;

/// Work besides allocations. Real machines do some of it, simulated ones charge its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// A page fault that maps a page, without allocating and clearing it.
    Fault,
    /// Adding this number of pages to the LRU lists.
    LruAdd(u32),
    /// Unmapping this number of pages and removing them from the LRU lists.
    Unmap(u32),
    /// Flushing all translations of a process whose threads run on all of `cpus` CPUs.
    Shootdown {
        /// CPUs of the machine.
        cpus: u16,
    },
    /// Computing for this number of cycles.
    Compute(u64),
}

/// A machine, as one CPU sees it. `B` is the type of the blocks.
pub(crate) trait World<B> {
    /// Whether the CPU is to start another round of its work.
    fn continues(&mut self) -> bool;

    /// Whether the CPU is to stop and free its frames, in the middle of a round.
    fn is_over(&self) -> bool;

    /// The CPU's time in nanoseconds, if reading it is free; otherwise 0.
    fn now(&self) -> u64 {
        0
    }

    /// Does a task, or charges its cost.
    fn perform(&self, task: Task);

    /// Whether those words of the block that [`World::touch`] writes are zero.
    fn is_cleared(&self, block: &B) -> bool;

    /// Touches the block: writes `value` into it.
    fn touch(&self, block: &mut B, value: u64);

    /// Verifies that the block still has the `value` that was written.
    ///
    /// # Errors
    ///
    /// The value that was found instead.
    fn verify(&self, block: &B, value: u64) -> Result<(), Overwritten>;

    /// Copies a message made from `value` into all of the block, `hot` frames of which are in this
    /// CPU's cache.
    fn copy_in(&self, block: &mut B, value: u64, hot: u32);

    /// Copies the message made from `value` out of the block.
    ///
    /// # Errors
    ///
    /// The value that was found instead.
    fn copy_out(&self, block: &B, value: u64, hot: u32) -> Result<(), Overwritten>;
}

/// A block that was overwritten by another owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overwritten {
    /// The block's first frame.
    pub(crate) pfn: Pfn,
    /// The value that was found.
    pub(crate) found: u64,
    /// The value that was expected.
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
    /// An owned block. It may be freed on another CPU than that of its allocation.
    type Block: Frames + Send;

    /// Allocates a block, cleared if requested.
    ///
    /// # Errors
    ///
    /// The reason why there is none.
    fn alloc(&mut self, request: Request) -> Result<Self::Block, String>;

    /// Frees a block.
    fn free(&mut self, block: Self::Block);

    /// Frees the blocks in the slots, one after the other, and leaves the slots empty.
    fn free_batch(&mut self, blocks: &mut [Option<Self::Block>]) {
        for block in blocks.iter_mut().filter_map(Option::take) {
            self.free(block);
        }
    }
}

/// The frames of a block.
pub(crate) trait Frames {
    /// The first frame.
    fn pfn(&self) -> Pfn;

    /// The number of frames, as a power of two.
    fn order(&self) -> Order;
}

impl Frames for Block<'_> {
    #[inline(always)]
    fn pfn(&self) -> Pfn {
        self.pfn()
    }

    #[inline(always)]
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
        // There is only one memory, so it accepts the block. A leak would be detected at the end.
        let _ = self.0.free(block);
    }

    #[inline]
    fn free_batch(&mut self, blocks: &mut [Option<Block<'m>>]) {
        self.0.free_bulk(blocks);
    }
}

/// A pipe of small capacity between two CPUs. Sender and receiver wait for each other in the manner
/// of their machine.
pub(crate) trait Pipe<T> {
    /// Sends `item`, waiting for a free slot.
    ///
    /// # Errors
    ///
    /// The item, if the pipe is closed.
    fn send(&self, item: T) -> Result<(), T>;

    /// Receives the next item, waiting for one; `None` if the pipe is closed and empty.
    fn receive(&self) -> Option<T>;

    /// Closes the pipe for both sides. Items in it can still be received.
    fn close(&self);
}

/// A message: blocks, the value that was written into them, and the CPU that wrote it.
pub(crate) struct Message<B> {
    pub(crate) blocks: Vec<B>,
    pub(crate) value: u64,
    pub(crate) written_on: u16,
}

impl<B: Frames> Message<B> {
    /// The number of its frames.
    pub(crate) fn frames(&self) -> u64 {
        self.blocks.iter().map(|block| block.order().frames()).sum()
    }
}
