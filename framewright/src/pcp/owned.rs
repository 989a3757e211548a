//! A zone as seen from a CPU, for the owner of the CPU's lists.

#![allow(unsafe_code)]

use core::ops::Deref;

use super::{Lists, ZoneOnCpu};
use crate::platform::Platform;

/// A [`ZoneOnCpu`] with the right to enter its lists as their owner. Local allocations, frees and
/// drains through the lists borrow this value exclusively. All other operations use [`ZoneOnCpu`].
pub(crate) struct OwnedZoneOnCpu<'o, 'm, P: Platform>(ZoneOnCpu<'o, 'm, P>);

impl<'o, 'm, P: Platform> OwnedZoneOnCpu<'o, 'm, P> {
    /// The owner's view of the lists of `cpu`.
    ///
    /// # Safety
    ///
    /// As for [`CpuPages::owned`](super::CpuPages::owned).
    pub(crate) unsafe fn new(cpu: ZoneOnCpu<'o, 'm, P>) -> Self {
        Self(cpu)
    }

    /// Runs `f` on the lists; `None` if a drainer is inside or about to enter.
    pub(crate) fn enter<R>(
        &mut self,
        f: impl FnOnce(&ZoneOnCpu<'o, 'm, P>, &mut Lists<'m>) -> R,
    ) -> Option<R> {
        let at = &self.0;
        // SAFETY: the caller of `new` guarantees it, and this value is borrowed exclusively
        // meanwhile.
        let mut lists = unsafe { at.pages.owned() };
        lists.enter(at.platform, |lists| f(at, lists))
    }
}

impl<'o, 'm, P: Platform> Deref for OwnedZoneOnCpu<'o, 'm, P> {
    type Target = ZoneOnCpu<'o, 'm, P>;

    fn deref(&self) -> &ZoneOnCpu<'o, 'm, P> {
        &self.0
    }
}
