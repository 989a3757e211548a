//! An owner of pages can only add pages to the flush batch for its unmapping. It can neither end that
//! batch, nor drop it, nor replace it with another.

use framewright::{
    Platform,
    tlb::{FlushBatch, Flusher, Unmapping},
};

fn ends<P: Platform>(batch: &mut Unmapping<'_, '_, '_, P>) {
    batch.flush();
    batch.finish(&mut drop);
}

fn replaces<'f, 'm, P: Platform>(
    batch: &mut Unmapping<'_, 'f, 'm, P>,
    flusher: &Flusher<'f, 'm, P>,
) {
    let other: FlushBatch<'f, 'm, P> = flusher.batch(&mut []);
    core::mem::forget(core::mem::replace(batch.0, other));
}

fn main() {}
