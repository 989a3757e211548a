//! The TLB state of a memory.

use super::Memory;
use crate::{
    platform::Platform,
    tlb::{Flusher, Shootdown, Tlb},
    types::CpuId,
};

impl<'m, P: Platform> Memory<'m, P> {
    /// The TLB state: epochs of CPUs, deferred frames, counters.
    #[must_use]
    pub fn tlb(&self) -> &Tlb<'m, P> {
        &self.tlb
    }

    /// A flusher for `cpu`, on which the caller runs.
    ///
    /// # Safety
    ///
    /// `shootdown` fulfils the contract of [`Shootdown`] for all CPUs that cache translations to
    /// frames of this memory, because frames are freed after its flushes.
    /// [`NoShootdown`](crate::tlb::NoShootdown) is correct only if no CPU caches such translations.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn flusher<'f>(
        &'f self,
        cpu: CpuId,
        shootdown: &'f dyn Shootdown,
    ) -> Flusher<'f, 'm, P> {
        Flusher::new(&self.core, &self.tlb, shootdown, cpu)
    }
}
