//! The interface of a flush batch to an owner of pages during an unmap.

use super::{FlushBatch, Translation};
use crate::{
    platform::Platform,
    types::{CpuId, Pfn},
};

/// A view of a flush batch that only allows to add removed translations. The batch cannot be
/// flushed, finished or replaced through this value.
///
/// The library passes it to [`PageOwner::unmap`](crate::reclaim::PageOwner::unmap) and
/// [`Mover::unmap`](crate::migrate::Mover::unmap). An embedder with a batch of its own calls
/// [`FlushBatch::unmapping`].
pub struct Unmapping<'b, 'f, 'm, P: Platform>(&'b mut FlushBatch<'f, 'm, P>);

impl<'f, 'm, P: Platform> FlushBatch<'f, 'm, P> {
    /// The view of the batch for the owner of pages, which can only add translations.
    pub fn unmapping(&mut self) -> Unmapping<'_, 'f, 'm, P> {
        Unmapping(self)
    }
}

impl<P: Platform> Unmapping<'_, '_, '_, P> {
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
