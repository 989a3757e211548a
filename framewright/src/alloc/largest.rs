//! The largest blocks first: for balloons.

use super::CpuToken;
use crate::{
    platform::Platform,
    types::{AllocError, Block, Order, Request},
};

impl<'m, P: Platform> CpuToken<'_, 'm, P> {
    /// Allocates a block as large as there is one, up to the order of `request`, without waiting
    /// for any. A balloon that is inflated like this leaves the rest of memory as whole as it
    /// can, and its owner's books short.
    ///
    /// # Errors
    ///
    /// Why not even a single frame could be had.
    pub fn alloc_largest(&mut self, request: Request) -> Result<Block<'m>, AllocError> {
        let request = request.no_wait();
        // The lists of this CPU may hold blocks up to a pageblock that the zones have no longer.
        let of_zones = self.memory().largest_free_order().unwrap_or_default();
        let largest = of_zones.max(Order::PAGEBLOCK).min(request.order());
        let mut orders = Order::all().filter(|&order| order <= largest).rev();
        let found = orders.find_map(|order| self.alloc(request.of_order(order)).ok());
        match found {
            Some(block) => Ok(block),
            None => self.alloc(request.of_order(Order::ZERO)),
        }
    }
}
