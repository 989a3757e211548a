//! Flushing what CPUs have cached of page tables.

use super::Memory;
use crate::{
    platform::{CpuId, Platform},
    tlb::{Flusher, Shootdown, Tlb},
};

impl<'m, P: Platform> Memory<'m, P> {
    /// What is known of translations: epochs of CPUs, parked frames, counters.
    #[must_use]
    pub fn tlb(&self) -> &Tlb<'m, P> {
        &self.tlb
    }

    /// What `cpu`, on which the caller runs, does about translations.
    ///
    /// # Safety
    ///
    /// `shootdown` does what [`Shootdown`] says, for all CPUs that cache translations to frames of this
    /// memory: frames are freed because of it. [`NoShootdown`](crate::tlb::NoShootdown) is right only
    /// where no CPU caches any.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn flusher<'f>(
        &'f self,
        cpu: CpuId,
        shootdown: &'f dyn Shootdown,
    ) -> Flusher<'f, 'm, P> {
        self.flusher_by(cpu, shootdown)
    }

    /// [`Memory::flusher`], for values whose maker has promised the same.
    pub(crate) fn flusher_by<'f>(
        &'f self,
        cpu: CpuId,
        shootdown: &'f dyn Shootdown,
    ) -> Flusher<'f, 'm, P> {
        Flusher::new(self, shootdown, cpu)
    }
}
