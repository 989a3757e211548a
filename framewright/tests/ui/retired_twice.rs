//! A block that a flush batch has is no longer its former owner's.

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
