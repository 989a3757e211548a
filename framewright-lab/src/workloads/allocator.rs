//! The seam to allocators: what one CPU may ask of one.
//!
//! Bodies own blocks by value: a block cannot be freed twice, whichever allocator it is from.

use framewright::{Block, CpuToken, Order, Pfn, Platform, Request};

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
