//! The traits that a machine implements for a [`Global`](super::Global), besides `Platform`.

use crate::{
    platform::{CpuId, Platform},
    types::Pfn,
};

/// A machine that can keep a caller on its CPU.
///
/// # Safety
///
/// Between [`Pinning::pin`] and [`Pinning::unpin`]
/// * the caller runs on the CPU that `pin` returned;
/// * no other thread runs on that CPU, except while the caller waits in a hook of its own ([`Platform::wait`] and
///   [`Relief`](crate::platform::Relief)). Interrupt handlers may run; each ends before the caller continues.
///
/// All accesses before `unpin` happen before a later `pin` that returns the same CPU.
pub unsafe trait Pinning: Platform {
    /// The state that `unpin` needs, for example whether preemption was disabled before.
    type Pin;

    /// Keeps the caller on its CPU, and returns that CPU. Calls nest. A kernel without preemption has nothing to do.
    /// Others disable preemption. Interrupts should not be masked, because a request may wait between the two calls.
    fn pin(&self) -> (CpuId, Self::Pin);

    /// Undoes [`Pinning::pin`].
    fn unpin(&self, pin: Self::Pin);
}

/// A machine whose memory is mapped.
///
/// # Safety
///
/// Every frame that is present and not in use in a memory map of this machine is mapped at the address that
/// [`Mapped::address`] returns. While the program runs, this mapping is readable and writable, and no other code uses
/// the frame. Neighbouring frames have neighbouring addresses.
///
/// No other memory has these frames. Safe code can create a memory from any value of the type, with
/// any map. So either only unsafe code can create a value, and guarantees that each map used with
/// it keeps these promises; or there is only one value, and it can only be used with one map.
pub unsafe trait Mapped: Platform {
    /// The address of a frame.
    fn address(&self, pfn: Pfn) -> *mut u8;
}
