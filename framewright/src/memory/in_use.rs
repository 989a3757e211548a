//! Memory that is in use at boot (Linux: reserved in memblock).
//!
//! The memory map names such ranges ([`Presence::InUse`](super::Presence)). Their frames are taken from the zones when
//! the memory is created, as extents are. Each range can be taken once, as an [`Extent`], which is freed like any
//! other: as a whole or in parts.

use super::{Memory, layout::InUse};
use crate::{
    platform::Platform,
    sync::Ordering,
    types::{Extent, FrameRange, RangeError, Violation},
};

impl<'m, P: Platform> Memory<'m, P> {
    /// Takes the frames that are in use from the start out of the zones. The memory is not shared yet.
    pub(super) fn reserve_in_use(&self) {
        for range in self.in_use {
            self.core.reserve(range.frames);
        }
    }

    /// Returns, as an extent, the frames of a range that the memory map names as [in use](super::Presence::InUse). Each
    /// range can be taken once. Frames that are never freed need not be taken.
    ///
    /// # Errors
    ///
    /// [`RangeError::NotInUse`] if the memory map has no such range; [`RangeError::HandedOut`] if it was taken
    /// before, or a part of it was freed by [`Memory::free_range_raw`].
    pub fn take_in_use(&self, range: FrameRange) -> Result<Extent<'m>, RangeError> {
        let named = self.in_use.iter().find(|named| named.frames == range);
        let named = named.ok_or(RangeError::NotInUse)?;
        if named.handed_out.swap(true, Ordering::AcqRel) {
            return Err(RangeError::HandedOut);
        }
        Ok(Extent::new(self.core.tag(), range))
    }

    /// Frees frames of extents, or of ranges in use from the start, in any parts. For kernels that store frame numbers.
    ///
    /// From [`Hardening::Checked`](crate::tuning::Hardening::Checked) on the call is refused, and
    /// reported through [`Platform::corruption`], if a frame is free in the zone or part of a block
    /// of another order. *Checked* does not detect that frames are on the lists of CPUs, or belong to
    /// blocks of order 0 or of the order of a pageblock; *tracked* does.
    ///
    /// # Errors
    ///
    /// [`RangeError::Empty`] and [`RangeError::NotOurs`] refuse the range. [`RangeError::BadFree`] names the
    /// first frame that cannot be freed, and the reason. After an error, nothing has changed.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as extents of this memory, or as ranges in use from the start that were not taken,
    /// and no longer uses them.
    #[allow(unsafe_code)]
    pub unsafe fn free_range_raw(&self, range: FrameRange) -> Result<(), RangeError> {
        // SAFETY: the contract is that of this function.
        unsafe { self.core.free_range_raw(range) }?;
        for named in self.in_use.iter().filter(|named| named.overlaps(range)) {
            named.handed_out.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Checks that untaken frames in use from the start are allocated.
    pub(super) fn check_in_use(&self) -> Result<(), Violation> {
        let is_freed = |named: &&InUse| {
            !named.handed_out.load(Ordering::Acquire)
                && self.core.frames_in_use(named.frames) != named.frames.frames()
        };
        match self.in_use.iter().find(is_freed) {
            Some(named) => Err(Violation {
                what: "memory in use from the start is free although it was not taken",
                at: named.frames.start().get(),
            }),
            None => Ok(()),
        }
    }
}
