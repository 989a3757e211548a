//! A ready-made machine: one CPU, all memory mapped at one offset.

use super::{Mapped, Pinning};
use crate::{
    platform::{BarrierTarget, CpuId, OwnerLock, Platform, Probe, Wait},
    sync::{PlainWord, SpinFlag},
    types::{Corruption, FRAME_SIZE, Order, Pfn},
};

/// A machine with one CPU whose memory is mapped at one offset, for new kernels.
///
/// Its clock does not advance, which suffices if nothing is reclaimed. A value serves one memory, and cannot be copied.
///
/// # Example
///
/// ```
/// use framewright::{Config, FrameRange, Layout, Memory, Pfn, global::{Mapped, OneCpu}};
///
/// # let mut ram = vec![0u64; 1 << 20];
/// # let address = ram.as_mut_ptr().expose_provenance().next_multiple_of(4096);
/// // Frame 0 is at `address`, and 1024 frames follow.
/// let map = [FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap().into()];
/// let config = Config::new(&map, 1);
/// # let mut metadata = framewright_fakes::Metadata::new(Layout::new::<OneCpu>(&config)?.bytes());
/// // SAFETY: the frames are mapped there, one CPU uses the memory, and no interrupt handler does.
/// let machine = unsafe { OneCpu::new(address, |report| panic!("{report}")) };
/// let memory = Memory::new(machine, &config, metadata.as_mut())?;
/// assert_eq!(memory.platform().address(Pfn::new(1)).addr(), address + 4096);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OneCpu {
    /// The address at which physical address 0 is mapped.
    offset: usize,
    corruption: fn(&Corruption),
}

impl OneCpu {
    /// A machine whose frame n is mapped at `offset` + n * [`FRAME_SIZE`](crate::frame::FRAME_SIZE). It calls
    /// `corruption` with [reports of hardening](Platform::corruption).
    ///
    /// # Safety
    ///
    /// * Memory is mapped at these addresses, as [`Mapped`] requires, for the map of the memory that gets this value. No
    ///   other memory has frames of that map.
    /// * Only one CPU, and no interrupt handler, uses memories that run on this machine. Threads are not preempted
    ///   while they use them.
    #[must_use]
    pub const unsafe fn new(offset: usize, corruption: fn(&Corruption)) -> Self {
        Self { offset, corruption }
    }
}

// SAFETY: the creator promises that memory is mapped at the offset, for the one memory that gets the value.
unsafe impl Mapped for OneCpu {
    fn address(&self, pfn: Pfn) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.offset.wrapping_add(pfn.address() as usize))
    }
}

// SAFETY: the creator promises that there is one CPU, whose threads are not preempted meanwhile.
unsafe impl Pinning for OneCpu {
    type Pin = ();

    #[inline(always)]
    fn pin(&self) -> (CpuId, ()) {
        (CpuId::new(0), ())
    }

    #[inline(always)]
    fn unpin(&self, (): ()) {}
}

// SAFETY: lock and word are the library's own. There is no other CPU that a barrier would have to reach.
unsafe impl Platform for OneCpu {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    #[inline(always)]
    fn irq_save(&self) {}

    #[inline(always)]
    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, _: BarrierTarget) {}

    fn wait(&self, _: Wait, _: u32) {
        core::hint::spin_loop();
    }

    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        let bytes = order.frames() as usize * FRAME_SIZE;
        // SAFETY: the caller owns the frames, which are mapped there.
        unsafe { self.address(pfn).write_bytes(0, bytes) }
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        // SAFETY: the caller owns both frames, which are different and mapped there.
        unsafe { self.address(to).copy_from_nonoverlapping(self.address(from), FRAME_SIZE) }
    }

    fn now(&self) -> u64 {
        0
    }

    fn corruption(&self, report: &Corruption) {
        (self.corruption)(report);
    }
}

impl Probe for OneCpu {}
