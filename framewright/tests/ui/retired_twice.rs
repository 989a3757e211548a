//! A block that was given to a flush batch no longer belongs to its former owner.

use framewright::{Block, CpuToken, Platform, tlb::FlushBatch};

fn attack<'m, P: Platform>(
    batch: &mut FlushBatch<'_, 'm, P>,
    token: &mut CpuToken<'_, 'm, P>,
    block: Block<'m>,
) {
    let _ = batch.retire(block);
    let _ = token.free(block);
}

fn main() {}
