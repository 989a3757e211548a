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
    #[must_use]
    pub fn flusher<'f>(&'f self, cpu: CpuId, shootdown: &'f dyn Shootdown) -> Flusher<'f, 'm, P> {
        Flusher::new(&self.tlb, &self.platform, shootdown, cpu)
    }
}
