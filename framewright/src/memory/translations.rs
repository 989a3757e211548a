//! Flushing what CPUs have cached of page tables.

use super::Memory;
use crate::{
    platform::Platform,
    tlb::{Flusher, Shootdown, Tlb},
    types::CpuId,
};

impl<'m, P: Platform> Memory<'m, P> {
    /// What is known of translations: epochs of CPUs, deferred frames, counters.
    #[must_use]
    pub fn tlb(&self) -> &Tlb<'m, P> {
        &self.tlb
    }

    /// What `cpu`, on which the caller runs, does about translations.
    ///
    /// # Safety
    ///
    /// `shootdown` keeps the contract of [`Shootdown`] for all CPUs that cache translations to frames of this
    /// memory: frames are freed after its flushes. [`NoShootdown`](crate::tlb::NoShootdown) is correct only
    /// where no CPU caches such translations.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn flusher<'f>(
        &'f self,
        cpu: CpuId,
        shootdown: &'f dyn Shootdown,
    ) -> Flusher<'f, 'm, P> {
        self.flusher_by(cpu, shootdown)
    }

    /// As [`Memory::flusher`], for values whose `unsafe` constructor demands the same.
    pub(crate) fn flusher_by<'f>(
        &'f self,
        cpu: CpuId,
        shootdown: &'f dyn Shootdown,
    ) -> Flusher<'f, 'm, P> {
        Flusher::new(self, shootdown, cpu)
    }
}
