//! The machine that the model checkers run the library on: its CPUs are model threads.

use super::{BarrierTarget, OwnerLock, Platform, Probe, Wait};
use crate::{
    sync::{PlainWord, SpinFlag},
    types::{Corruption, Order, Pfn},
};

#[cfg(not(framewright_loom))]
use crate::sync::tso::yield_now;
#[cfg(framewright_loom)]
use loom::thread::yield_now;

/// A machine of model threads. CPU n is model thread n + 1; thread 0 is the explored closure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) kind: OwnerLock,
    /// Whether remote barriers work. A [`OwnerLock::Biased`] machine needs them: `false` there is a
    /// bug that the test must find. A [`OwnerLock::Trylock`] machine needs none.
    pub(crate) barriers: bool,
    /// Whether the test contains bad frees, so that reports of corruption are not a failure.
    pub(crate) abused: bool,
}

impl Machine {
    pub(crate) const BIASED: Machine =
        Machine { kind: OwnerLock::Biased, barriers: true, abused: false };
    pub(crate) const TRYLOCK: Machine =
        Machine { kind: OwnerLock::Trylock, barriers: false, abused: false };
}

// SAFETY: the lock is the library's own. Under `tso` the checker provides the remote barrier. Loom
// has no remote barrier: there, drainer and owner each execute a SeqCst fence; the owner's stands
// where the real code has a compiler fence. A `Biased` machine without barriers breaks the promise
// on purpose: its tests expect the models to find the bug. A `Trylock` machine needs no barrier.
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        self.kind
    }

    fn remote_barrier(&self, target: BarrierTarget) {
        if self.barriers {
            remote_barrier(target);
        }
    }

    fn wait(&self, _why: Wait, _spins: u32) {
        yield_now();
    }

    unsafe fn clear(&self, _pfn: Pfn, _order: Order) {}
    unsafe fn copy(&self, _to: Pfn, _from: Pfn) {}

    fn now(&self) -> u64 {
        0
    }

    fn corruption(&self, report: &Corruption) {
        assert!(self.abused, "{report}");
    }
}

impl Probe for Machine {}

#[cfg(framewright_loom)]
fn remote_barrier(_target: BarrierTarget) {
    loom::sync::atomic::fence(crate::sync::Ordering::SeqCst);
}

#[cfg(not(framewright_loom))]
fn remote_barrier(target: BarrierTarget) {
    use crate::sync::tso::{Barrier, remote_barrier};
    remote_barrier(match target {
        BarrierTarget::Cpu(cpu) => Barrier::Thread(cpu.index() + 1),
        BarrierTarget::All => Barrier::All,
    });
}
