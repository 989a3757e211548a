//! Allocating and freeing slices of blocks.

use super::CpuToken;
use crate::{
    platform::Platform,
    types::{Block, Request},
};

impl<'m, P: Platform> CpuToken<'_, 'm, P> {
    /// Fills the empty slots of `out` with blocks for `request` and returns how many slots are
    /// filled now. Stops at the first request that fails; partial success is normal.
    pub fn alloc_bulk(&mut self, request: Request, out: &mut [Option<Block<'m>>]) -> usize {
        for slot in out.iter_mut().filter(|slot| slot.is_none()) {
            match self.alloc(request) {
                Ok(block) => *slot = Some(block),
                Err(_) => break,
            }
        }
        out.iter().filter(|slot| slot.is_some()).count()
    }

    /// Frees the blocks in `blocks`, and empties their slots. A block of another memory stays in
    /// its slot.
    pub fn free_bulk(&mut self, blocks: &mut [Option<Block<'m>>]) {
        for slot in blocks {
            if let Some(block) = slot.take() {
                *slot = self.free(block).err();
            }
        }
    }
}
