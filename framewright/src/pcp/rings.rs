//! The rings of one CPU, the store behind them, and the other data that only code inside the owner
//! protocol uses.

use super::{ListIndex, Sizing, index::RING, store::BundleStore, traffic::Burst, trim::Trims};
use crate::hardening::Quarantine;

/// The lists of one CPU for one zone, without their hot fields, which are in [`CpuPages`](super::CpuPages).
pub(crate) struct Lists<'m> {
    pub(super) rings: [[u32; RING]; ListIndex::COUNT],
    pub(super) store: BundleStore<'m>,
    pub(super) quarantine: Quarantine<'m>,
    /// Lists that recently ran out of blocks, a bit each.
    pub(super) ran_out: u32,
    /// Lists whose blocks went to the store or came from it since the last call of [`Lists::leaving`], a
    /// bit each.
    pub(super) used: u32,
    /// Blocks that still bypass the store.
    pub(super) bypasses: u16,
    /// Frees in emptying pageblocks before the next look at the zone lock.
    pub(super) postponed: u16,
    pub(super) burst: Burst,
    /// The count of frames allocated, at the last move of blocks from a full ring.
    pub(super) allocated_before: u64,
    /// Frames in the store and in quarantine.
    pub(super) stored: u64,
    pub(super) trims: Trims,
    pub(super) sizing: Sizing,
}

impl<'m> Lists<'m> {
    /// Initialises empty lists in their place.
    ///
    /// # Safety
    ///
    /// `at` points to memory for lists, which nobody else uses.
    #[allow(unsafe_code)]
    pub(super) unsafe fn init(at: *mut Self, store: BundleStore<'m>, quarantine: Quarantine<'m>) {
        // SAFETY: the memory is the caller's promise. Zeroes are values of integers.
        unsafe {
            (&raw mut (*at).rings).write_bytes(0, 1);
            (&raw mut (*at).store).write(store);
            (&raw mut (*at).quarantine).write(quarantine);
            (&raw mut (*at).ran_out).write(0);
            (&raw mut (*at).used).write(0);
            (&raw mut (*at).bypasses).write(0);
            (&raw mut (*at).postponed).write(0);
            (&raw mut (*at).burst).write(Burst::default());
            (&raw mut (*at).allocated_before).write(0);
            (&raw mut (*at).stored).write(0);
            (&raw mut (*at).trims).write(Trims::default());
            (&raw mut (*at).sizing).write(Sizing::disabled());
            // A field that is missing above is missing here: the compiler refuses it.
            #[rustfmt::skip]
            let Self {
                rings: _, store: _, quarantine: _, ran_out: _, used: _, bypasses: _, postponed: _, burst: _, allocated_before: _,
                stored: _, trims: _, sizing: _,
            } = &*at;
        }
    }

    /// The ring of a list. Its length is in [`CpuPages`](super::CpuPages).
    #[inline(always)]
    pub(super) fn ring(&mut self, list: ListIndex) -> &mut [u32; RING] {
        &mut self.rings[list.get()]
    }
}
