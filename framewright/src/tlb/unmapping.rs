//! The part of a flush batch that an owner of pages gets to see while it unmaps.

use super::{FlushBatch, Translation};
use crate::{
    platform::Platform,
    types::{CpuId, Pfn},
};

/// The flush batch that unmapped translations go into. The batch itself stays with its owner: through this
/// value it can neither be flushed nor finished, nor can another batch be put in its place.
///
/// The library passes it to [`PageOwner::unmap`](crate::reclaim::PageOwner::unmap) and
/// [`Mover::unmap`](crate::migrate::Mover::unmap). An embedder that has a batch of its own gets one from
/// [`FlushBatch::unmapping`].
pub struct Unmapping<'b, 'f, 'm, P: Platform>(&'b mut FlushBatch<'f, 'm, P>);

impl<'b, 'f, 'm, P: Platform> Unmapping<'b, 'f, 'm, P> {
    pub(super) fn new(batch: &'b mut FlushBatch<'f, 'm, P>) -> Self {
        Self(batch)
    }

    /// The CPU that unmaps.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.0.flusher().cpu()
    }

    /// As [`FlushBatch::add`].
    pub fn add(&mut self, pfn: Pfn, translation: &Translation<'_>) {
        self.0.add(pfn, translation);
    }
}
