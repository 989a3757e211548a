//! A flush batch takes blocks, not frame numbers.

use framewright::{Block, Platform, tlb::FlushBatch};

fn attack<'m, P: Platform>(batch: &mut FlushBatch<'_, 'm, P>, held: &Block<'m>) {
    let _ = batch.retire(held.pfn());
}

fn main() {}
