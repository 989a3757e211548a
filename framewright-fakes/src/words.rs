//! The lock and the atomic words of [`FakePlatform`](crate::FakePlatform).

use framewright::sync::{Ordering, PlainWord, RawLock, RawWord, SpinFlag};

use crate::FakePlatform;

/// A spinlock. The platform decides whether it [looks held](crate::FakePlatform::set_contention).
pub struct Lock(SpinFlag);

impl Lock {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

// SAFETY: it is the library's own lock.
unsafe impl<const TRACED: bool, const PROBED: bool> RawLock<FakePlatform<TRACED, PROBED>> for Lock {
    fn new() -> Self {
        Self(<SpinFlag as RawLock<FakePlatform<TRACED, PROBED>>>::new())
    }

    fn lock(&self, platform: &FakePlatform<TRACED, PROBED>) {
        self.0.lock(platform);
        platform.locks.note_taken(self.address());
    }

    unsafe fn unlock(&self, platform: &FakePlatform<TRACED, PROBED>) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock(platform) };
    }

    fn is_held(&self, platform: &FakePlatform<TRACED, PROBED>) -> bool {
        platform.locks.is_held(self.address())
    }
}

/// An atomic word. On a platform with biased owners and without a barrier, it panics if a second thread uses it.
pub struct Word(PlainWord);

// SAFETY: all operations are those of the library's own word.
unsafe impl<const TRACED: bool, const PROBED: bool> RawWord<FakePlatform<TRACED, PROBED>> for Word {
    fn new(value: u32) -> Self {
        Self(<PlainWord as RawWord<FakePlatform<TRACED, PROBED>>>::new(value))
    }

    fn load(&self, platform: &FakePlatform<TRACED, PROBED>, order: Ordering) -> u32 {
        platform.check_thread();
        self.0.load(platform, order)
    }

    fn store(&self, platform: &FakePlatform<TRACED, PROBED>, value: u32, order: Ordering) {
        platform.check_thread();
        self.0.store(platform, value, order);
    }

    fn compare_exchange(
        &self,
        platform: &FakePlatform<TRACED, PROBED>,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        platform.check_thread();
        self.0.compare_exchange(platform, current, new, success, failure)
    }
}
