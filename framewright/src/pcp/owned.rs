//! A CPU's lists with the zone behind them, for their owner.

#![allow(unsafe_code)]

use core::ops::Deref;

use super::{Cpu, Lists, pages::Owned};
use crate::platform::Platform;

/// A [`Cpu`] with the right to enter its lists as their owner. Allocating from the lists, freeing
/// to them and draining them locally take it exclusively; all else goes through [`Cpu`].
pub(crate) struct OwnedCpu<'o, 'm, P: Platform> {
    cpu: Cpu<'o, 'm, P>,
    lists: Owned<'o, 'm, P>,
}

impl<'o, 'm, P: Platform> OwnedCpu<'o, 'm, P> {
    /// The lists of `cpu`, to be entered.
    ///
    /// # Safety
    ///
    /// As for [`CpuPages::owned`](super::CpuPages::owned).
    pub(crate) unsafe fn new(cpu: Cpu<'o, 'm, P>) -> Self {
        // SAFETY: the caller's promise.
        Self { cpu, lists: unsafe { cpu.pages.owned() } }
    }

    /// Runs `f` on the lists; `None` if a drainer is inside or on its way.
    pub(crate) fn enter<R>(&mut self, f: impl FnOnce(&mut Lists<'m>) -> R) -> Option<R> {
        self.lists.enter(self.cpu.platform, f)
    }
}

impl<'o, 'm, P: Platform> Deref for OwnedCpu<'o, 'm, P> {
    type Target = Cpu<'o, 'm, P>;

    fn deref(&self) -> &Cpu<'o, 'm, P> {
        &self.cpu
    }
}
