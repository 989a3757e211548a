//! Allocating the largest available blocks first, for balloons.

use super::CpuToken;
use crate::{
    platform::Platform,
    types::{AllocError, Block, Order, Request},
};

impl<'m, P: Platform> CpuToken<'_, 'm, P> {
    /// Allocates the largest available block, up to the order of `request`, without waiting. A
    /// balloon that is inflated in this way leaves the rest of memory as unfragmented as possible,
    /// and consists of few blocks.
    ///
    /// # Errors
    ///
    /// The reason why not even a single frame is available.
    pub fn alloc_largest(&mut self, request: Request) -> Result<Block<'m>, AllocError> {
        let request = request.no_wait();
        // The zones may have no large block left while the lists of this CPU still hold one, of at
        // most a pageblock.
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
