//! The library's locks: locks of the engine, created when they are first taken. The class of a lock
//! is known when its holder reports which section it enters.

use super::Simulated;
use crate::engine::{LockClass, LockId};
use framewright::sync::RawLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A lock: its number in the engine plus one, 0 until it is first taken.
pub struct SimLock(AtomicU32);

impl SimLock {
    fn id(&self, platform: &Simulated) -> LockId {
        match self.0.load(Relaxed) {
            0 => {
                let id = platform.machine().new_lock(LockClass::Zone);
                self.0.store(id.0 + 1, Relaxed);
                id
            }
            number => LockId(number - 1),
        }
    }
}

// SAFETY: the engine grants a lock to one CPU at a time, and all CPUs run on one thread (on other
// threads the platform panics). Outside a run there is one caller only, which by the library's
// rules takes no lock twice. `Machine::observe` also runs without a CPU, but only while no CPU is inside a section, so
// none has a reference to data under a lock: the library enters the section right after it has taken the lock, and
// leaves it right before it releases the lock.
unsafe impl RawLock<Simulated> for SimLock {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    fn lock(&self, platform: &Simulated) {
        if let Some(cpu) = platform.cpu() {
            let id = self.id(platform);
            cpu.lock(id);
            platform.note_lock(id);
        }
    }

    #[inline]
    unsafe fn unlock(&self, platform: &Simulated) {
        if let Some(cpu) = platform.cpu() {
            cpu.unlock(self.id(platform));
        }
    }

    fn is_held(&self, platform: &Simulated) -> bool {
        platform.cpu().is_some_and(|cpu| cpu.is_held(self.id(platform)))
    }
}
