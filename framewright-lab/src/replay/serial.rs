//! The replay's platform: one thread, no frames, recorded time.

use std::sync::atomic::{AtomicU64, Ordering};

use framewright::observe::Corruption;
use framewright::platform::{BarrierTarget, OwnerLock, Probe, Wait};
use framewright::sync::{PlainWord, SpinFlag};
use framewright::{Order, Pfn, Platform};

/// A machine whose CPUs take turns on one thread. Frames have no contents.
#[derive(Debug, Default)]
pub(super) struct Serial {
    nanos: AtomicU64,
}

impl Serial {
    /// Sets the clock to the recorded time.
    pub(super) fn set_time(&self, nanos: u64) {
        self.nanos.store(nanos, Ordering::Relaxed);
    }
}

// SAFETY: the lock is the library's own, which excludes. This platform is private to the replay,
// which runs all CPUs on one thread, in program order: what one did is visible to the next without
// any barrier, so a remote barrier has nothing to do.
unsafe impl Platform for Serial {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) -> Self::Irq {}

    fn irq_restore(&self, (): Self::Irq) {}

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, _target: BarrierTarget) {}

    fn wait(&self, _why: Wait, _spins: u32) {
        std::hint::spin_loop();
    }

    fn clear(&self, _pfn: Pfn, _order: Order) {}

    fn copy(&self, _to: Pfn, _from: Pfn) {}

    fn now(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    /// A replay frees blocks, never raw frames.
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl Probe for Serial {}
